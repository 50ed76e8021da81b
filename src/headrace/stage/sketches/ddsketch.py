"""DDSketch: quantiles with a relative error, of values added and merged in any order.

Masson, Rim, Lee, *DDSketch: a fast and fully-mergeable quantile sketch with relative-error
guarantees*, 2019. A value x > 0 is counted in the bucket ceil(log(x) / log(gamma)), where gamma is
(1 + error) / (1 - error); negative values have buckets of their own. Only buckets with values are
kept, in order, and none are collapsed (the paper's section 2.2 does, to bound their number): from
the least to the largest double there are about 1400 / (2 * error), for each sign.
"""

from __future__ import annotations

import math
import sys

from headrace.stage.memory.instructions import copy_bytes
from headrace.stage.memory.records import compiled, i64, i64s, record
from headrace.stage.numbers import float_ceil, float_exp, float_log
from headrace.stage.strings.heap import take
from headrace.stage.strings.words import make_words

FIRST_BUCKETS = 4
LEAST = 1e-300  # what is nearer to zero counts as zero
LARGEST = sys.float_info.max
POSITIVE = 1 << 40  # the number of the bucket of 1; those of negative values are the negative ones
INFINITE, NOT_A_NUMBER = 1 << 41, 1 << 42


@record
class Buckets:
    """The head of a sketch; (number, count) of each bucket follow."""

    label: i64  # never changes
    count: i64  # buckets in use
    room: i64  # and how many there may be
    values: i64  # in all of them


HEADER, WORDS = Buckets.size, 2
PAIR = WORDS * i64.size


@compiled
def bucket_of(value, log_gamma):
    """The number of the bucket that a value is counted in.

    >>> [bucket_of(x, 0.02) - POSITIVE for x in (1.0, 1.01, 1.02, 1.03)], bucket_of(0.0, 0.02)
    ([0, 1, 1, 2], 0)
    """
    if value != value:
        return NOT_A_NUMBER
    size = abs(value)
    if size < LEAST:
        return 0
    if size > LARGEST:
        number = INFINITE
    else:
        number = POSITIVE + int(float_ceil(float_log(size) / log_gamma))
    return number if value > 0.0 else -number


@compiled
def value_of_bucket(number, log_gamma):
    """A value that is nearer than the error to all values of a bucket."""
    if number == 0:
        return 0.0
    if number == NOT_A_NUMBER:
        return math.nan
    size = math.inf
    if abs(number) != INFINITE:
        upper = float_exp((abs(number) - POSITIVE) * log_gamma)
        size = min(2.0 / (1.0 + float_exp(log_gamma)) * upper, LARGEST)
    return size if number > 0 else -size


@compiled
def buckets_room(head, tail, more):
    """Fresh bytes that are needed for so many more buckets."""
    if head == 0:
        return HEADER + max(FIRST_BUCKETS, more) * PAIR
    made = Buckets(tail)
    return 0 if made.count + more <= made.room else HEADER + 2 * (made.count + more) * PAIR


@compiled
def _roomy(head, tail, more, heap):
    """The words of a sketch with room for so many more buckets: this one, or a larger copy."""
    size = buckets_room(head, tail, more)
    if size == 0:
        return head, tail
    address = take(heap, size)
    made = Buckets(address)
    made.label, made.count, made.values = 0, 0, 0
    if head != 0:
        copy_bytes(address, tail, HEADER + Buckets(tail).count * PAIR)
    made.room = (size - HEADER) // PAIR
    return make_words(address, size)


@compiled
def _enter(made, number, count):
    pairs = i64s(made.address + HEADER)
    low, high = 0, made.count
    while low < high:
        middle = (low + high) // 2
        if pairs[WORDS * middle] < number:
            low = middle + 1
        else:
            high = middle
    if low == made.count or pairs[WORDS * low] != number:
        for k in range(WORDS * made.count - 1, WORDS * low - 1, -1):
            pairs[k + WORDS] = pairs[k]
        pairs[WORDS * low], pairs[WORDS * low + 1] = number, 0
        made.count += 1
    pairs[WORDS * low + 1] += count
    made.values += count


@compiled
def buckets_add(head, tail, number, heap):
    """The words of a sketch with a value more, which belongs to a bucket."""
    head, tail = _roomy(head, tail, 1, heap)
    _enter(Buckets(tail), number, 1)
    return head, tail


@compiled
def buckets_merge_room(head, tail, other_head, other_tail):
    """Fresh bytes that are needed before another sketch can be merged."""
    return 0 if other_head == 0 else buckets_room(head, tail, Buckets(other_tail).count)


@compiled
def buckets_merge(head, tail, other_head, other_tail, heap):
    """The words of a sketch of all values of two."""
    if other_head == 0:
        return head, tail
    other = Buckets(other_tail)
    head, tail = _roomy(head, tail, other.count, heap)
    pairs = i64s(other.address + HEADER)
    for k in range(other.count):
        _enter(Buckets(tail), pairs[WORDS * k], pairs[WORDS * k + 1])
    return head, tail


@compiled
def buckets_quantile(head, tail, share, log_gamma):
    """The value below which a share of all values lies.

    >>> from headrace.stage.strings.text import new_heap
    >>> heap, head, tail = new_heap(100_000), 0, 0
    >>> for value in range(1, 1001):
    ...     head, tail = buckets_add(head, tail, bucket_of(float(value), 0.02), heap)
    >>> 495 <= buckets_quantile(head, tail, 0.5, 0.02) <= 505
    True
    """
    if head == 0:
        return math.nan
    made = Buckets(tail)
    pairs, rank, seen, at = i64s(made.address + HEADER), share * (made.values - 1), 0, 0
    while at < made.count - 1:
        seen += pairs[WORDS * at + 1]
        if seen > rank:
            break
        at += 1
    return value_of_bucket(pairs[WORDS * at], log_gamma)
