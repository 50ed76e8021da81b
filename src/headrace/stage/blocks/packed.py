"""Decimals, lists and structs in blocks: each value is some bytes, which kernels carry as a text.

A decimal is its 16 bytes, the highest one first and its sign turned, so that bytes have the order
of the values. A list is how many items it has, the length of each, and their bytes; a struct is the
same without the number. An item of a fixed width is its bytes, and a null has the length -1 and
none. Equal values have equal bytes, but for floats: 0.0 and -0.0 differ.

>>> rows = pa.array([[1, None], None, []], pa.list_(pa.int16()))
>>> [value and value.hex() for value in pack(rows).to_pylist()]
['0200000002000000ffffffff0100', None, '00000000']
>>> unpack(pack(rows), rows.type).to_pylist()
[[1, None], None, []]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.expressions import Literal

_LENGTH = np.dtype("<i4")
_NULL = -1
_DECIMAL_BYTES = 16
_SIGN = 0x80  # the highest bit of a number


def pack(values: Any) -> pa.Array:
    """A column as bytes, one binary value for each of it; nulls stay null."""
    kind = values.type
    if pa.types.is_list(kind):
        return _with_nulls(_packed_lists(values), values)
    if pa.types.is_struct(kind):
        return _with_nulls(_packed_structs(values), values)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return values.cast(pa.binary())
    return _with_nulls(_packed_numbers(values), values)


def unpack(packed: pa.Array, kind: Any) -> pa.Array:
    """What `pack` packed, of this type."""
    if pa.types.is_list(kind):
        return _unpacked_lists(packed, kind)
    if pa.types.is_struct(kind):
        return _unpacked_structs(packed, kind)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return packed.cast(kind)
    return _unpacked_numbers(packed, kind)


def constant(literal: Literal) -> Any:
    """A constant as it lies in blocks: a text, or the bytes of a decimal."""
    if literal.type.arrow is None:
        return literal.value
    return pack(pa.array([literal.value], literal.type.arrow))[0].as_py()


# ---- of a fixed width ------------------------------------------------------------------------


def _packed_numbers(values: Any) -> pa.Array:
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    width = values.type.bit_width // 8
    data = np.frombuffer(values.buffers()[1] or b"", np.uint8)
    data = data[values.offset * width : (values.offset + len(values)) * width]
    if pa.types.is_decimal(values.type):
        data = data.reshape(-1, width)[:, ::-1].copy()
        data[:, 0] ^= _SIGN
    lengths = np.full(len(values), width)
    if values.null_count:  # a null has no bytes, whatever lies there
        valid = _valid(values)
        data, lengths = data.reshape(-1, width)[valid], lengths * valid
    return _binary(lengths, data)


def _unpacked_numbers(packed: Any, kind: Any) -> pa.Array:
    stored = pa.uint8() if pa.types.is_boolean(kind) else kind
    width, valid = stored.bit_width // 8, _valid(packed)
    data = np.zeros((len(packed), width), np.uint8)
    starts, _, given = _cells(packed)
    data[valid] = given[starts[valid][:, None] + np.arange(width)]
    if pa.types.is_decimal(kind):
        data[:, 0] ^= _SIGN
        data = np.ascontiguousarray(data[:, ::-1])
    made = pa.Array.from_buffers(stored, len(packed), [_bitmap(packed), _buffer(data)])
    return made.cast(kind) if stored != kind else made


# ---- with parts ------------------------------------------------------------------------------


def _packed_lists(values: Any) -> pa.Array:
    counts = values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(_LENGTH)
    items = pack(values.flatten())  # without those that lie under nulls
    lengths = _lengths(items)
    return _joined(
        _binary(np.full(len(values), _LENGTH.itemsize), counts),
        _binary(counts * _LENGTH.itemsize, lengths),
        _grouped(items, counts),
    )


def _unpacked_lists(packed: Any, kind: Any) -> pa.Array:
    starts, _, data = _cells(packed)
    counts = np.zeros(len(packed), np.int64)
    filled = _lengths(packed) > 0  # an empty list may have no bytes
    counts[filled] = _numbers_at(data, starts[filled])
    heads = np.where(filled, starts + _LENGTH.itemsize, 0)
    lengths = _numbers_at(data, _spread(heads, counts, _LENGTH.itemsize))
    sizes = np.maximum(lengths, 0)
    bodies = heads + counts * _LENGTH.itemsize
    before = np.concatenate(([0], np.cumsum(sizes)))  # bytes of all items in front of each
    ends = np.cumsum(counts)
    firsts = np.repeat(bodies - before[ends - counts], counts) + before[:-1]
    items = unpack(_taken(data, firsts, lengths), kind.value_type)
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    parts = [_bitmap(packed), _buffer(offsets)]
    return pa.Array.from_buffers(kind, len(packed), parts, children=[items])


def _packed_structs(values: Any) -> pa.Array:
    parts = [pack(part) for part in values.flatten()]  # null where the struct is
    lengths = np.stack([_lengths(part) for part in parts], axis=1)
    heads = _binary(np.full(len(values), lengths.shape[1] * _LENGTH.itemsize), lengths)
    return _joined(heads, *(_grouped(part, np.ones(len(values), np.int64)) for part in parts))


def _unpacked_structs(packed: Any, kind: Any) -> pa.Array:
    starts, _, data = _cells(packed)
    valid, width = _valid(packed), kind.num_fields * _LENGTH.itemsize
    lengths = np.full((len(packed), kind.num_fields), _NULL, np.int64)
    places = starts[valid][:, None] + np.arange(0, width, _LENGTH.itemsize)
    lengths[valid] = _numbers_at(data, places.ravel()).reshape(places.shape)
    at, parts = starts + width, []
    for number, part in enumerate(kind):
        parts.append(unpack(_taken(data, at, lengths[:, number]), part.type))
        at = at + np.maximum(lengths[:, number], 0)
    return pa.Array.from_buffers(kind, len(packed), [_bitmap(packed)], children=parts)


# ---- columns of bytes ------------------------------------------------------------------------


def _binary(lengths: np.ndarray, data: Any) -> pa.Array:
    """Values of these lengths, which lie one behind the other."""
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    parts = [None, _buffer(offsets), _buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(lengths), parts)


def _with_nulls(packed: pa.Array, of: Any) -> pa.Array:
    if not of.null_count:
        return packed
    _, *parts = packed.buffers()
    return pa.Array.from_buffers(packed.type, len(packed), [_bitmap(of), *parts])


def _cells(packed: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each value where it begins and ends; and the bytes."""
    _, ends, data = packed.buffers()
    offsets = np.frombuffer(ends, np.int32)[packed.offset :][: len(packed) + 1].astype(np.int64)
    return offsets[:-1], offsets[1:], np.frombuffer(data or b"", np.uint8)


def _lengths(packed: Any) -> np.ndarray:
    starts, ends, _ = _cells(packed)
    return np.where(_valid(packed), ends - starts, _NULL).astype(_LENGTH)


def _grouped(packed: Any, counts: np.ndarray) -> pa.Array:
    """So many values at a time as one each: their bytes lie one behind the other already."""
    starts, ends, data = _cells(packed)
    if not len(packed):
        return _binary(np.zeros(len(counts), np.int64), data[:0])
    if packed.null_count:  # nothing of what may lie under them
        packed = _taken(data, starts, _lengths(packed))
        starts, ends, data = _cells(packed)
    before = np.append(starts, ends[-1])
    behind = np.cumsum(counts)
    return _binary(before[behind] - before[behind - counts], data[starts[0] : ends[-1]])


def _taken(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> pa.Array:
    """Values that lie anywhere; those of a negative length are null."""
    sizes = np.maximum(lengths, 0)
    made = _binary(sizes, data[_spread(starts, sizes)])
    bits = np.packbits(lengths >= 0, bitorder="little")
    _, *parts = made.buffers()
    return pa.Array.from_buffers(made.type, len(made), [_buffer(bits), *parts])


def _spread(starts: np.ndarray, counts: np.ndarray, step: int = 1) -> np.ndarray:
    """So many places from each start on.

    >>> _spread(np.array([10, 20]), np.array([2, 1]), 4).tolist()
    [10, 14, 20]
    """
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before * step, counts) + np.arange(int(counts.sum())) * step


def _numbers_at(data: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The lengths that lie at some places."""
    found = data[places[:, None] + np.arange(_LENGTH.itemsize)]
    return found.view(_LENGTH).ravel().astype(np.int64)


def _joined(*parts: Any) -> pa.Array:
    import pyarrow.compute as pc

    no_separator: Any = b""
    return pc.binary_join_element_wise(*parts, no_separator)


def _buffer(memory: Any) -> pa.Buffer:
    return pa.py_buffer(memory)


def _valid(values: Any) -> np.ndarray:
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _bitmap(values: Any) -> pa.Buffer | None:
    if not values.null_count:
        return None
    return _buffer(np.packbits(_valid(values), bitorder="little"))
