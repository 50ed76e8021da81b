"""Pipelines on Spark, through PySpark: Spark moves blocks, stages compute.

One streaming query runs a whole pipeline:

    source.py    a Python data source: a task reads a range of a channel and runs its first stage
    keyed.py     transformWithState, once for each level of exchanges: a shard owns key groups
    job.py       foreachBatch: the driver commits what tasks have staged, by the batch's name

Between them travel letters (`wire.py`): few rows, each with a block of many rows inside.
"""

from __future__ import annotations

from .explain import explain_on_spark
from .job import SparkJob, start
from .session import close_session

__all__ = ["SparkJob", "close_session", "explain_on_spark", "start"]
