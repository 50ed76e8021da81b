"""Types of Avro and ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.schema import Schema, schema_of_arrow
from headrace.plan.types import DataType, optional

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WIDEST_INT = 32  # bits of Avro's int; its long has 64, all with a sign

_WRITTEN: dict[str, Any] = {
    "bool": "boolean",
    "float32": "float",
    "float64": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "duration": "long",
}
_READ: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "time-millis": pa.time64("us"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}


def avro_schema(schema: Schema, name: str) -> dict[str, Any]:
    """A record with a field for each column.

    >>> avro_schema(Schema.of({"user": str, "at": "timestamp"}), "page-views")["fields"]
    ... # doctest: +NORMALIZE_WHITESPACE
    [{'name': 'user', 'type': 'string'},
     {'name': 'at', 'type': {'type': 'long', 'logicalType': 'timestamp-micros'}}]
    """
    record = re.sub(r"\W|^(?=\d)", "_", name, flags=re.ASCII)
    return _record(record, {field.name: field.type for field in schema})


def _record(name: str, parts: Mapping[str, DataType]) -> dict[str, Any]:
    for part in parts:
        if not NAME.fullmatch(part):
            raise DataError(
                f"column {part!r} has a name that Avro does not allow\n  fix: rename it to "
                "letters, digits and underscores"
            )
    fields = []
    for part, kind in parts.items():
        made = _written(kind, f"{name}_{part}")
        fields.append({"name": part, "type": ["null", made] if kind.nullable else made})
    return {"type": "record", "name": name, "fields": fields}


def _written(kind: DataType, name: str) -> Any:
    if kind.item is not None:
        return {"type": "array", "items": ["null", _written(kind.item, name)]}
    if kind.parts:
        return _record(name, {part: optional(each) for part, each in kind.parts.items()})
    if kind.is_decimal:
        arrow: Any = kind.arrow
        digits = {"precision": arrow.precision, "scale": arrow.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if kind.is_integer or kind.name == "uint64":
        bits = int(re.sub(r"\D", "", kind.name)) + kind.name.startswith("u")
        return "int" if bits <= WIDEST_INT else "long"
    return _WRITTEN[kind.name]


def without_durations(kind: Any) -> pa.DataType:
    """Durations, of which Avro has none that fits, as whole numbers of microseconds.

    >>> without_durations(pa.list_(pa.duration("us")))
    ListType(list<item: int64>)
    """
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(without_durations(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(part.name, without_durations(part.type)) for part in kind])
    return kind


def schema_of_avro(given: Any, where: str) -> Schema:
    """The columns of a record; those that headrace has no type for are named as unread.

    >>> fields = [{"name": "n", "type": ["null", "long"]}, {"name": "tags", "type": "string"}]
    >>> schema_of_avro({"type": "record", "name": "r", "fields": fields}, "registry")
    Schema(n: optional(int64), tags: string)
    """
    if not isinstance(given, dict) or given.get("type") != "record":
        raise DataError(f"{where} is no schema of records")
    names: dict[str, Any] = {}
    _name(given, names)
    known, _ = schema_of_arrow(pa.schema([_field(each, names) for each in given["fields"]]))
    return known


def _name(given: Any, names: dict[str, Any]) -> None:
    """Find the types that a schema names, which may be used again by their names."""
    if isinstance(given, list):
        for each in given:
            _name(each, names)
    elif isinstance(given, dict):
        if "name" in given and given.get("type") in ("record", "enum", "fixed"):
            names[given["name"].rpartition(".")[2]] = given
        for part in ("type", "items", "values"):
            if isinstance(given.get(part), list | dict):
                _name(given[part], names)
        for field in given.get("fields", ()):
            _name(field["type"], names)


def _field(given: Mapping[str, Any], names: Mapping[str, Any]) -> pa.Field:
    kind, nullable = _read(given["type"], names, ())
    return pa.field(given["name"], kind, nullable)


def _read(given: Any, names: Mapping[str, Any], inside: tuple[str, ...]) -> tuple[Any, bool]:
    """(Arrow's type, may it be null); one that headrace has no type for is Arrow's null."""
    if isinstance(given, list):
        others = [each for each in given if each != "null"]
        if len(others) != 1:
            return pa.null(), True
        return _read(others[0], names, inside)[0], len(others) < len(given)
    if isinstance(given, str):
        if given in _READ:
            return _READ[given], False
        short = given.rpartition(".")[2]
        if short not in names or short in inside:  # unknown, or a type inside of itself
            return pa.null(), True
        return _read(names[short], names, (*inside, short))
    kind, logical = given.get("type"), given.get("logicalType")
    if logical == "decimal" and given["precision"] <= 38:
        return pa.decimal128(given["precision"], given.get("scale", 0)), False
    if logical in _LOGICAL:
        return _LOGICAL[logical], False
    if kind == "array":
        item = _read(given["items"], names, inside)[0]
        return (pa.null(), True) if item == pa.null() else (pa.list_(item), False)
    if kind == "record":
        mine = (*inside, given["name"].rpartition(".")[2])
        parts = [(each["name"], _read(each["type"], names, mine)[0]) for each in given["fields"]]
        known = parts and all(part != pa.null() for _, part in parts)
        return (pa.struct(parts), False) if known else (pa.null(), True)
    return (pa.null(), True) if kind == "map" else _read(kind, names, inside)
