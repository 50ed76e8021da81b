"""Running the two sides of a case, and timing their micro-batches by what Spark reports."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import headrace as hr
from headrace.write import Collected, Output

from .context import CORES, STEADY, WARM_UP, Context


@dataclass(frozen=True)
class Timed:
    """The seconds of the steady batches of one side, and what it gave out.

    >>> Timed([0.5, 0.25], None).rate(100)
    400.0
    """

    seconds: list[float]
    result: Any = None

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

    def rates(self, rows: int) -> dict[str, int]:
        """What is reported of a side.

        >>> Timed([0.5, 0.25, 1.0]).rates(100)
        {'best': 400, 'median': 200}
        """
        return {"best": round(self.rate(rows)), "median": round(rows / self.median)}


def steady(query: Any, most: int = STEADY) -> list[float]:
    """Seconds of the batches behind the first two, of those that had rows; so many at most."""
    found = {
        told["batchId"]: told["durationMs"]["triggerExecution"] / 1000
        for told in query.recentProgress
        if "addBatch" in told["durationMs"]
    }
    seconds = [found[batch] for batch in sorted(found)]
    return seconds[WARM_UP : WARM_UP + most]


def run_ours(
    context: Context,
    output: Output,
    batch_rows: int,
    *,
    most: int = STEADY,
    checkpoint: Path | None = None,
    **options: Any,
) -> Timed:
    """Our pipeline, to its end."""
    job: Any = hr.run(
        output,
        engine="spark",
        session=context.session,
        shards=CORES,
        batch_rows=batch_rows,
        checkpoint=checkpoint or context.new_folder("ours"),
        **options,
    )
    result = output.result() if isinstance(output, Collected) else None
    return Timed(steady(job._query, most), result)


class Gathered:
    """The rows of all batches of a query of theirs, brought to the driver as Arrow."""

    def __init__(self) -> None:
        self._batches: dict[int, pa.Table] = {}

    def add(self, frame: Any, batch: int) -> None:
        """What foreachBatch calls."""
        self._batches[batch] = frame.toArrow()

    def table(self) -> pa.Table:
        """All rows."""
        return pa.concat_tables(self._batches[batch] for batch in sorted(self._batches))


def run_theirs(
    context: Context,
    frame: Any,
    *,
    mode: str = "append",
    most: int = STEADY,
    sink: Callable[[Any], Any] | None = None,
    available_now: bool = False,
) -> Timed:
    """A streaming frame of theirs, until nothing more is there to read.

    sink: says where the rows go, with a DataStreamWriter; without it, they are gathered.
    """
    gathered = Gathered()
    writer = frame.writeStream.outputMode(mode)
    writer = sink(writer) if sink is not None else writer.foreachBatch(gathered.add)
    if available_now:
        writer = writer.trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(context.new_folder("theirs"))).start()
    try:
        if available_now:
            query.awaitTermination()
        else:
            query.processAllAvailable()
    finally:
        query.stop()
    return Timed(steady(query, most), gathered.table() if sink is None else None)


def discard(writer: Any) -> Any:
    """A sink that computes every row and keeps none."""

    def each(frame: Any, batch: int) -> None:
        frame.write.format("noop").mode("overwrite").save()

    return writer.foreachBatch(each)


def stream_of(spark: Any, folder: Path, files_in_batch: int) -> Any:
    """The files of a folder as a stream of theirs, so many of them in a micro-batch."""
    schema = spark.read.parquet(str(folder)).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files_in_batch)
    return reader.parquet(str(folder))


def against(rows: int, ours: Timed, theirs: Timed, correct: bool, **more: Any) -> dict[str, Any]:
    """Two rates, and ours to theirs."""
    return {
        "ratio": theirs.best / ours.best,
        "ratio_median": theirs.median / ours.median,
        "sides": {"headrace": ours.rates(rows), "Spark": theirs.rates(rows)},
        "correct": correct,
        "rows": rows,
        "batch_s": [round(s, 3) for s in ours.seconds],
        "their_batch_s": [round(s, 3) for s in theirs.seconds],
        **more,
    }


@dataclass(frozen=True)
class Ways:
    """Several ways of theirs to the same rows, by the `what` in which they differ.

    >>> found = Ways("size", {10: Timed([2.0]), 20: Timed([1.0])}, True).against(4, Timed([0.5]))
    >>> found["ratio"], found["their_size"], found["their_rows_per_s_10"]
    (2.0, 20, 2)
    """

    what: str
    runs: Mapping[Any, Timed]
    correct: bool

    def against(self, rows: int, ours: Timed) -> dict[str, Any]:
        """Ours to the fastest of them, and the rates of all."""
        best = min(self.runs, key=lambda way: self.runs[way].best)
        rates = {f"their_rows_per_s_{way}": round(run.rate(rows)) for way, run in self.runs.items()}
        more = {f"their_{self.what}": best, **rates}
        return against(rows, ours, self.runs[best], self.correct, **more)
