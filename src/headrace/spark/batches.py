"""Which query, and which of its batches, a task belongs to: as Spark tells it.

Spark's word for both are properties of the thread that runs a batch. A job that another thread
starts, inside of a user's `foreachBatch` say, has none: its tasks would take any batch for the
first one, with empty state, and give wrong rows. So they stop.
"""

from __future__ import annotations

from pathlib import Path

from pyspark import TaskContext

from headrace.plan.errors import StateError

from .files import write_file
from .shipment import Shipment

QUERY_ID = "sql.streaming.queryId"  # what Spark calls the lasting name of a streaming query
BATCH_ID = "streaming.sql.batchId"  # and the number of a micro-batch
OWNER = "query"  # the file that names the query to which the times in a folder belong


def batch_of_task(shipment: Shipment) -> int:
    """The number of the micro-batch that this task belongs to, from 1 on; 1 in a batch query."""
    return int(_property(BATCH_ID, "number of a batch")) + 1 if shipment.streaming else 1


def query_of_task(shipment: Shipment) -> str:
    """The lasting name of the streaming query that this task belongs to.

    A DataFrame that a user runs may be run by two queries: the second one is refused.
    """
    found = _property(QUERY_ID, "name of a query")
    if shipment.shared:
        _claim(Path(shipment.times), found, shipment.lasting)
    return found


def may_try_again(shipment: Shipment) -> bool:
    """Will Spark run this task again if it fails now?"""
    context = TaskContext.get()
    return context is not None and context.attemptNumber() + 1 < shipment.attempts


def _property(name: str, what: str) -> str:
    context = TaskContext.get()
    found = context.getLocalProperty(name) if context is not None else None
    if found is None:
        raise StateError(
            f"a task of a streaming query has no {what} ({name}), so its state cannot be found\n"
            "  fix: in foreachBatch, use the DataFrame in the thread that was called with it"
        )
    return str(found)


def _claim(folder: Path, query: str, lasting: bool) -> None:
    """Let a query have the times in a folder, if no other one has them."""
    path = folder / OWNER
    if not path.exists():  # tasks of one query write the same
        write_file(path, query.encode(), lasting=lasting)
    owner = path.read_text()
    if owner != query:
        raise StateError(
            f"the checkpoint {folder.parent} belongs to another query ({owner}, this one is "
            f"{query}), which would mix their event times and state\n  fix: give each query a "
            "to_spark(checkpoint=...) of its own, and keep Spark's checkpointLocation with it"
        )
