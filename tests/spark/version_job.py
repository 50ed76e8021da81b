"""What every version of PySpark must be able to do: run by its Python, tells what it saw as JSON.

Rows are compared with those of the thread engine, in this process.
"""

import json
import sys
import time
from pathlib import Path

import pyspark
from tests.spark import pipelines

import headrace as hr
from headrace import col
from headrace.connect.spark_versions import tells_start
from headrace.spark.errors import is_busy
from headrace.spark.session import close_session, open_session

ROWS = 4_000


def sorted_rows(table):
    return sorted(table.to_pylist(), key=str)


def source():
    return hr.read.memory(pipelines.tables(ROWS, 2, disorder=20))


def expected(stream):
    output = stream.write.collect()
    hr.run(output, engine="thread", compiled=False)
    return sorted_rows(output.result())


def reciprocal(value):
    return 100 // (value - 7) if value is not None else 0


def restarted(session, folder: Path, options: dict) -> bool:
    """Stopped in the middle, twice, and gone on with: windows and joins over two channels."""
    statuses = []
    while not statuses or statuses[-1] != "finished":
        made = pipelines.counted(source()).write.parquet(folder / "out")
        place = folder / "checkpoint"
        job = hr.start(made, checkpoint=place, batch_rows=700, **options)
        while len(statuses) < 2 and job.progress().batches < 2 and not job.is_over:
            time.sleep(0.02)
        if len(statuses) < 2:
            job.stop()
        job.await_termination()
        statuses.append(job.status)
    found = session.read.option("recursiveFileLookup", True).parquet(str(folder / "out"))
    same = sorted_rows(found.toArrow()) == expected(pipelines.counted(source()))
    return same and statuses == ["stopped", "stopped", "finished"]


def available_now(options: dict) -> bool:
    output = source().filter(col("value") > 10).write.collect()
    hr.run(output, trigger="available now", **options)
    return sorted_rows(output.result()) == expected(source().filter(col("value") > 10))


def frames(session, options: dict) -> bool:
    """A DataFrame in, through us, and out again."""
    rows = hr.read.spark(session.range(100)).filter(col("id") < 5)
    output = rows.write.collect()
    hr.run(output, **options)
    back = rows.with_columns(double=col("id") * 2).to_spark().toArrow()
    pairs = sorted(zip(back["id"].to_pylist(), back["double"].to_pylist()))
    return output.result().num_rows == 5 and pairs == [(n, 2 * n) for n in range(5)]


def finish(query) -> None:
    """Wait for all rows; Spark gives a Python process ten seconds to start, which may be few."""
    try:
        query.processAllAvailable()
    except Exception as error:
        if not is_busy(error):
            raise


def streamed(session, folder: Path) -> bool:
    """A query of the user's own over a DataFrame of ours, stopped and started again."""
    for _ in range(4):
        numbers = hr.read.memory({"n": list(range(50))})
        frame = numbers.to_spark(
            session=session, checkpoint=folder / "ours", batch_rows=20, compiled=False
        )
        writer = frame.writeStream.format("parquet").option("path", str(folder / "rows"))
        query = writer.option("checkpointLocation", str(folder / "theirs")).start()
        finish(query)
        query.stop()
    return sorted(session.read.parquet(str(folder / "rows")).toArrow()["n"].to_pylist()) == list(
        range(50)
    )


def errors(options: dict) -> str:
    try:
        hr.run(source().map(reciprocal, columns=["value"], output="r").write.null(), **options)
    except ZeroDivisionError as error:
        return "\n".join(error.__notes__)
    return ""


def main(folder: Path) -> dict:
    session = open_session("local[2,2]", None)
    options = {"engine": "spark", "session": session, "compiled": False, "shards": 2}
    return {
        "version": pyspark.__version__,
        "tells_start": tells_start(),
        "restarted": restarted(session, folder, options),
        "available_now": available_now(options),
        "frames": frames(session, {"engine": "spark", "compiled": False}),
        "streamed": streamed(session, folder),
        "errors": errors(options),
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
    close_session()
