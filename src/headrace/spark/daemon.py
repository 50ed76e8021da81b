"""The parent of Spark's Python workers: they are forked from it, with our modules loaded.

A worker that imports Numba and the stages by itself needs more than a second for it, and looks
through them for garbage behind every task (`worker_memory`). Spark starts a parent for each kind of
worker; only those that run tasks compute, and the others, which ask for schemas and offsets, do
without.
"""

from __future__ import annotations

import sys

from pyspark.daemon import manager

from .worker_memory import settle

TASKS = "pyspark.worker"  # the module of the workers that run tasks


def load_all() -> None:
    """Load what tasks use, also what other processes load only when they need it."""
    import numpy as np
    import pyarrow as pa
    import pyspark.worker  # noqa: F401

    from headrace.connect import arrow_sink, json_sink, parquet_sink, sqlite_sink  # noqa: F401
    from headrace.stage.memory import dispatching  # noqa: F401
    from headrace.stage.memory.extensions import register_extensions

    from . import frames, keyed, keyed_task, outgoing, running, source  # noqa: F401

    register_extensions()  # Numba, for users' functions
    pa.array(np.zeros(1))  # Arrow looks for pandas when it sees NumPy's arrays


if __name__ == "__main__":
    if sys.argv[1:2] == [TASKS]:
        load_all()
        settle()
    manager()
