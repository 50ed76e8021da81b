"""The parent of Spark's Python workers: they are forked from it, with our modules loaded.

A worker that imports Numba and the stages by itself needs more than a second for it. Spark starts
a parent for each kind of worker; only those that run tasks compute, and the others, which ask for
schemas and offsets, do without.
"""

from __future__ import annotations

import sys

from pyspark.daemon import manager

from .worker_memory import settle

TASKS = "pyspark.worker"  # the module of the workers that run tasks

if __name__ == "__main__":
    if sys.argv[1:2] == [TASKS]:
        import pyspark.worker  # noqa: F401

        from . import frames, keyed, keyed_task, outgoing, running, source  # noqa: F401

        settle()
    manager()
