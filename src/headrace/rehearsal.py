"""A small run of the node engine, after which all that it needs is compiled and in the cache."""

from __future__ import annotations

from . import read
from .job import run


def rehearse() -> None:
    """Run a few rows through.

    >>> rehearse()
    """
    from .node.mode import load_the_rest

    run(read.memory({"n": [1, 2, 3]}).write.null(), engine="node", workers=1)
    load_the_rest()
