"""The rows of a Spark DataFrame: read by Spark's own tasks, or collected by other engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.expressions import Expression
from headrace.plan.schema import Field, Schema, said_of_types, schema_of_arrow

from .arrow import conform, said_of_unread
from .memory import MemoryReader
from .spark_filter import as_column, handed_over, quoted
from .spark_versions import arrow_type

CHANNEL = "rows"  # the only one: the rows of a DataFrame have no order that time could follow


class SparkFrame:
    """A batch or streaming DataFrame as a source.

    On Spark its partitions come to our tasks as Arrow batches. Elsewhere a batch DataFrame is
    collected into memory, and a streaming one is refused. Without a schema, columns for which
    headrace has no type stay unread; a column is nullable if the DataFrame says so.

    Guarantees: what the DataFrame's own sources guarantee; Spark reads the rows of a batch again.
    """

    replayable = True
    # No order: watermarks move from one micro-batch to the next, never inside one.
    unordered = True

    def __init__(self, frame: Any, *, schema: Any = None) -> None:
        self.frame = _checked(frame)
        self.is_streaming = bool(frame.isStreaming)
        there, self._unread = _schema_of(frame)
        self._schema = there if schema is None else _chosen(Schema.of(schema), there, self._unread)

    def __str__(self) -> str:
        said = f"{'streaming' if self.is_streaming else 'batch'} DataFrame"
        return said + said_of_unread(self._unread)

    def __getstate__(self) -> dict[str, Any]:
        """All but the DataFrame, which lives on the driver."""
        return {**self.__dict__, "frame": None}

    def schema(self) -> Schema:
        """The columns."""
        return self._schema

    def channels(self) -> Sequence[str]:
        """One."""
        return [CHANNEL]

    def latest(self) -> dict[str, Any]:
        """Unknown: Spark plans what is read."""
        return {CHANNEL: None}

    def open(
        self,
        channel: str,
        start: int | None = None,
        stop: int | None = None,
        columns: Sequence[str] | None = None,
        predicate: Expression | None = None,
    ) -> MemoryReader:
        """Collect a batch DataFrame: at least the rows for which the predicate is true."""
        if self.is_streaming:
            raise DataError(
                "a streaming DataFrame is read by Spark alone\n"
                '  fix: run the pipeline with engine="spark"'
            )
        names = self._schema.names if columns is None else tuple(columns)
        rows = conform(self.selected(names, predicate).toArrow(), self._schema.select(names))
        return MemoryReader(rows, start or 0, rows.num_rows if stop is None else stop)

    def handed(self, predicate: Expression | None) -> Expression | None:
        """The part of a predicate that Spark filters by, so that its readers can use it."""
        return handed_over(predicate, self._schema, self.frame)

    def selected(self, names: Sequence[str], predicate: Expression | None = None) -> Any:
        """The DataFrame with only these columns, and without rows for which Spark can tell that
        the predicate is not true. With no columns, one of them still counts the rows."""
        chosen, handed = names or self._schema.names[:1], self.handed(predicate)
        rows = self.frame if handed is None else self.frame.filter(as_column(handed))
        return rows.select(*map(quoted, chosen))

    def committed(self, channel: str, position: Any) -> None:
        """Nothing to do: Spark tells the DataFrame's sources."""

    def close(self) -> None:
        """Nothing to do: the DataFrame is the user's."""


def _checked(frame: Any) -> Any:
    if not all(hasattr(frame, name) for name in ("isStreaming", "schema", "toArrow")):
        raise TypeError(f"a {type(frame).__name__} is not a Spark DataFrame")
    if not hasattr(frame, "_jdf"):
        raise TypeError(
            "DataFrames of Spark Connect cannot be read: headrace needs a session of its own "
            "process, e.g. SparkSession.builder.master(...).getOrCreate()"
        )
    return frame


def _schema_of(frame: Any) -> tuple[Schema, dict[str, str]]:
    """The columns that headrace has types for, and the others with Spark's words for theirs."""
    from pyspark.errors import PySparkException

    names = [field.name for field in frame.schema]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"the DataFrame has two columns {twice!r}; rename or drop one of them")
    fields: list[Field] = []
    unread: dict[str, str] = {}
    for field in frame.schema:
        try:
            kind = arrow_type(field.dataType)
        except PySparkException:  # Arrow has no such type
            unread[field.name] = field.dataType.simpleString()
            continue
        made = pa.field(field.name, kind, field.nullable)
        known, unknown = schema_of_arrow(pa.schema([made]))
        if unknown:
            unread[field.name] = field.dataType.simpleString()
        fields.extend(known)
    return Schema(tuple(fields), said_of_types(unread)), unread


def _chosen(wanted: Schema, there: Schema, unread: dict[str, str]) -> Schema:
    """The columns that the user asks for, of types that the DataFrame has."""
    for field in wanted:
        if field.name in unread:
            raise DataError(
                f"column {field.name!r} is {unread[field.name]} in the DataFrame, which headrace "
                "has no type for; cast it there, or leave it out of schema="
            )
        if field.name not in there:
            raise DataError(
                f"the DataFrame has no column {field.name!r}; {there.closest(field.name)}"
            )
        if there[field.name].name != field.type.name:
            raise DataError(
                f"column {field.name!r} is {there[field.name].required} in the DataFrame and "
                f"{field.type.required} in schema=; cast it there: "
                f'df.withColumn("{field.name}", df["{field.name}"].cast(...))'
            )
    return wanted
