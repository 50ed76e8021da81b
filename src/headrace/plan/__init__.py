"""The logical plan: nodes, types, checks, rewrites and the cut into stages."""
