"""Avro in messages, as schema registries have it: which schema a message has stands in front of it.

The wire format is that of Confluent's registry, which others speak, too: a zero byte, the number of
the schema as four bytes, the largest first, and the record in Avro's binary encoding.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.schema import Field, Schema

from .arrow import CONVERSION_ERRORS
from .avro_types import avro_schema, schema_of_avro, without_durations
from .schema_registry import Registry

MAGIC = 0
HEAD = struct.Struct(">bI")  # in front of a record: the magic byte, and the number of its schema


class Avro:
    """The format of a Kafka topic whose messages are Avro, with their schemas in a registry.

    registry: its URL, with user and password in it where it asks for them; they show nowhere.
    subject: the name under which it has the schemas of the topic, `<topic>-value` if not given.

    Read, each message is decoded by the schema that it names, and its fields become columns by
    their names: those of `schema=`, or without one those of the newest schema of the subject. A
    field that a message lacks is null, where its column may be. Written, a schema with all columns
    is registered when the first rows are; a registry that holds subjects to a compatibility may
    refuse it.

    >>> from headrace import read
    >>> avro = Avro("http://ann:secret@localhost:8081")
    >>> read.kafka("localhost:9092", "views", format=avro, schema={"user": str, "at": "timestamp"})
    Stream(user: string, at: timestamp)
    >>> avro
    Avro(http://localhost:8081)
    """

    def __init__(self, registry: str, *, subject: str | None = None) -> None:
        self._registry, self._subject = Registry(registry), subject
        _fastavro()

    def __repr__(self) -> str:
        said = "" if self._subject is None else f", subject={self._subject!r}"
        return f"Avro({self._registry}{said})"

    @property
    def __name__(self) -> str:
        """What a source and a sink call it."""
        return "avro"

    def schema(self, topic: str) -> Schema:
        """The columns of the newest schema of a topic."""
        subject = self._subject_of(topic)
        return schema_of_avro(self._registry.newest(subject), f"{self._registry}: {subject}")

    def decoder(self, schema: Schema) -> Callable[[list[Any]], pa.RecordBatch]:
        """A function of the values of messages that gives their rows."""
        return _Decoder(self._registry, schema)

    def encoder(self, schema: Schema, topic: str) -> Callable[[pa.RecordBatch], list[bytes]]:
        """A function of rows that gives a message for each; their schema is registered."""
        parsed = avro_schema(schema, topic)
        number = self._registry.register(self._subject_of(topic), parsed)
        return _Encoder(schema, parsed, number)

    def _subject_of(self, topic: str) -> str:
        return f"{topic}-value" if self._subject is None else self._subject


class _Decoder:
    __name__ = "avro"

    def __init__(self, registry: Registry, schema: Schema) -> None:
        self._registry, self._schema = registry, schema
        self._parsed: dict[int, Any] = {}  # the schemas that messages have named, by their numbers

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_parsed": {}}

    def __call__(self, values: list[Any]) -> pa.RecordBatch:
        rows = [self._decoded(value) for value in values]
        columns = [self._column(field, rows) for field in self._schema]
        return pa.record_batch(columns, schema=self._schema.to_arrow())

    def _decoded(self, value: bytes | None) -> dict[str, Any]:
        if value is None:
            raise DataError("no value (a tombstone)")
        if len(value) < HEAD.size or value[0] != MAGIC:
            raise DataError(
                f"begins with {value[: HEAD.size]!r}, and not with a zero byte and the number of a "
                "schema, as the wire format of schema registries has it"
            )
        _, number = HEAD.unpack_from(value)
        file = io.BytesIO(value)
        file.seek(HEAD.size)
        try:
            record = _fastavro().schemaless_reader(file, self._schema_of(number), None)
        except DataError:
            raise
        except Exception as error:  # fastavro raises what Python does: EOFError, IndexError, ...
            said = str(error) or type(error).__name__
            raise DataError(f"is no record of schema {number}: {said}") from None
        if file.tell() != len(value):
            more = len(value) - file.tell()
            raise DataError(f"has {more} bytes more than a record of schema {number}")
        if not isinstance(record, dict):
            raise DataError(f"schema {number} is no record, but a single value")
        return record

    def _schema_of(self, number: int) -> Any:
        if number not in self._parsed:
            self._parsed[number] = _fastavro().parse_schema(self._registry.schema(number))
        return self._parsed[number]

    def _column(self, field: Field, rows: list[dict[str, Any]]) -> pa.Array:
        kind = field.type
        values = [row.get(field.name) for row in rows]
        if not kind.nullable and None in values:
            row = rows[values.index(None)]
            said = "is null" if field.name in row else "is not there"
            raise DataError(f"field {field.name!r} {said}, and the column is {kind}")
        if kind.name == "string":
            values = [None if value is None else _text(value, field) for value in values]
        try:
            return pa.array(values, kind.to_arrow())
        except (*CONVERSION_ERRORS, OverflowError) as error:
            raise DataError(f"field {field.name!r} cannot be {kind.required}: {error}") from None


def _text(value: Any, field: Field) -> str:
    """Texts, names of enums and UUIDs."""
    if isinstance(value, str):
        return value
    if type(value).__name__ == "UUID":
        return str(value)
    raise DataError(f"field {field.name!r} is {value!r}, and not a text")


class _Encoder:
    __name__ = "avro"

    def __init__(self, schema: Schema, parsed: Any, number: int) -> None:
        self._schema, self._head = schema, HEAD.pack(MAGIC, number)
        self._parsed = _fastavro().parse_schema(parsed)

    def __call__(self, rows: pa.RecordBatch) -> list[bytes]:
        columns: dict[str, Sequence[Any]] = {}
        for field in self._schema:
            column: Any = rows.column(field.name)
            columns[field.name] = column.cast(without_durations(column.type)).to_pylist()
        write, made = _fastavro().schemaless_writer, []
        for values in zip(*columns.values(), strict=True):
            file = io.BytesIO()
            file.write(self._head)
            record = dict(zip(columns, values))
            try:
                write(file, self._parsed, record)
            except Exception as error:
                raise DataError(f"{record} cannot be written as Avro: {error}") from None
            made.append(file.getvalue())
        return made


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError:
        raise DataError(
            'Avro needs fastavro, which is not installed\n  fix: pip install "headrace[avro]"'
        ) from None
    return fastavro
