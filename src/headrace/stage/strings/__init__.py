"""Strings and bytes as 16-byte views, their hashes, and how user functions see them."""
