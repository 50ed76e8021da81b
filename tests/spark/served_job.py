"""The job that test_kill_servers.py kills: what is counted, into PostgreSQL and into Kafka."""

import sys

import headrace as hr

ROWS, BATCH_ROWS, KEYS, SIZE = 40_000, 2_000, 7, 1_000
COLUMNS = {"key": int, "window_start": int, "n": int, "total": int}


def counted():
    """Rows of each key and window, and their sum."""
    rows = hr.read.index(ROWS, name="numbers").with_columns(key=hr.col("index") % KEYS)
    windows = rows.with_watermark("index", 0).key_by("key").window(hr.tumbling(SIZE))
    return windows.agg(n=hr.count(), total=hr.sum("index"), name="counted")


if __name__ == "__main__":
    folder, url, servers, topic = sys.argv[1:]
    made = counted()
    job = hr.run(
        made.write.postgres(url, "counted", staging=f"{folder}/staged"),
        made.write.kafka(servers, topic, transaction="counted"),
        engine="spark",
        master="local[2]",
        checkpoint=f"{folder}/checkpoint",
        shards=2,
        batch_rows=BATCH_ROWS,
        compiled=False,
    )
    print(job.status, job.progress().rows_in, flush=True)
