"""Workloads: data, pipeline and the expected answer of each benchmark query, one per module."""
