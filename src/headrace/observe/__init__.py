"""Watching jobs while they run."""
