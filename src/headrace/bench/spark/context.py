"""What the cases of `headrace bench spark` share: the session, a folder, and sizes."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.bench.figure import Skipped
from headrace.bench.report import Bench
from headrace.spark.pools import pool_settings
from headrace.spark.session import DAEMON, STARTING, check_java

from .data import Files

CORES = 2
MEMORY = "6g"  # of Java: enough for everything that the other side keeps
WARM_UP = 2  # batches that are left out
STEADY = 3  # batches that are measured: the best one counts
BATCHES = WARM_UP + STEADY

_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_STATE = "org.apache.spark.sql.execution.streaming.state."
STORES = {
    "hdfs": _STATE + "HDFSBackedStateStoreProvider",
    "rocksdb": _STATE + "RocksDBStateStoreProvider",
}


@dataclass
class Context(Bench):
    """The surroundings of a case. `scale` multiplies the rows of a batch."""

    session: Any
    folder: Path
    scale: float = 1.0
    dictionaries: bool = True  # do files have them, where values repeat?
    kafka_jars: tuple[str, ...] = ()
    no_kafka: str = "the session was started without Spark's Kafka connector"

    def rows(self, rows: int, least: int = 64) -> int:
        """So many rows, scaled."""
        return max(least, int(rows * self.scale))

    def files(self, name: str) -> Files:
        """Files to be written into an empty folder."""
        return Files(self.new_folder(name), self.dictionaries)

    def new_folder(self, name: str) -> Path:
        """An empty folder."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))

    def theirs(self, *, store: str = "hdfs", **settings: str) -> Any:
        """A session for the program that ours is compared with, over the same Spark."""
        made = self.session.newSession()
        for name, value in {
            "spark.sql.shuffle.partitions": str(CORES),
            "spark.sql.streaming.stateStore.providerClass": STORES[store],
            "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
            "spark.sql.session.timeZone": "UTC",
            **{name.replace("__", "."): value for name, value in settings.items()},
        }.items():
            made.conf.set(name, value)
        return made


@contextmanager
def opened(
    scale: float = 1.0, session: Any = None, kafka: bool = False, dictionaries: bool = True
) -> Iterator[Context]:
    """A context with a Spark of its own on two cores, or with one that runs already.

    kafka: fetch Spark's Kafka connector before it starts, if it can be had.
    """
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    jars: tuple[str, ...] = ()
    reason = Context.no_kafka
    try:
        if kafka and session is None:
            jars, reason = _kafka_jars()
        used = start_session(jars) if session is None else session
        yield Context(used, folder, scale, dictionaries, jars, reason)
        if session is None:
            used.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _kafka_jars() -> tuple[tuple[str, ...], str]:
    from .kafka import jars

    try:
        return tuple(jars()), ""
    except Skipped as skipped:
        return (), str(skipped)


def start_session(jars: Sequence[str] = ()) -> Any:
    """Spark on two cores, with room for both sides."""
    from pyspark.sql import SparkSession

    check_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("headrace bench")
    settings = {**STARTING, "spark.python.daemon.module": DAEMON, "spark.driver.memory": MEMORY}
    settings |= pool_settings()
    if jars:
        settings["spark.jars"] = ",".join(jars)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
