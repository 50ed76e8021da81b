"""Kinds of aggregates, one per file: what they keep for a key, and how rows enter it."""
