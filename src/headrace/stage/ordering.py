"""Sorting the records of a window: pairs of (prefix of the key, number of the record).

A prefix is a word that agrees with the order of keys. Pairs are sorted by it digit by digit (a
radix sort, least digit first); records with equal prefixes, as long strings that begin alike, are
then compared in full by what is generated for their keys.
"""

from __future__ import annotations

from .memory.instructions import clear_bytes, copy_bytes, shift_right
from .memory.records import compiled, i64, i64s

DIGIT = 256  # values of a digit, one byte
DIGITS = 8
SIGN = -(1 << 63)
WORD_BYTES = i64.size
PAIR_BYTES = 2 * WORD_BYTES
COUNTERS = DIGIT * DIGITS  # words of memory that a sort needs besides


@compiled
def digit_of(prefix, digit):
    """A byte of a prefix; with its sign turned, words have the order of their bytes."""
    return shift_right(prefix ^ SIGN, 8 * digit) & (DIGIT - 1)


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
    clear_bytes(counters_address, COUNTERS * WORD_BYTES)
    for k in range(count):
        prefix = pairs[2 * k]
        for digit in range(DIGITS):
            counters[DIGIT * digit + digit_of(prefix, digit)] += 1
    here, there = 0, count
    for digit in range(DIGITS):
        first = DIGIT * digit
        if counters[first + digit_of(pairs[2 * here], digit)] == count:
            continue  # all have the same
        start = 0
        for value in range(DIGIT):
            often = counters[first + value]
            counters[first + value] = start
            start += often
        for k in range(count):
            prefix = pairs[2 * (here + k)]
            place = first + digit_of(prefix, digit)
            at = there + counters[place]
            counters[place] += 1
            pairs[2 * at] = prefix
            pairs[2 * at + 1] = pairs[2 * (here + k) + 1]
        here, there = there, here
    return here


@compiled
def copy_pairs(address, source, target, count):
    """Copy pairs from one place of the memory to another."""
    copy_bytes(address + target * PAIR_BYTES, address + source * PAIR_BYTES, count * PAIR_BYTES)
