"""Memory by name: records, atomics, and functions that run compiled or interpreted."""
