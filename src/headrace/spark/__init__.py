"""Pipelines on Spark, through PySpark: Spark moves blocks, stages compute.

One streaming query runs a whole pipeline:

    source.py    a Python data source: a task reads a range of a channel and runs its first stage
    keyed.py     a task for each shard, which owns key groups, behind each level of exchanges
    states.py    what the shards know, in files of the checkpoint folder
    job.py       foreachBatch: the driver commits what tasks have staged, by the batch's name

Between them travel messages (`wire.py`): few rows, each with a block of many rows inside.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headrace.connect.spark_versions import INSTALL

from .errors import SparkError

if TYPE_CHECKING:
    from .explain import explain_on_spark
    from .job import SparkJob, start
    from .session import close_session

__all__ = ["SparkJob", "close_session", "explain_on_spark", "start"]

_MODULES = {"close_session": ".session", "explain_on_spark": ".explain"}  # the others: .job


def __getattr__(name: str) -> Any:
    """Each is loaded when it is asked for: Spark's helper processes need only parts of this."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_MODULES.get(name, ".job"), __name__), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise SparkError(
            f'engine="spark" needs PySpark\n  fix: {INSTALL}, or use engine="node"'
        ) from None
