"""Functions on a DataFrame of the user's, against `mapInPandas` on the same one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import headrace as hr

from .context import Context
from .functions import (
    FILES_IN_BATCH,
    NUMBERS,
    Folders,
    all_parts,
    in_batches_of,
    mixed_all,
    ours,
    scored_all,
    wanted_only,
)
from .queries import run_ours, stream_of

RECORDS = (10_000, 200_000)  # record batch sizes of mapInPandas: Spark's own, and a large one
AVAILABLE_NOW = "available now"


def dataframe(context: Context) -> dict[str, Any]:
    """Four functions on a streaming DataFrame over Parquet files, whose rows come from Java."""
    folders = Folders(context)
    ways = {records: in_batches_of(records, mapped) for records in RECORDS}
    theirs = folders.run_theirs("records", ways, folders.ours, available_now=True)
    context.say("ours")
    frame = stream_of(context.theirs(), folders.ours, FILES_IN_BATCH)
    output = ours(hr.read.spark(frame, schema=NUMBERS)).write.null()
    return theirs.against(
        folders.rows, run_ours(context, output, folders.rows, trigger=AVAILABLE_NOW)
    )


def mapped(frame: Any) -> Any:
    """The chain as one `mapInPandas`."""
    return frame.mapInPandas(all_steps, "score long")


def all_steps(frames: Iterator[Any]) -> Iterator[Any]:
    """The whole chain in one function for `mapInPandas`."""
    return scored_all(all_parts(wanted_only(mixed_all(frames))))
