"""Comparing results, whatever the order of their rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def same_rows(got: pa.Table, wanted: pa.Table) -> bool:
    """Are these the same rows, each as often, in any order? Columns are found by name.

    >>> rows = pa.table({"a": ["x", "y"], "b": [1, 2]})
    >>> same_rows(rows, pa.table({"b": [2, 1], "a": ["y", "x"]}))
    True
    >>> same_rows(pa.table({"a": [1, 1, 2]}), pa.table({"a": [1, 2, 2]}))
    False
    """
    if sorted(got.schema.names) != sorted(wanted.schema.names):
        return False
    if got.num_rows != wanted.num_rows:
        return False
    try:
        got = got.select(wanted.schema.names).cast(wanted.schema)
    except pa.ArrowInvalid:  # a value does not fit the type it should have
        return False
    order: Any = [(name, "ascending") for name in wanted.schema.names]
    return bool(got.sort_by(order).equals(wanted.sort_by(order)))
