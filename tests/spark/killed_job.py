"""The job that test_kill.py kills: three sinks of one query, from Parquet to Parquet."""

import sys

from tests.spark import pipelines

import headrace as hr


def outputs(folder: str) -> list:
    source = hr.read.parquet(f"{folder}/in")
    return [
        pipelines.stateless(source).write.parquet(f"{folder}/stateless"),
        pipelines.counted(source).write.parquet(f"{folder}/counted"),
        pipelines.processed(source).write.parquet(f"{folder}/processed"),
        pipelines.recounted(source).write.parquet(f"{folder}/recounted"),
    ]


if __name__ == "__main__":
    job = hr.run(
        *outputs(sys.argv[1]),
        engine="spark",
        master="local[2]",
        checkpoint=f"{sys.argv[1]}/checkpoint",
        shards=2,
        batch_rows=int(sys.argv[2]),
    )
    print(job.status, job.progress().batches, job.progress().rows_in, flush=True)
