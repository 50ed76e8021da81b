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
        names = rows.schema.names
    except UnicodeDecodeError:
        raise DataError(f"{where} is damaged: the name of a column is no text") from None
    for name, column in zip(names, rows.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowException as error:
            raise DataError(f"{where}: column {name!r} is damaged: {error}") from None
    try:
        rows.validate()
    except pa.ArrowException as error:
        raise DataError(f"{where} is damaged: {error}") from None
    return rows
