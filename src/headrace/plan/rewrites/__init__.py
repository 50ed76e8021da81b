"""Rewrites: small pure functions from a graph to a graph that gives the same rows."""
