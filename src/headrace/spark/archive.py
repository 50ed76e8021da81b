"""An archive of Spark's Java classes, with which Java and Spark start some seconds sooner.

Most of a start of Spark is loading classes from jars. Java can keep them ready for use in a file
(class data sharing), one for each Java and Spark. `headrace warm` makes it; where it is there, our
own sessions on this machine use it. A Java that cannot use it starts without.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from headrace.plan.errors import HeadraceError
from headrace.stage import cache

from .java import Java, find_java

_MAKING = "HEADRACE_MAKE_ARCHIVE"  # set where a Spark is run to be archived: into which file
_PROGRAM = """
import headrace as hr
rows = hr.read.memory({"key": [1, 2, 1], "at": [10, 20, 30]}).with_watermark("at", 0)
counted = rows.key_by("key").window(hr.tumbling(100)).agg(n=hr.count())
hr.run(counted.write.null(), engine="spark", master="local[2]")
from headrace.spark.session import close_session
close_session(wait=WAIT)
"""
_TIMEOUT = 300.0  # seconds
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


class NoArchive(HeadraceError):
    """This Java makes no archive."""


def java_options() -> str:
    """What Java is told when it starts Spark."""
    making = os.environ.get(_MAKING)
    if making:
        return f'"-XX:ArchiveClassesAtExit={making}" {_QUIET}'
    path = archive_of(find_java())
    return f'"-XX:SharedArchiveFile={path}" {_QUIET}' if path.exists() else ""


def archive_of(java: Java) -> Path:
    """Where the archive for a Java and this Spark is, or would be."""
    made_for = f"{os.path.realpath(java.path)} {java.version} {version('pyspark')}"
    name = hashlib.sha256(made_for.encode()).hexdigest()[:16]
    return cache.folder().parent / "java" / f"spark-{name}.jsa"


def make_archive() -> Path:
    """Run a small pipeline on Spark, and keep its classes; takes half a minute or more."""
    path = archive_of(find_java())
    waiting = path.with_name(f"{path.name}.{os.getpid()}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM.replace("WAIT", str(_TIMEOUT))],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                _MAKING: str(waiting),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
        )
        if not waiting.exists():
            said = "\n  ".join(done.stderr.strip().splitlines()[-5:])
            raise NoArchive(f"Java made no archive of Spark's classes\n  {said}")
        os.replace(waiting, path)
    finally:
        waiting.unlink(missing_ok=True)
    return path
