"""A chain of plain Python functions, against Spark's ways to run such functions.

The rows of all batches are the same ones, under other names: the functions keep nothing. What the
sides give out is compared in full on a smaller folder, and thrown away where time is measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace import Stream
from headrace.bench.harness import needed
from headrace.workloads.compare import same_rows

from .context import BATCHES, WARM_UP, Context
from .data import FIRST_CHANGE
from .queries import Timed, Ways, discard, run_ours, run_theirs, stream_of

BATCH_ROWS = 4_000_000
FILES_IN_BATCH = 2
CHECKED_ROWS = 50_000  # of the folder on which results are compared
WARM_UP_PART = 8  # the batches that are left out need only so small a part of the rows
RECORDS = (10_000, 100_000)  # record batch sizes of mapInPandas: Spark's own, and a large one
NUMBERS = {"a": "int64", "b": "int64"}

Way = Callable[[Any], Any]  # a frame of theirs, and what they make of it


# ---- the functions ---------------------------------------------------------------------------


def mixed(a: int, b: int) -> int:
    """A first step: one number of two."""
    return (a * 31 + b) % 1_000_003


def is_wanted(x: int) -> bool:
    """A second one: which rows stay."""
    return x % 3 != 0


def parts(x: int) -> Iterator[int]:
    """A third one: several rows of one."""
    while x > 100_000:
        yield x
        x //= 2


def scored(x: int) -> int:
    """The last one."""
    return (x * x) % 10_007


def ours(rows: Stream) -> Stream:
    """The chain as a pipeline of ours."""
    return (
        rows.map(mixed, output="x")
        .filter(hr.udf(is_wanted)(hr.col("x")))
        .flat_map(parts, output="x")
        .map(scored, output="score")
    )


def row_functions(frame: Any, use_arrow: bool) -> Any:
    """The chain as row-at-a-time functions of theirs, pickled or through Arrow."""
    from pyspark.sql import functions as f

    mix = f.udf(mixed, "long", useArrow=use_arrow)
    wanted = f.udf(is_wanted, "boolean", useArrow=use_arrow)
    cut = f.udf(lambda x: list(parts(x)), "array<long>", useArrow=use_arrow)
    score = f.udf(scored, "long", useArrow=use_arrow)
    kept = frame.select(mix("a", "b").alias("x")).where(wanted("x"))
    return kept.select(f.explode(cut("x")).alias("x")).select(score("x").alias("score"))


def frame_functions(frame: Any) -> Any:
    """The chain as one `mapInPandas` for each step."""
    for step in (mixed_all, wanted_only, all_parts):
        frame = frame.mapInPandas(step, "x long")
    return frame.mapInPandas(scored_all, "score long")


# The same functions in the vectorised style of pandas, for `mapInPandas`.


def mixed_all(frames: Iterator[Any]) -> Iterator[Any]:
    """`mixed`, for frames."""
    for rows in frames:
        yield ((rows["a"] * 31 + rows["b"]) % 1_000_003).to_frame("x")


def wanted_only(frames: Iterator[Any]) -> Iterator[Any]:
    """The rows of frames that are wanted."""
    for rows in frames:
        yield rows[rows["x"] % 3 != 0]


def all_parts(frames: Iterator[Any]) -> Iterator[Any]:
    """`parts`, for frames: one round for all rows that still give one."""
    import pandas as pd

    for rows in frames:
        found, x = [], rows["x"].to_numpy()
        while len(x := x[x > 100_000]):
            found.append(x)
            x = x // 2
        yield pd.DataFrame({"x": np.concatenate([*found, x])})


def scored_all(frames: Iterator[Any]) -> Iterator[Any]:
    """`scored`, for frames."""
    for rows in frames:
        yield ((rows["x"] * rows["x"]) % 10_007).to_frame("score")


# ---- the cases -------------------------------------------------------------------------------


def python_udf(context: Context) -> dict[str, Any]:
    """Four functions of Python, against row-at-a-time functions: the faster kind of them."""
    folders = Folders(context)
    ways = {
        kind: partial(row_functions, use_arrow=kind == "arrow") for kind in ("pickled", "arrow")
    }
    return folders.run_theirs("kind", ways).against(folders.rows, folders.run_ours())


def python_chain(context: Context) -> dict[str, Any]:
    """The same, against one `mapInPandas` for each function, at its best record batch size."""
    folders = Folders(context)
    ways = {records: in_batches_of(records, frame_functions) for records in RECORDS}
    return folders.run_theirs("records", ways).against(folders.rows, folders.run_ours())


def in_batches_of(records: int, way: Way) -> Way:
    """One of their ways, with so many rows in each batch that Python gets."""

    def run(frame: Any) -> Any:
        frame.sparkSession.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(records))
        return way(frame)

    return run


class Folders:
    """The same rows for both sides, and a small folder to compare results on."""

    def __init__(self, context: Context) -> None:
        needed("pandas", "Spark's way to run functions of Python")
        context.say("writing files")
        part = context.rows(BATCH_ROWS) // FILES_IN_BATCH
        self._context, self.rows = context, part * FILES_IN_BATCH
        full = _file(context, part, 1)
        small = _file(context, max(1, part // WARM_UP_PART), 1)
        self.ours = _linked(context, [full] * BATCHES)
        self.theirs = _linked(context, [small] * WARM_UP + [full] * (BATCHES - WARM_UP))
        self.checked = _file(context, min(part, CHECKED_ROWS), 2).parent

    @cached_property
    def expected(self) -> pa.Table:
        """What our pipeline gives for the small folder, on Spark."""
        output = ours(hr.read.parquet(self.checked, schema=NUMBERS)).write.collect()
        return run_ours(self._context, output, CHECKED_ROWS).result

    def run_theirs(
        self, what: str, ways: Mapping[Any, Way], folder: Path | None = None, **options: Any
    ) -> Ways:
        """Each of their ways over all batches, and on the small folder. They differ in `what`."""
        runs, correct = {}, True
        for name, way in ways.items():
            self._context.say(f"theirs, {what} {name}")
            spark = self._context.theirs()
            made = way(stream_of(spark, folder or self.theirs, FILES_IN_BATCH))
            runs[name] = run_theirs(self._context, made, sink=discard, **options)
            checked = way(spark.read.parquet(str(self.checked))).toArrow()
            correct &= same_rows(self.expected, checked)
        return Ways(what, runs, correct)

    def run_ours(self) -> Timed:
        """Our pipeline over all batches."""
        self._context.say("ours")
        made = ours(hr.read.parquet(self.ours, schema=NUMBERS))
        return run_ours(self._context, made.write.null(), self.rows)


def _file(context: Context, rows: int, seed: int) -> Path:
    random = np.random.default_rng(seed)
    files = context.files("numbers")
    columns = {name: random.integers(0, 1 << 40, rows) for name in NUMBERS}
    files.add(pa.table(columns))
    return next(files.folder.iterdir())


def _linked(context: Context, batches: list[Path]) -> Path:
    """A folder in which each file stands as often as a batch needs it, the first ones oldest."""
    folder = context.new_folder("linked")
    for number, path in enumerate(file for file in batches for _ in range(FILES_IN_BATCH)):
        target = folder / f"part-{number:05}.parquet"
        os.link(path, target)
        changed = FIRST_CHANGE + batches.index(path)  # all links of a file share it
        os.utime(target, (changed, changed))
    return folder
