"""Whole runs over files that end: Spark's micro-batches against the node engine, and the node
engine against Sail, an engine in Rust that runs Spark's queries as one batch.

All sides read the same files; the seconds are those of the whole run, of Spark's without the start
of its session. One run of each side goes first and is left out, then they take turns. What they
give is compared in full.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import headrace as hr
from headrace.bench.figure import Skipped
from headrace.workloads.compare import same_rows
from headrace.write import Output

from . import sail
from .context import CORES, Context
from .etl import etl_files, sales
from .queries import Timed
from .windows import event_files, key_files, key_sums, views_of_campaigns

ROUNDS = 3
SAIL = "HEADRACE_SAIL"  # names a Python that has Sail
NO_SAIL = (
    f"{SAIL} does not name a Python with Sail (it does not take the client of PySpark 4.3): "
    "python -m venv sail; sail/bin/pip install pysail 'pyspark-client==4.0.*'; "
    f"{SAIL}=sail/bin/python"
)


@dataclass(frozen=True)
class Work:
    """Files, and the pipeline over them; `query` is its name in `sail.py`."""

    query: str
    folder: Path
    rows: int
    output: Callable[[Path], Output]  # into files of a folder
    campaigns: Path | None = None

    def asked(self, folder: Path) -> dict[str, str]:
        """What `sail.py` is to do."""
        asked = {"query": self.query, "rows": str(self.folder), "into": str(folder)}
        return {**asked, "campaigns": str(self.campaigns)}


def _window(context: Context) -> Work:
    folder, campaigns, rows, _ = event_files(context)
    table = context.new_folder("campaigns") / "campaigns.parquet"
    pq.write_table(campaigns, table)
    counted = views_of_campaigns(folder, campaigns)
    return Work("window", folder, rows, _into(counted), table)


def _keyed(context: Context) -> Work:
    folder, rows, _ = key_files(context)
    return Work("keyed", folder, rows, _into(key_sums(folder)))


def _etl(context: Context) -> Work:
    folder, rows = etl_files(context)
    return Work("etl", folder, rows, _into(sales(folder)))


def _into(stream: hr.Stream) -> Callable[[Path], Output]:
    return lambda folder: stream.write.parquet(folder, compression="snappy")


# ---- ours ------------------------------------------------------------------------------------


def bounded_window(context: Context) -> dict[str, Any]:
    """The Yahoo query."""
    return _bounded(context, _window(context))


def bounded_keyed(context: Context) -> dict[str, Any]:
    """Count and sum by many keys."""
    return _bounded(context, _keyed(context))


def bounded_etl(context: Context) -> dict[str, Any]:
    """A filter and a computed column."""
    return _bounded(context, _etl(context))


def _bounded(context: Context, work: Work) -> dict[str, Any]:
    spark = {"engine": "spark", "session": context.session, "shards": CORES}
    sides = {
        "Spark": lambda folder: _run(work.output(folder), **spark),
        "node": lambda folder: _run(work.output(folder), engine="node", workers=CORES),
        "Spark's batch": lambda folder: _batch(context.theirs(), work, folder),
    }
    return _compared(context, work, sides)


def _batch(spark: Any, work: Work, folder: Path) -> float:
    """The same as one batch of Spark's own, in the wording of the streaming side."""
    from pyspark.sql import functions

    query = sail.QUERIES[work.query](spark, functions, work.asked(folder))[0]
    begun = time.perf_counter()
    query().write.option("compression", "snappy").parquet(str(folder))
    return time.perf_counter() - begun


def _run(output: Output, **options: Any) -> float:
    begun = time.perf_counter()
    hr.run(output, **options)
    return time.perf_counter() - begun


# ---- Sail ------------------------------------------------------------------------------------


def rival_window(context: Context) -> dict[str, Any]:
    """The Yahoo query."""
    return _rival(context, _window)


def rival_keyed(context: Context) -> dict[str, Any]:
    """Count and sum by many keys."""
    return _rival(context, _keyed)


def rival_etl(context: Context) -> dict[str, Any]:
    """A filter and a computed column."""
    return _rival(context, _etl)


def _rival(context: Context, make: Callable[[Context], Work]) -> dict[str, Any]:
    with Sail() as rival:
        work = make(context)
        sides = {
            "node": lambda folder: _run(work.output(folder), engine="node", workers=CORES),
            "Sail": lambda folder: rival.run(work, folder),
        }
        return _compared(context, work, sides)


class Sail:
    """Sail in a process of its own, with a Python of its own: it answers a line with a line."""

    def __enter__(self) -> Sail:
        python = os.environ.get(SAIL)
        if not python:
            raise Skipped(NO_SAIL)
        self._process = subprocess.Popen(
            [python, sail.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self

    def run(self, work: Work, folder: Path) -> float:
        """The seconds of the fastest wording of a query."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended: there is no answer
            self._process.stdin.write(json.dumps(work.asked(folder)) + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise Skipped(f"Sail ended; {NO_SAIL}")
        return float(json.loads(answer)["seconds"])

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


# ---- both ------------------------------------------------------------------------------------


def _compared(
    context: Context, work: Work, sides: dict[str, Callable[[Path], float]]
) -> dict[str, Any]:
    """The first side's rate to the second's: of the best runs, and of the medians.

    What more sides did is told beside them.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    results: dict[str, pa.Table] = {}
    for number in range(ROUNDS + 1):
        for name, run in sides.items():
            context.say(f"{name}, run {number} of {ROUNDS}")
            folder = context.new_folder(f"{work.query}-{name.lower()}")
            seconds[name].append(run(folder / "out"))
            results[name] = pq.ParquetDataset(folder / "out").read()
    runs = {name: Timed(found[1:]) for name, found in seconds.items()}
    (one, ours), (other, theirs), *more = runs.items()
    first, *others = results.values()
    return {
        "ratio": theirs.best / ours.best,
        "ratio_median": theirs.median / ours.median,
        "sides": {name: runs[name].rates(work.rows) for name in (one, other)},
        "beside": {name: run.rates(work.rows) for name, run in more},
        "correct": first.num_rows > 0 and all(same_rows(first, each) for each in others),
        "rows": work.rows,
        "seconds": {name: [round(s, 3) for s in found[1:]] for name, found in seconds.items()},
    }
