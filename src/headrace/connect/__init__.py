"""Connectors: where rows come from and where they go, one per file, the same for every engine.

They follow the protocol of `headrace.plan.connector`. `headrace.read` and `headrace.write` name
them as users do.
"""
