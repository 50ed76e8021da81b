"""What Spark sees of a keyed stage: a stateful processor around `keyed.py`.

It is kept light, because Spark also loads it in a process that only asks for its state variables.
There is one of those, and its schema is given as a structure: for each variable, and for each
schema as text, a task and Java would have to talk to each other once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from .wire import Letter, bundles, from_columns

NAME = StructType([StructField("name", StringType())])
PIECE = StructType([StructField("value", BinaryType())])


class KeyedProcessor(StatefulProcessor):
    """All stages behind the same number of exchanges, for the shard that is its key."""

    def __init__(self, path: str, level: int) -> None:
        self._path, self._level = path, level

    def init(self, handle: StatefulProcessorHandle) -> None:
        """See StatefulProcessor."""
        self._pieces = handle.getMapState("pieces", NAME, PIECE)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        """See StatefulProcessor."""
        import pandas as pd

        from .keyed import KeyedLevel

        letters = [
            letter
            for frame in rows
            for letter in from_columns(frame[name] for name in Letter._fields)
        ]
        level = KeyedLevel(self._path, self._level, self._pieces)
        for bundle in bundles(level.handle(int(key[0]), letters)):
            yield pd.DataFrame(bundle, columns=list(Letter._fields))

    def close(self) -> None:
        """See StatefulProcessor."""
