"""What Kafka knows of a message besides its value, as columns: key, time, place, headers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.schema import Field, Schema
from headrace.plan.types import DataType, int32, int64, optional, string, timestamp

from .kafka_decode import Bad, Format, Messages

HEADER = "header:"  # and its name
_TYPES: dict[str, DataType] = {
    "key": optional(string),
    "timestamp": optional(timestamp),
    "partition": int32,
    "offset": int64,
}


class Metadata:
    """Which of them become columns, and under which names.

    >>> Metadata.of({"key": "user", "header:trace": "trace"}, Schema.of({"n": int})).schema
    Schema(user: optional(string), trace: optional(string))
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        self.columns = dict(columns)  # what it is, by the name of the column
        self.schema = Schema(
            tuple(Field(n, _TYPES.get(what, optional(string))) for n, what in columns.items())
        )

    @classmethod
    def of(cls, given: Mapping[str, str], schema: Schema) -> Metadata:
        """What a user asks for: names of columns by what they are."""
        for what, name in given.items():
            if what not in _TYPES and not (what.startswith(HEADER) and what != HEADER):
                known = ", ".join(_TYPES)
                raise DataError(f"metadata: {what!r} is none of {known} and {HEADER}<name>")
            if name in schema or list(given.values()).count(name) > 1:
                raise DataError(f"metadata: there are two columns {name!r}; name one otherwise")
        return cls({name: what for what, name in given.items()})

    def select(self, wanted: Sequence[str]) -> Metadata:
        """Only the columns that are wanted."""
        return Metadata({name: what for name, what in self.columns.items() if name in wanted})


class WithMetadata:
    """Another format, and columns of metadata behind its own.

    A key or header that is not UTF-8 makes a message a bad one.
    """

    def __init__(self, inner: Format, metadata: Metadata, order: Schema) -> None:
        self._inner, self._metadata, self._order = inner, metadata, order
        self.wanted: Sequence[str] = [*inner.wanted, *metadata.columns.values()]

    def decode(self, messages: Messages) -> tuple[pa.RecordBatch | None, list[Bad]]:
        """The rows of the good messages, and the bad ones."""
        rows, bad = self._inner.decode(messages)
        refused = dict(bad)
        texts = {
            name: self._texts(name, messages, refused)
            for name, what in self._metadata.columns.items()
            if self._metadata.schema[name].is_text
        }
        good = np.array([n for n in range(len(messages)) if n not in refused], np.int64)
        if rows is None or not len(good):
            return None, sorted(refused.items())
        before = dict(bad)
        decoded = [n for n in range(len(messages)) if n not in before]
        if len(good) < len(decoded):  # some were good but for their key
            rows = rows.take(np.searchsorted(decoded, good))
        columns = {name: rows[name] for name in rows.schema.names}
        for field in self._metadata.schema:
            values = texts.get(field.name) or self._plain(field.name, messages)
            columns[field.name] = pa.array(values, field.type.to_arrow()).take(good)
        made = [columns[name] for name in self._order.names]
        return pa.record_batch(made, names=list(self._order.names)), sorted(refused.items())

    def _plain(self, name: str, messages: Messages) -> Sequence[Any]:
        what = self._metadata.columns[name]
        if what == "partition":
            return [messages.partition] * len(messages)
        return messages.offsets if what == "offset" else messages.stamps or []

    def _texts(self, name: str, messages: Messages, refused: dict[int, str]) -> list[str | None]:
        """Keys or headers as texts; what is none is refused."""
        what, made = self._metadata.columns[name], []
        values = messages.keys if what == "key" else messages.header(what.removeprefix(HEADER))
        for number, value in enumerate(values or ()):
            try:
                made.append(None if value is None else value.decode())
            except UnicodeDecodeError as error:
                said = f"the {what.replace(':', ' ')} is not UTF-8: {error}"
                refused.setdefault(number, said)
                made.append(None)
        return made
