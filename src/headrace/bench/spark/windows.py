"""Windows over Parquet files, against the same written by hand with DataFrames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr
from headrace import col
from headrace.workloads.compare import same_rows
from headrace.workloads.ysb import VIEW

from .context import BATCHES, Context
from .data import START, times, with_columns, ysb_rows
from .queries import Timed, against, run_ours, run_theirs, stream_of

WINDOW_SECONDS = 10
WINDOW = WINDOW_SECONDS * 1_000_000
WINDOWS_IN_BATCH = 10
LONG_WINDOW = 20 * WINDOW  # two batches
FILES_IN_BATCH = 8
KEYS = 100_000
EVENTS = {"ad_id": "int64", "event_type": "int64", "event_time": "timestamp"}
VALUES = {"key": "int64", "at": "timestamp", "value": "int64"}


# ---- the Yahoo benchmark ---------------------------------------------------------------------


def window_parquet(context: Context) -> dict[str, Any]:
    """Views of ads per campaign in windows of ten seconds."""
    folder, campaigns, written, end = event_files(context)
    rows = written // BATCHES
    context.say("theirs")
    theirs = _ysb_theirs(context, folder, campaigns)
    context.say("ours")
    ours = run_ours(context, views_of_campaigns(folder, campaigns).write.collect(), rows)
    return against(rows, ours, theirs, same_closed(ours, theirs, end))


def event_files(context: Context) -> tuple[Path, pa.Table, int, pa.Scalar]:
    """A folder with events, the table of campaigns, how many rows there are, and the last end."""
    rows = context.rows(32_000_000) // FILES_IN_BATCH * FILES_IN_BATCH
    context.say("writing files")
    events, campaigns = ysb_rows(rows // FILES_IN_BATCH)
    view = events.filter(pc.equal(events["event_type"], pa.scalar(VIEW))).slice(0, 1)
    folder, end = timed_files(context, events, view, "event_time")
    return folder, campaigns, rows * BATCHES, end


def timed_files(
    context: Context, part: pa.Table, last: pa.Table, column: str
) -> tuple[Path, pa.Scalar]:
    """Batches of files whose rows follow each other in time, and a last row long after them.

    The last row closes all windows before it, whose end is given: theirs waits for such a row,
    where ours ends with its files.
    """
    files, rows = context.files("rows"), part.num_rows
    step = max(1, WINDOWS_IN_BATCH * WINDOW // (rows * FILES_IN_BATCH))
    for number in range(BATCHES * FILES_IN_BATCH):
        files.add(with_columns(part, {column: times(START + number * rows * step, rows, step)}))
    end = START + BATCHES * FILES_IN_BATCH * rows * step
    end += (START - end) % LONG_WINDOW
    files.add(with_columns(last, {column: times(end + LONG_WINDOW, 1, 1)}))
    return files.folder, times(end, 1, 1)[0]


def same_closed(ours: Timed, theirs: Timed, end: pa.Scalar) -> bool:
    """Are the windows before the last row the same?"""
    closed = ours.result.filter(pc.less(ours.result["window_start"], end))
    return same_rows(closed, theirs.result)


def views_of_campaigns(folder: Path, campaigns: pa.Table) -> hr.Stream:
    """Ours."""
    return (
        hr.read.parquet(folder, schema=EVENTS)
        .filter(col("event_type") == VIEW)
        .join(hr.table(campaigns), on="ad_id")
        .with_watermark("event_time", 0)
        .key_by("campaign_id")
        .window(hr.tumbling(f"{WINDOW_SECONDS}s"))
        .agg(views=hr.count())
    )


def _ysb_theirs(context: Context, folder: Path, campaigns: pa.Table) -> Timed:
    from pyspark.sql import functions as f

    spark = context.theirs()
    table = f.broadcast(spark.createDataFrame(campaigns))
    counted = (
        stream_of(spark, folder, FILES_IN_BATCH)
        .where(f.col("event_type") == VIEW)
        .join(table, "ad_id")
        .withWatermark("event_time", "0 seconds")
        .groupBy(f.window("event_time", f"{WINDOW_SECONDS} seconds"), "campaign_id")
        .agg(f.count("*").alias("views"))
        .select("campaign_id", f.col("window.start").alias("window_start"), "views")
    )
    return run_theirs(context, counted)


# ---- many keys -------------------------------------------------------------------------------


def keyed_aggregate(context: Context) -> dict[str, Any]:
    """Count and sum by many keys in windows as long as two batches."""
    folder, written, end = key_files(context)
    rows = written // BATCHES
    context.say("theirs")
    theirs = _keyed_theirs(context, folder)
    context.say("ours")
    ours = run_ours(context, key_sums(folder).write.collect(), rows)
    return against(rows, ours, theirs, same_closed(ours, theirs, end))


def key_files(context: Context) -> tuple[Path, int, pa.Scalar]:
    """A folder with values of many keys, how many rows there are, and the last end."""
    rows = context.rows(8_000_000) // FILES_IN_BATCH * FILES_IN_BATCH
    part = rows // FILES_IN_BATCH
    random = np.random.default_rng(1)
    keys = random.integers(0, 1 << 62, min(KEYS, part))
    context.say("writing files")
    made = pa.table(
        {
            "key": keys[random.integers(0, len(keys), part)],
            "at": times(0, part, 1),
            "value": random.integers(0, 1000, part),
        }
    )
    folder, end = timed_files(context, made, made.slice(0, 1), "at")
    return folder, rows * BATCHES, end


def key_sums(folder: Path) -> hr.Stream:
    """Ours."""
    return (
        hr.read.parquet(folder, schema=VALUES)
        .with_watermark("at", 0)
        .key_by("key")
        .window(hr.tumbling(f"{LONG_WINDOW // 1_000_000}s"))
        .agg(count=hr.count(), total=hr.sum("value"))
    )


def _keyed_theirs(context: Context, folder: Path) -> Timed:
    from pyspark.sql import functions as f

    summed = (
        stream_of(context.theirs(), folder, FILES_IN_BATCH)
        .withWatermark("at", "0 seconds")
        .groupBy(f.window("at", f"{LONG_WINDOW // 1_000_000} seconds"), "key")
        .agg(f.count("*").alias("count"), f.sum("value").alias("total"))
        .select("key", f.col("window.start").alias("window_start"), "count", "total")
    )
    return run_theirs(context, summed)
