"""Rows from outside, looked at before compiled code follows their offsets, codes and views."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa

from headrace.plan.errors import DataError

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


def validated(rows: Rows, where: str) -> Rows:
    """The rows, if all offsets, codes, views and texts in them are what Arrow says they should be.

    `where` is said in front of what is wrong. Numbers cost nothing, texts some ns each.

    >>> column = pa.DictionaryArray.from_arrays(pa.array([7]), ["ann"], safe=False)
    >>> validated(pa.record_batch({"user": column}), "a.arrow")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    headrace.plan.errors.DataError: a.arrow: column 'user' is damaged: Dictionary indices ...
    """
    try:
        named = list(zip(rows.schema.names, rows.columns, strict=True))
    except (UnicodeDecodeError, KeyError):
        raise DataError(f"{where} is damaged: a column has no name or type that is one") from None
    if rows.num_rows < 0:
        raise DataError(f"{where} is damaged: it has {rows.num_rows} rows")
    for name, column in named:
        try:
            column.validate(full=True)
        except pa.ArrowException as error:
            raise DataError(f"{where}: column {name!r} is damaged: {error}") from None
    try:
        rows.validate()
    except pa.ArrowException as error:
        raise DataError(f"{where} is damaged: {error}") from None
    return rows
