"""Functions on a DataFrame of the user's, against `mapInPandas` on the same one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import headrace as hr
from headrace.workloads.compare import same_rows

from .context import Context
from .functions import (
    FILES_IN_BATCH,
    NUMBERS,
    Folders,
    all_parts,
    mixed_all,
    ours,
    scored_all,
    wanted_only,
)
from .queries import Timed, against, discard, run_ours, run_theirs, stream_of

RECORDS = (10_000, 200_000)  # record batch sizes of mapInPandas: Spark's own, and a large one
AVAILABLE_NOW = "available now"


def dataframe(context: Context) -> dict[str, Any]:
    """Four functions on a streaming DataFrame over Parquet files, whose rows come from Java."""
    rows = context.rows(4_000_000) // FILES_IN_BATCH * FILES_IN_BATCH
    folders = Folders(context, rows)
    runs: dict[int, Timed] = {}
    correct = True
    for records in RECORDS:
        context.say(f"theirs, {records:,} records in a batch")
        spark = context.theirs()
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(records))
        frame = stream_of(spark, folders.ours, FILES_IN_BATCH)
        made = frame.mapInPandas(all_steps, "score long")
        runs[records] = run_theirs(context, made, sink=discard, available_now=True)
        checked = spark.read.parquet(str(folders.checked)).mapInPandas(all_steps, "score long")
        correct &= same_rows(folders.expected(), checked.toArrow())
    best = min(runs, key=lambda records: runs[records].best)
    context.say("ours")
    frame = stream_of(context.theirs(), folders.ours, FILES_IN_BATCH)
    output = ours(hr.read.spark(frame, schema=NUMBERS)).write.null()
    mine = run_ours(context, output, rows, trigger=AVAILABLE_NOW)
    rates = {f"their_rows_per_s_{k}": round(run.rate(rows)) for k, run in runs.items()}
    return against(rows, mine, runs[best], correct, their_records=best, **rates)


def all_steps(frames: Iterator[Any]) -> Iterator[Any]:
    """The whole chain in one function for `mapInPandas`."""
    return scored_all(all_parts(wanted_only(mixed_all(frames))))
