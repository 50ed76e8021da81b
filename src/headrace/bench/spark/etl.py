"""From Parquet to Parquet, against the file source and the file sink of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import headrace as hr
from headrace import col

from .context import BATCHES, Context
from .queries import against, run_ours, run_theirs, stream_of

FILES_IN_BATCH = 4
LEAST = 50  # of the quantity, 0 to 99: half of the rows stay
COLUMNS = ["id", "product", "total"]
SALES = {"id": "int64", "product": "int64", "price": "int64", "quantity": "int64"}


def etl_parquet(context: Context) -> dict[str, Any]:
    """A filter and a computed column between two folders."""
    folder, written = etl_files(context)
    rows = written // BATCHES
    context.say("theirs")
    their_output = context.new_folder("etl-theirs")

    def to_files(writer: Any) -> Any:
        return writer.format("parquet").option("path", str(their_output))

    from pyspark.sql import functions as f

    frame = (
        stream_of(context.theirs(), folder, FILES_IN_BATCH)
        .where(f.col("quantity") >= LEAST)
        .select("id", "product", (f.col("price") * f.col("quantity")).alias("total"))
    )
    theirs = run_theirs(context, frame, sink=to_files)
    context.say("ours")
    our_output = context.new_folder("etl-ours")
    # what Spark compresses with, too
    ours = run_ours(context, sales(folder).write.parquet(our_output, compression="snappy"), rows)
    correct = _same(our_output, their_output, written)
    return against(rows, ours, theirs, correct)


def sales(folder: Path) -> hr.Stream:
    """Ours."""
    kept = hr.read.parquet(folder, schema=SALES).filter(col("quantity") >= LEAST)
    return kept.select("id", "product", total=col("price") * col("quantity"))


def etl_files(context: Context) -> tuple[Path, int]:
    """A folder with sales, and how many there are."""
    rows = context.rows(16_000_000) // FILES_IN_BATCH * FILES_IN_BATCH
    context.say("writing files")
    files, part = context.files("etl"), rows // FILES_IN_BATCH
    random = np.random.default_rng(1)
    columns = {
        "product": random.integers(0, 10_000, part),
        "price": random.integers(1, 100_000, part),
        "quantity": random.integers(0, 100, part),
    }
    for number in range(BATCHES * FILES_IN_BATCH):
        files.add(pa.table({"id": np.arange(number * part, (number + 1) * part), **columns}))
    return files.folder, rows * BATCHES


def _same(ours: Path, theirs: Path, ids: int) -> bool:
    """Have both folders the same rows? Each id stands for one."""
    found = []
    for folder in (ours, theirs):
        table = pq.ParquetDataset(folder).read(columns=COLUMNS)
        numbers = table["id"].to_numpy()
        if len(np.unique(numbers)) != len(numbers):
            return False
        by_id = np.full((2, ids), -1)
        for place, name in enumerate(COLUMNS[1:]):
            by_id[place, numbers] = table[name].to_numpy()
        found.append(by_id)
    return bool((found[0] == found[1]).all())
