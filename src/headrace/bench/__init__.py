"""Benchmarks: harness, figures, tables and plots."""
