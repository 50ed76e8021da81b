"""Sorting the records of a window: pairs of (prefix of the key, number of the record).

A prefix is a word that agrees with the order of keys: their first part, or all parts where they
fit. Pairs are sorted by it digit by digit (a radix sort, least digit first): by the bits in which
their distances from the least prefix differ, and no others. Records with equal prefixes, as long
strings that begin alike, are then compared in full by what is generated for their keys.
"""

from __future__ import annotations

from .memory.instructions import bit_length, clear_bytes, copy_bytes, shift_right
from .memory.records import compiled, i64, i64s

FEW = 1 << 12  # pairs, for which the counters of a wide digit cost more than another digit
NARROW, WIDE = 8, 10  # the most bits of a digit of few pairs, and of many
WORD_BYTES = i64.size
MOST_BITS = 62  # of a prefix that is never negative
COUNTERS = -(-64 // WIDE) << WIDE  # words of memory that a sort needs besides


@compiled
def add_bits(bits, low, high):
    """The bits of a prefix with one more part, of whole numbers between two, and less than all of
    them for null; more than MOST_BITS: it does not fit.

    >>> add_bits(3, 100, 101), add_bits(0, -(1 << 62), 1 << 62) > MOST_BITS
    (5, True)
    """
    if low > high:  # nothing but null
        return bits
    values, more = high - low + 1, 0
    if values <= 0 or values >= 1 << MOST_BITS:
        return bits + MOST_BITS + 1
    while values >> more != 0:
        more += 1
    return bits + more


@compiled
def sort_by_prefix(address, count, counters_address):
    """Sort pairs between the two halves of a memory for 2 * count of them; gives where they lie:
    0, or `count`.

    >>> import numpy as np
    >>> pairs = np.array([7, 0, -3, 1, 2, 2] + [0] * 6)
    >>> counters = np.zeros(COUNTERS, np.int64)
    >>> at = sort_by_prefix(pairs.ctypes.data, 3, counters.ctypes.data)
    >>> pairs[2 * at : 2 * at + 6].tolist()
    [-3, 1, 2, 2, 7, 0]
    """
    if count == 0:  # a window without records may come before there is any memory for sorting
        return 0
    pairs, counters = i64s(address), i64s(counters_address)
    least, most = pairs[0], pairs[0]
    for k in range(1, count):
        least, most = min(least, pairs[2 * k]), max(most, pairs[2 * k])
    bits, widest = bit_length(most - least), NARROW if count < FEW else WIDE
    digits = (bits + widest - 1) // widest
    if digits == 0:  # all have the same
        return 0
    width = (bits + digits - 1) // digits
    mask = (1 << width) - 1
    clear_bytes(counters_address, (digits << width) * WORD_BYTES)
    for k in range(count):
        distance = pairs[2 * k] - least
        for digit in range(digits):
            counters[(digit << width) + (shift_right(distance, digit * width) & mask)] += 1
    here, there = 0, count
    for digit in range(digits):
        first, shift, start = digit << width, digit * width, 0
        for value in range(mask + 1):
            often = counters[first + value]
            counters[first + value] = start
            start += often
        for k in range(count):
            prefix = pairs[2 * (here + k)]
            place = first + (shift_right(prefix - least, shift) & mask)
            at = there + counters[place]
            counters[place] += 1
            pairs[2 * at] = prefix
            pairs[2 * at + 1] = pairs[2 * (here + k) + 1]
        here, there = there, here
    return here


@compiled
def copy_words(address, source, target, count):
    """Copy words from one place of a memory to another."""
    at, there = address + source * WORD_BYTES, address + target * WORD_BYTES
    copy_bytes(there, at, count * WORD_BYTES)
