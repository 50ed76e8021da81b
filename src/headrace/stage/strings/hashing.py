"""Hashes of keys, stable for ever: saved states depend on every number."""

from __future__ import annotations

from llvmlite import ir

from headrace.stage.memory.arithmetic import float_bits
from headrace.stage.memory.instructions import WORD, register_instruction, signed, word
from headrace.stage.memory.records import compiled
from headrace.stage.strings.words import LENGTH_MASK, SHORT

K0, K1 = 0x2D358DCCAA6C78A5, 0x0BB8A3DB0B8F3A11  # part of every stored hash: never change them


def mix(a: int, b: int) -> int:
    """The 128-bit product of two words (as unsigned), its halves folded.

    >>> mix(3, 5), mix(-1, -1)
    (15, -1)
    """
    product = (a % 2**64) * (b % 2**64)
    return signed(product ^ product >> 64)


def _emit_mix(context, b, x, y):
    wide = ir.IntType(128)
    product = b.mul(b.zext(x, wide), b.zext(y, wide))
    return b.xor(b.trunc(product, WORD), b.trunc(b.lshr(product, wide(64)), WORD))


register_instruction(mix, 2, "int64", _emit_mix)


@compiled
def hash_words(head, tail):
    """A hash of the bytes, stable for ever.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap = new_heap(0)
    >>> hash_words(*words("key", heap)) == hash_words(*words(b"key", heap))
    True
    """
    count = head & LENGTH_MASK
    if count <= SHORT:
        return mix(head ^ K0, tail ^ K1)
    if count < 16:
        return mix(word(tail) ^ K0, word(tail + count - 8) ^ K1 ^ count)
    h = count ^ K1
    at, last = tail, tail + count - 16  # the last 16 bytes may overlap those before
    while at < last:
        h = mix(word(at) ^ K0, word(at + 8) ^ h)
        at += 16
    return mix(word(last) ^ K0, word(last + 8) ^ h)


@compiled
def hash_int(value):
    """A hash of an integer, stable for ever.

    >>> hash_int(1) == hash_int(1), hash_int(1) == hash_int(2)
    (True, False)
    """
    return mix(value ^ K0, K1)


@compiled
def hash_float(value):
    """A hash of a float, stable for ever; all NaN are equal, and -0.0 is 0.0.

    >>> hash_float(0.0) == hash_float(-0.0)
    True
    """
    if value != value:
        return hash_int(-1)
    return hash_int(float_bits(value + 0.0))  # -0.0 + 0.0 is 0.0


@compiled
def combine(h1, h2):
    """The hash of a pair, from the hashes of its parts; the order matters.

    >>> combine(1, 2) == combine(2, 1)
    False
    """
    return mix(h1 ^ K0, mix(h2 ^ K1, K0) ^ K1)
