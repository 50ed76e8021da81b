"""A windowed count on Spark: from a generator to Parquet files, exactly once.

    python examples/spark_sessions.py [folder]

Run it, kill it (kill -9 will do), run it again with the same folder: it goes on where it was.
"""

import sys
import tempfile

import headrace as hr

ROWS = 2_000_000


def visit(i):
    """A page view: (user, page, when in milliseconds, a little out of order)."""
    return i * 7919 % 1000, i % 20, i // 10 - i * 31 % 200


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="headrace-example-")
    views = hr.read.generate(visit, output=["user", "page", "at"], rows=ROWS, channels=2)
    counts = (
        views.filter(hr.col("page") != 0)
        .with_watermark("at", 200)
        .key_by("user")
        .window(hr.tumbling(20_000))
        .agg(views=hr.count(), pages=hr.max("page"))
    )
    job = hr.run(
        counts.write.parquet(f"{folder}/counts"),
        engine="spark",
        checkpoint=f"{folder}/checkpoint",
        batch_rows=500_000,
    )
    progress = job.progress()
    print(f"{job.status}: {progress.rows_in:,} rows in, {progress.rows_out:,} out,")
    print(f"{progress.batches} batches, in {folder}/counts")


if __name__ == "__main__":
    main()
