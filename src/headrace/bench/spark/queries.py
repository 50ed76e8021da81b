"""Running the two sides of a case, and timing their micro-batches by what Spark reports."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import headrace as hr
from headrace.write import Output

from .context import CORES, STEADY, WARM_UP, Context


@dataclass(frozen=True)
class Timed:
    """The seconds of the steady batches of one side, and what it gave out.

    >>> Timed([0.5, 0.25], None).rate(100)
    400.0
    """

    seconds: list[float]
    result: Any

    @property
    def best(self) -> float:
        """Seconds of the best batch."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """Seconds of the median batch."""
        return statistics.median(self.seconds)

    def rate(self, rows: int) -> float:
        """Rows per second of the best batch."""
        return rows / self.best


def steady(query: Any) -> list[float]:
    """Seconds of the batches behind the first two, of those that had rows; at most three."""
    found = {
        told["batchId"]: told["durationMs"]["triggerExecution"] / 1000
        for told in query.recentProgress
        if "addBatch" in told["durationMs"]
    }
    seconds = [found[batch] for batch in sorted(found)]
    return seconds[WARM_UP : WARM_UP + STEADY]


def run_ours(context: Context, output: Output, batch_rows: int, **options: Any) -> Timed:
    """Our pipeline, to its end."""
    job = hr.run(
        output, engine="spark", session=context.session, shards=CORES, batch_rows=batch_rows,
        checkpoint=context.new_folder("ours"), **options,
    )  # fmt: skip
    result = output.result() if hasattr(output, "result") else None
    return Timed(steady(job._query), result)


class Collected:
    """The rows of all batches of a query of theirs, brought to the driver as Arrow."""

    def __init__(self) -> None:
        self._batches: dict[int, pa.Table] = {}

    def __call__(self, frame: Any, batch: int) -> None:
        self._batches[batch] = frame.toArrow()

    def table(self) -> pa.Table:
        """All rows."""
        return pa.concat_tables(self._batches[batch] for batch in sorted(self._batches))


def run_theirs(
    context: Context,
    frame: Any,
    *,
    mode: str = "append",
    sink: Callable[[Any], Any] | None = None,
) -> Timed:
    """A streaming frame of theirs, until nothing more is there to read.

    sink: says where the rows go, with a DataStreamWriter; without it, they are collected.
    """
    collected = Collected()
    writer = frame.writeStream.outputMode(mode)
    writer = sink(writer) if sink is not None else writer.foreachBatch(collected)
    query = writer.option("checkpointLocation", str(context.new_folder("theirs"))).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return Timed(steady(query), collected.table() if sink is None else None)
