"""Windows over Parquet files, against the same written by hand with DataFrames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr
from headrace import col
from headrace.workloads.compare import same_rows
from headrace.workloads.ysb import VIEW

from .context import STEADY, WARM_UP, Context
from .data import Files, times, with_columns, ysb_rows
from .queries import Timed, run_ours, run_theirs

WINDOW_SECONDS = 10
WINDOW = WINDOW_SECONDS * 1_000_000
WINDOWS_IN_BATCH = 10
FILES_IN_BATCH = 8
START = 1_700_000_000_000_000  # a multiple of the window
BATCHES = WARM_UP + STEADY


def window_parquet(context: Context) -> dict[str, Any]:
    """Views of ads per campaign in windows of ten seconds."""
    rows = context.rows(32_000_000) // FILES_IN_BATCH * FILES_IN_BATCH
    context.say("writing files")
    folder, campaigns, end = _ysb_files(context, rows)
    context.say("theirs")
    theirs = _ysb_theirs(context, folder, campaigns)
    context.say("ours")
    ours = _ysb_ours(context, folder, campaigns, rows)
    closed = ours.result.filter(pc.less(ours.result["window_start"], end))
    return against(rows, ours, theirs, same_rows(closed, theirs.result))


def against(rows: int, ours: Timed, theirs: Timed, correct: bool) -> dict[str, Any]:
    """Two rates, and ours to theirs."""
    return {
        "ratio": theirs.best / ours.best,
        "ratio_median": theirs.median / ours.median,
        "rows_per_s": round(ours.rate(rows)),
        "their_rows_per_s": round(theirs.rate(rows)),
        "correct": correct,
        "rows": rows,
        "batch_s": [round(s, 3) for s in ours.seconds],
        "their_batch_s": [round(s, 3) for s in theirs.seconds],
    }


def _ysb_files(context: Context, rows: int) -> tuple[Path, pa.Table, pa.Scalar]:
    """Full batches, and a file with one view long after them, which closes their windows."""
    files, part = Files(context.new_folder("events")), rows // FILES_IN_BATCH
    events, campaigns = ysb_rows(part)
    step = max(1, WINDOWS_IN_BATCH * WINDOW // rows)
    for number in range(BATCHES * FILES_IN_BATCH):
        stamps = times(START + number * part * step, part, step)
        files.add(with_columns(events, event_time=stamps))
    end = START + BATCHES * rows * step
    end = end + -end % WINDOW
    views = events.filter(pc.equal(events["event_type"], VIEW)).slice(0, 1)
    files.add(with_columns(views, event_time=times(end + 10 * WINDOW, 1, 1)))
    return files.folder, campaigns, times(end, 1, 1)[0]


def _ysb_ours(context: Context, folder: Path, campaigns: pa.Table, rows: int) -> Timed:
    counted = (
        hr.read.parquet(folder)
        .filter(col("event_type") == VIEW)
        .join(hr.table(campaigns), on="ad_id")
        .with_watermark("event_time", 0)
        .key_by("campaign_id")
        .window(hr.tumbling(f"{WINDOW_SECONDS}s"))
        .agg(views=hr.count())
    )
    return run_ours(context, counted.write.collect(), rows)


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


def stream_of(spark: Any, folder: Path, files_in_batch: int) -> Any:
    """The files of a folder as a stream of theirs, so many of them in a micro-batch."""
    schema = spark.read.parquet(str(folder)).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files_in_batch)
    return reader.parquet(str(folder))
