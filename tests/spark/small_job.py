"""The job of killed_job.py on the small Spark: interpreted, with few rows."""

import sys
import warnings

from tests.spark.killed_job import outputs
from tests.spark.small_spark import SmallSpark, on_small_spark

import headrace as hr

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    folder, batch_rows, *silent = sys.argv[1:]
    with on_small_spark(silent=bool(silent)):
        job = hr.run(
            *outputs(folder, inside="disk"),
            engine="spark",
            session=SmallSpark(),
            checkpoint=f"{folder}/disk/checkpoint",
            shards=2,
            batch_rows=int(batch_rows),
            compiled=False,
        )
    print(job.status, job.progress().batches, job.progress().rows_in, flush=True)
