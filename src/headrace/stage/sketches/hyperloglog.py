"""HyperLogLog: how many distinct values there are, nearly, in a few bytes.

Flajolet, Fusy, Gandouet, Meunier, *HyperLogLog: the analysis of a near-optimal cardinality
estimation algorithm*, 2007; with hashes of 64 bits, and the estimate of Ertl, *New cardinality
estimation algorithms for HyperLogLog sketches*, 2017, algorithm 6, which needs no corrections for
small and large numbers. The standard error is 1.04 / sqrt(2 ** bits).
"""

from __future__ import annotations

import math

from headrace.stage.memory.instructions import bit_length, clear_bytes, copy_bytes, shift_right
from headrace.stage.memory.records import compiled, i64, record, u8s
from headrace.stage.numbers import float_sqrt
from headrace.stage.strings.hashing import hash_int
from headrace.stage.strings.heap import take
from headrace.stage.strings.words import byte_length, make_words

HASH_BITS = 64
ALPHA = 1 / (2 * math.log(2))


@record
class Registers:
    """The head of a sketch; the registers follow, a byte each."""

    label: i64  # never changes


HEADER = Registers.size


@compiled
def loglog_room(head, bits):
    """Fresh bytes that are needed before a value can be added."""
    return HEADER + (1 << bits) if head == 0 else 0


@compiled
def loglog_add(head, tail, value_hash, bits, heap):
    """The words of a sketch of 2 ** bits registers with a value more."""
    if head == 0:
        size = loglog_room(head, bits)
        address = take(heap, size)
        clear_bytes(address, size)
        head, tail = make_words(address, size)
    spread = hash_int(value_hash)  # hashes of keys are good enough for tables, not for this
    register = shift_right(spread, HASH_BITS - bits)
    others = spread & ((1 << (HASH_BITS - bits)) - 1)
    rank = HASH_BITS - bits - bit_length(others) + 1
    registers = u8s(tail + HEADER)
    if rank > registers[register]:
        registers[register] = rank
    return head, tail


@compiled
def loglog_merge_room(head, other_head):
    """Fresh bytes that are needed before another sketch can be merged."""
    return byte_length(other_head) if head == 0 else 0


@compiled
def loglog_merge(head, tail, other_head, other_tail, heap):
    """The words of a sketch of all values of two."""
    if other_head == 0:
        return head, tail
    size = byte_length(other_head)
    if head == 0:
        address = take(heap, size)
        copy_bytes(address, other_tail, size)
        return make_words(address, size)
    registers, others = u8s(tail + HEADER), u8s(other_tail + HEADER)
    for k in range(size - HEADER):
        if others[k] > registers[k]:
            registers[k] = others[k]
    return head, tail


@compiled
def loglog_count(head, tail, bits):
    """About how many distinct values were added.

    >>> from headrace.stage.strings.text import new_heap
    >>> heap, head, tail = new_heap(10_000), 0, 0
    >>> for value in range(1000):
    ...     head, tail = loglog_add(head, tail, hash_int(value % 300), 12, heap)
    >>> 290 < loglog_count(head, tail, 12) < 310
    True
    """
    if head == 0:
        return 0
    size, registers = 1 << bits, u8s(tail + HEADER)
    most = HASH_BITS - bits + 1
    # all registers of one rank are worth the same, so a sum of powers goes over the registers
    total, full, empty = 0.0, 0, 0
    for k in range(size):
        rank = int(registers[k])
        if rank == 0:
            empty += 1
        elif rank == most:
            full += 1
        else:
            total += 1.0 / (1 << rank)
    total += size * _tau(1.0 - full / size) / (1 << (most - 1)) + size * _sigma(empty / size)
    return int(ALPHA * size * size / total + 0.5)


@compiled
def _sigma(x):
    """Ertl's sigma: the sum of x ** (2 ** k) * 2 ** (k - 1) over k from 1, and x."""
    if x == 1.0:
        return math.inf
    weight, total, before = 1.0, x, -1.0
    while total != before:
        x *= x
        before = total
        total += x * weight
        weight += weight
    return total


@compiled
def _tau(x):
    """Ertl's tau: (1 - x - the sum of (1 - x ** (2 ** -k)) ** 2 / 2 ** k over k from 1) / 3."""
    if x == 0.0 or x == 1.0:
        return 0.0
    weight, total, before = 1.0, 1.0 - x, -1.0
    while total != before:
        x = float_sqrt(x)
        before = total
        weight *= 0.5
        total -= (1.0 - x) * (1.0 - x) * weight
    return total / 3.0
