"""The smallest micro-batch: what a batch costs before there are rows to speak of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.workloads.compare import same_rows

from .context import WARM_UP, Context
from .data import START, times
from .queries import Timed, run_ours, run_theirs, stream_of

ROWS = 100
TICKS = 24  # batches: so short ones vary a lot
ROUNDS = 2  # the sides run in turns
WINDOW_SECONDS = 5
LAST = 1000 * 1_000_000  # how long after all others the last row comes


def tick(context: Context) -> dict[str, Any]:
    """Seconds of the best batch of a few rows, counted in windows by key; to those of theirs."""
    ticks = max(WARM_UP + 2, int(TICKS * min(1.0, context.scale)))
    folder = _files(context, ticks)
    ours, theirs, correct = Timed([]), Timed([]), True
    rounds = ROUNDS if context.scale >= 1 else 1
    for number in range(rounds):
        context.say(f"round {number + 1} of {rounds}")
        one, other = _theirs(context, folder), _ours(context, folder)
        theirs.seconds.extend(one.seconds)
        ours.seconds.extend(other.seconds)
        correct &= same_rows(other.result.filter(_closed(other.result)), one.result)
    return {
        "ratio": ours.best / theirs.best,
        "ratio_median": ours.median / theirs.median,
        "batch_s": round(ours.best, 3),
        "their_batch_s": round(theirs.best, 3),
        "sides": {"headrace": ours.rates(ROWS), "Spark": theirs.rates(ROWS)},
        "correct": correct,
        "rows": ROWS,
    }


def _files(context: Context, ticks: int) -> Path:
    files = context.files("ticks")
    keys = np.arange(ROWS) % 50
    for number in range(ticks):
        files.add(pa.table({"key": keys, "at": times(START + number * 1_000_000, ROWS, 10_000)}))
    files.add(pa.table({"key": keys[:1], "at": times(START + LAST, 1, 1)}))
    return files.folder


def _closed(result: pa.Table) -> Any:
    """Which windows lie before the last row's: theirs are not given out behind them."""
    return pa.array(result["window_start"].cast(pa.int64()).to_numpy() < START + LAST // 2)


def _ours(context: Context, folder: Path) -> Timed:
    counted = (
        hr.read.parquet(folder)
        .with_watermark("at", 0)
        .key_by("key")
        .window(hr.tumbling(f"{WINDOW_SECONDS}s"))
        .agg(count=hr.count())
    )
    return run_ours(context, counted.write.collect(), ROWS, most=TICKS)


def _theirs(context: Context, folder: Path) -> Timed:
    from pyspark.sql import functions as f

    counted = (
        stream_of(context.theirs(), folder, 1)
        .withWatermark("at", "0 seconds")
        .groupBy(f.window("at", f"{WINDOW_SECONDS} seconds"), "key")
        .agg(f.count("*").alias("count"))
        .select("key", f.col("window.start").alias("window_start"), "count")
    )
    return run_theirs(context, counted, most=TICKS)
