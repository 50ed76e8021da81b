"""What differs between the versions of PySpark that run our jobs; nowhere else is it asked for.

4.0, 4.1  A Python source is not told where its next batch begins, and Spark cannot limit what a
          batch reads. We limit batches ourselves, in every version; where a batch begins is known
          from what Spark asked for last, which is kept in the checkpoint (`spark/asked.py`).
4.0       Java and Python meet over TCP only; the manager of checkpoint files, and what makes
          functions over Arrow batches, have other names.
4.2       Types are turned into Arrow's with a time zone, and not with a word for UTC.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

OLDEST, NEWEST = (4, 0), (4, 3)
INSTALL = 'pip install "pyspark>=4.0,<4.4"'
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"

_FILE_MANAGER = "FileSystemBasedCheckpointFileManager"
_STREAMING = "org.apache.spark.sql.execution.streaming"


def parsed(version: str) -> tuple[int, int]:
    """The part of a version that says what Spark can do.

    >>> parsed("4.0.5"), parsed("4.3.0.dev1"), parsed("4.10.0-SNAPSHOT")
    ((4, 0), (4, 3), (4, 10))
    """
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)


def installed() -> tuple[int, int]:
    """The version of the package."""
    import pyspark

    return parsed(pyspark.__version__)


def tells_start() -> bool:
    """Does Spark tell a Python source where its next batch begins?"""
    return installed() >= (4, 2)


def read_limit(rows: int) -> Any:
    """The limit that Spark hands back to a source; only asked for where it knows limits."""
    from pyspark.sql.streaming.datasource import ReadMaxRows

    return ReadMaxRows(rows)


def has_unix_sockets() -> bool:
    """Can Java and Python meet without TCP, which is sooner?"""
    return installed() >= (4, 1)


def file_manager() -> str:
    """Spark's class that writes checkpoint files to a file system as it is."""
    package = _STREAMING if installed() < (4, 1) else f"{_STREAMING}.checkpointing"
    return f"{package}.{_FILE_MANAGER}"


def arrow_udf(function: Any, schema: Any) -> Any:
    """A function over Arrow batches as Spark calls it, made without asking for pandas."""
    from pyspark.sql.pandas import functions
    from pyspark.util import PythonEvalType

    private: Any = functions
    made = private._create_pandas_udf if installed() < (4, 1) else private.vectorized_udf
    return made(function, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)


def arrow_type(kind: Any) -> Any:
    """A type of Spark as Arrow's, times in UTC; a PySparkException where Arrow has none."""
    from pyspark.sql.pandas.types import to_arrow_type

    private: Any = to_arrow_type
    if "timezone" in inspect.signature(private).parameters:
        return private(kind, timezone="UTC")
    return private(kind)
