"""Kinds of windows, one per file: which windows a row belongs to, when they end, how they merge."""
