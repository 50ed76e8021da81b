"""The Spark session: ours, quiet and local, or the user's own."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import SparkError
from .temporary import locked, new_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = 17  # the oldest that Spark 4 runs on
INSTALL_JAVA = (
    f"install Java {JAVA} or newer, e.g. `apt-get install openjdk-{JAVA}-jre-headless` or "
    f"`brew install openjdk@{JAVA}`, and set JAVA_HOME if it is not found"
)

DAEMON = "headrace.spark.daemon"  # the parent of Python workers, with our modules loaded

# Fixed when Spark starts.
STARTING = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.authenticate.socketTimeout": "60s",
}
# Of a session; ours is a new one of the user's context, so that theirs stays as it is.
RUNNING = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.sql.streaming.metricsEnabled": "false",
}


def open_session(master: str | None, session: Any) -> SparkSession:
    """The user's session, the one that runs already, or a new one."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SparkError(
            'engine="spark" needs PySpark\n  fix: pip install "headrace[spark]"'
        ) from None
    if session is not None:
        return session
    running = SparkSession.getActiveSession()
    if running is not None:
        used = running.sparkContext.master
        if master is not None and master != used:
            raise SparkError(
                f"Spark runs already in this process, on {used}, and not on {master}\n"
                "  fix: leave master= out, or stop that session first"
            )
        return running
    check_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master or "local[*]").appName("headrace")
    settings = dict(STARTING)
    if master is None or master.startswith("local"):
        settings["spark.python.daemon.module"] = DAEMON
    for name, value in settings.items():
        builder = builder.config(name, value)
    return _quietly(builder.getOrCreate)


def _quietly(begin: Any) -> Any:
    """Start Java with its messages in a file: it says a lot when it starts, and Python workers of
    Spark talk through it. If it does not start, the end of the file says why.
    """
    folder = new_folder("headrace-spark-")
    lock = locked(folder)  # as long as this process lives

    def remove() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            lock.close()

    atexit.register(remove)
    path = folder / "java.log"
    sys.stderr.flush()
    kept = os.dup(2)
    with open(path, "wb") as log:
        os.dup2(log.fileno(), 2)
    try:
        return begin()
    except Exception as error:
        said = path.read_text(errors="replace").strip().splitlines()[-8:]
        raise SparkError("\n  ".join([f"Spark did not start: {error}", *said])) from None
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def own_session(session: SparkSession, shards: int) -> SparkSession:
    """A session with our settings over the same Spark."""
    made = session.newSession()
    for name, value in {**RUNNING, "spark.sql.shuffle.partitions": str(shards)}.items():
        made.conf.set(name, value)
    return made


def check_java() -> None:
    """Java is there and new enough, or a SparkError says what to install."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found or not Path(found).exists():
        raise SparkError(f"Spark needs Java, which was not found\n  fix: {INSTALL_JAVA}")
    said = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr
    version = java_version(said)
    if version is not None and version < JAVA:
        raise SparkError(
            f"Spark needs Java {JAVA}, and {found} is {version}\n  fix: {INSTALL_JAVA}"
        )


def java_version(said: str) -> int | None:
    """The major version in what `java -version` says.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found.group(1)) if found else None
