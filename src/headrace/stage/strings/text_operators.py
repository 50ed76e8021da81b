"""Operators and built-in functions of Text and Blob in compiled code, done on their words."""

from __future__ import annotations

import operator
from typing import Any

from numba import types
from numba.extending import overload, overload_method, register_jitable

from headrace.stage.strings.hashing import hash_words
from headrace.stage.strings.pieces import char_start, char_width
from headrace.stage.strings.text_codec import data_address, literal_words, utf8
from headrace.stage.strings.text_types import BlobType, TextType, WordsType
from headrace.stage.strings.text_values import blob, text
from headrace.stage.strings.words import (
    byte_at,
    byte_length,
    char_length,
    compare_words,
    contains_words,
    ends_with_words,
    equal_words,
    make_words,
    slice_words,
    starts_with_words,
)

STRS = (types.UnicodeType, types.StringLiteral)


# ---- two values ----------------------------------------------------------------------------


def compatible(a: types.Type, b: types.Type) -> bool:
    """Two Texts, a Text and a str, two Blobs, or a Blob and bytes; at least one of ours."""
    texts, blobs = (TextType, *STRS), (BlobType, types.Bytes)
    same = any(isinstance(a, side) and isinstance(b, side) for side in (texts, blobs))
    return same and (isinstance(a, WordsType) or isinstance(b, WordsType))


def _register_pair(taught: Any, on_words: Any, method: bool = False) -> None:
    """taught(a, b) for Text and str, in any order, is on_words(a's words, b's words)."""

    @register_jitable
    def bytes_right(head, tail, right):
        right_head, right_tail = make_words(data_address(right), len(right))
        return on_words(head, tail, right_head, right_tail)

    @register_jitable
    def bytes_left(left, head, tail):
        left_head, left_tail = make_words(data_address(left), len(left))
        return on_words(left_head, left_tail, head, tail)

    def literal_right(a, b):
        head, tail = literal_words(b)
        return on_words(a.head, a.tail, head, tail)

    def literal_left(a, b):
        head, tail = literal_words(a)
        return on_words(head, tail, b.head, b.tail)

    def str_right(a, b):
        if b._is_ascii:
            return bytes_right(a.head, a.tail, b)
        return bytes_right(a.head, a.tail, utf8(b))

    def str_left(a, b):
        if a._is_ascii:
            return bytes_left(a, b.head, b.tail)
        return bytes_left(utf8(a), b.head, b.tail)

    def choose(a, b):
        if not compatible(a, b):
            return None
        if isinstance(a, WordsType) and isinstance(b, WordsType):
            return lambda a, b: on_words(a.head, a.tail, b.head, b.tail)
        if isinstance(a, STRS):
            return literal_left if isinstance(a, types.StringLiteral) else str_left
        if isinstance(b, STRS):
            return literal_right if isinstance(b, types.StringLiteral) else str_right
        if isinstance(b, types.Bytes):
            return lambda a, b: bytes_right(a.head, a.tail, b)
        return lambda a, b: bytes_left(a, b.head, b.tail)

    if method:
        for cls in (TextType, BlobType):
            overload_method(cls, taught, prefer_literal=True)(choose)
    else:
        overload(taught, prefer_literal=True)(choose)


@register_jitable
def _differ(h1, t1, h2, t2):
    return not equal_words(h1, t1, h2, t2)


@register_jitable
def _less(h1, t1, h2, t2):
    return compare_words(h1, t1, h2, t2) < 0


@register_jitable
def _less_or_equal(h1, t1, h2, t2):
    return compare_words(h1, t1, h2, t2) <= 0


@register_jitable
def _greater(h1, t1, h2, t2):
    return compare_words(h1, t1, h2, t2) > 0


@register_jitable
def _greater_or_equal(h1, t1, h2, t2):
    return compare_words(h1, t1, h2, t2) >= 0


_register_pair(operator.eq, equal_words)
_register_pair(operator.ne, _differ)
_register_pair(operator.lt, _less)
_register_pair(operator.le, _less_or_equal)
_register_pair(operator.gt, _greater)
_register_pair(operator.ge, _greater_or_equal)
_register_pair(operator.contains, contains_words)
_register_pair("startswith", starts_with_words, method=True)
_register_pair("endswith", ends_with_words, method=True)


# ---- one value -----------------------------------------------------------------------------


@overload(len)
def _len(value):
    if isinstance(value, TextType):
        return lambda value: char_length(value.head, value.tail)
    if isinstance(value, BlobType):
        return lambda value: byte_length(value.head)


@overload(bool)
def _bool(value):
    if isinstance(value, WordsType):
        return lambda value: byte_length(value.head) != 0


@overload(operator.not_)
def _not(value):
    if isinstance(value, WordsType):
        return lambda value: byte_length(value.head) == 0


@overload_method(TextType, "__hash__")
@overload_method(BlobType, "__hash__")
def _hash(value):
    return lambda value: hash_words(value.head, value.tail)


# ---- items and slices ----------------------------------------------------------------------


@register_jitable
def _checked_index(index, count):
    if index < 0:
        index += count
    if index < 0 or index >= count:
        raise IndexError("index out of range")
    return index


@register_jitable
def _char(value, index):
    index = _checked_index(index, char_length(value.head, value.tail))
    start = char_start(value.head, value.tail, index)
    stop = start + char_width(value.head, value.tail, start)
    head, tail = slice_words(value.head, value.tail, start, stop)
    return text(head, tail)


@register_jitable
def _slice_text(value, index):
    start, stop, _ = index.indices(char_length(value.head, value.tail))
    first = char_start(value.head, value.tail, start)
    last = max(first, char_start(value.head, value.tail, stop))
    head, tail = slice_words(value.head, value.tail, first, last)
    return text(head, tail)


@register_jitable
def _slice_blob(value, index):
    start, stop, step = index.indices(byte_length(value.head))
    if step != 1:
        raise ValueError("slices of bytes have step 1")
    head, tail = slice_words(value.head, value.tail, start, max(start, stop))
    return blob(head, tail)


@overload(operator.getitem)
def _getitem(value, index):
    is_slice = isinstance(index, types.SliceType)
    if isinstance(value, TextType) and is_slice and index.has_step:
        return lambda value, index: str(value)[index]
    if isinstance(value, TextType) and is_slice:
        return lambda value, index: _slice_text(value, index)
    if isinstance(value, TextType) and isinstance(index, types.Integer):
        return lambda value, index: _char(value, index)
    if isinstance(value, BlobType) and is_slice:
        return lambda value, index: _slice_blob(value, index)
    if isinstance(value, BlobType) and isinstance(index, types.Integer):
        return lambda value, index: byte_at(
            value.head, value.tail, _checked_index(index, byte_length(value.head))
        )
