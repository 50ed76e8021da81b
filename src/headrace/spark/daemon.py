"""The parent of Spark's Python workers, with our modules loaded: workers are forked from it.

A worker that imports Numba and the stages by itself needs more than a second for it.
"""

from __future__ import annotations

from pyspark.daemon import manager

from . import frames, keyed, outgoing, source

__all__ = ["frames", "keyed", "outgoing", "source"]

if __name__ == "__main__":
    manager()
