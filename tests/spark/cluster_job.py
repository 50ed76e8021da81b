"""The jobs that test_cluster.py runs on a cluster, in a process of their own."""

import sys
import traceback

import headrace as hr
from headrace import col

ROWS, BATCH_ROWS, SIZE = 24_000, 3_000, 1000


def counted() -> hr.Stream:
    rows = hr.read.index(ROWS, channels=2).select(key=col("index") % 7, at=col("index"))
    windows = rows.with_watermark("at", 0).key_by("key").window(hr.tumbling(SIZE))
    return windows.agg(n=hr.count())


def reciprocal(id):
    return 100 // (id - 70)


def main(master: str, folder: str) -> None:
    options = {"engine": "spark", "compiled": False, "shards": 2}
    job = hr.run(
        counted().write.parquet(f"{folder}/out"),
        master=master,
        checkpoint=f"{folder}/checkpoint",
        batch_rows=BATCH_ROWS,
        **options,
    )
    print(job.status, job.progress().rows_in)
    from pyspark.sql import SparkSession

    frame = SparkSession.getActiveSession().range(100)
    kept = hr.read.spark(frame).filter(col("id") < 5).write.collect()
    hr.run(kept, **options)
    print(sorted(kept.result()["id"].to_pylist()))
    try:
        hr.run(hr.read.spark(frame).map(reciprocal, output="r").write.null(), **options)
    except ZeroDivisionError:
        print(traceback.format_exc())


if __name__ == "__main__":
    main(*sys.argv[1:])
