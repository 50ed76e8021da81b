"""Blocks: rows in columns, and the way to and from Arrow."""
