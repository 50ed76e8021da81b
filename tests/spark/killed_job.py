"""The job that test_kill.py kills: every kind of pipeline and of place, in one query."""

import os
import sys

from tests.spark import pipelines

import headrace as hr

KINDS = ("stateless", "counted", "processed", "recounted")
POSTGRES = "HEADRACE_TEST_POSTGRES"  # the URL of a server, if there is one


def outputs(folder: str, inside: str = "") -> list:
    """Into Parquet files (below `inside`), and into tables of SQLite and of PostgreSQL."""
    source = hr.read.parquet(f"{folder}/in")
    made = []
    for kind in KINDS:
        stream = getattr(pipelines, kind)(source)
        made.append(stream.write.parquet(f"{folder}/{inside}/{kind}"))
        made.append(stream.write.sqlite(f"{folder}/out.db", kind))
        if url := os.environ.get(POSTGRES):
            made.append(stream.write.postgres(url, kind, staging=f"{folder}/staged"))
    return made


if __name__ == "__main__":
    inside = sys.argv[3] if len(sys.argv) > 3 else "."
    job = hr.run(
        *outputs(sys.argv[1], inside),
        engine="spark",
        master="local[2]",
        checkpoint=f"{sys.argv[1]}/{inside}/checkpoint",
        shards=2,
        batch_rows=int(sys.argv[2]),
    )
    print(job.status, job.progress().batches, job.progress().rows_in, flush=True)
