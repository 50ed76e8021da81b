"""What a pipeline of ours adds to the start of a bare SparkSession, in new processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from headrace.plan.errors import HeadraceError
from headrace.spark.archive import NoArchive, archive_of, make_archive
from headrace.spark.java import find_java

from .context import CORES, Context

TIMEOUT = 240
ROUNDS = 2  # in turns; the best of each counts

# Each program tells when it was ready, when the first result was there, and if it was right.
BARE = """
import json, os, sys, time
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[CORES]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "CORES").getOrCreate()
ready, results = time.time(), []
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
query = rows.groupBy("value").count().writeStream.outputMode("update")
query = query.foreachBatch(lambda frame, batch: results.append(frame.collect())).start()
while not results and query.isActive:
    time.sleep(0.01)
first = time.time()
query.stop()
spark.stop()
print(json.dumps([ready, first, len(results[0]) == 10]))
"""
OURS = """
import json, time
import headrace as hr
from headrace.asked import planned
from headrace.spark import start
rows = hr.read.memory({"key": [1, 2, 1], "at": [10, 20, 30]}).with_watermark("at", 0)
output = rows.key_by("key").window(hr.tumbling(100)).agg(n=hr.count()).write.collect()
job = start(planned([output]), master="local[CORES]")
ready = time.time()
while not job.progress().batches and not job.await_termination(0.01):
    pass
first = time.time()
job.finish()
print(json.dumps([ready, first, output.result()["n"].to_pylist() in ([2, 1], [1, 2])]))
"""


def startup(context: Context) -> dict[str, Any]:
    """Seconds until a query of ours runs, less those until a bare session is there."""
    ours, theirs = [], []
    context.say("warming: what `headrace warm` does, once for each Java and Spark")
    archived = _archive()
    _run(OURS)  # whatever is compiled the first time is kept
    for number in range(ROUNDS):
        context.say(f"round {number + 1} of {ROUNDS}")
        theirs.append(_run(BARE))
        ours.append(_run(OURS))
    ready, their_ready = min(one[0] for one in ours), min(one[0] for one in theirs)
    first, their_first = min(one[1] for one in ours), min(one[1] for one in theirs)
    return {
        "ratio": ready - their_ready,
        "ready_s": round(ready, 2),
        "their_ready_s": round(their_ready, 2),
        "first_result_s": round(first, 2),
        "their_first_result_s": round(their_first, 2),
        "correct": all(right for *_, right in [*ours, *theirs]),
        "rows": 3,
        "classes_archived": archived,
    }


def _archive() -> bool:
    """Is there an archive of Spark's classes? It is made, where that can be done."""
    if not archive_of(find_java()).exists():
        try:
            make_archive()
        except NoArchive:
            return False
    return True


def _run(program: str) -> tuple[float, float, bool]:
    """Seconds from the start of a new process until it was ready, and had its first result."""
    started = time.time()
    done = subprocess.run(
        [sys.executable, "-c", program.replace("CORES", str(CORES))],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise HeadraceError(f"a program to be timed failed: {done.stderr.strip()[-500:]}")
    ready, first, right = json.loads(lines[-1])
    return ready - started, first - started, right
