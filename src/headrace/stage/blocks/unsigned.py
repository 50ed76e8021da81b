"""Unsigned integers in blocks: code computes with signed ones, so they are stored as such.

Those of 8 to 32 bits become the next wider signed integers. Those of 64 bits become int64 with
their highest bit turned, so that their order is that of the stored values.

>>> to_stored(pa.array([0, 2**64 - 1], pa.uint64())).to_pylist() == [-(2**63), 2**63 - 1]
True
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

_WIDER: dict[Any, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
}
_HIGHEST_BIT = np.int64(-(2**63))


def stored_as(kind: pa.DataType) -> pa.DataType:
    """The Arrow type of what a block stores for a column."""
    return pa.int64() if kind == pa.uint64() else _WIDER.get(kind, kind)


def to_stored(values: pa.Array) -> pa.Array:
    """A column as a block stores it."""
    if values.type == pa.uint64():
        return _turned(values, pa.int64())
    wider = _WIDER.get(values.type)
    return values if wider is None else values.cast(wider)


def from_stored(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column of a block in its own type."""
    if kind == pa.uint64():
        return _turned(values, kind)
    # what lies under nulls may be anything, so it is not checked
    return values.cast(kind, safe=False) if kind in _WIDER else values


def _turned(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same values with their highest bits turned, as another type of 64 bits."""
    data: Any
    valid, data = values.buffers()
    words: Any = np.frombuffer(data, np.int64, values.offset + len(values)) ^ _HIGHEST_BIT
    parts = [valid, pa.py_buffer(words)]
    return pa.Array.from_buffers(kind, len(values), parts, values.null_count, values.offset)
