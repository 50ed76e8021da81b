"""Snappy's block format, unpacked by compiled code.

A packed column of numbers is mostly pairs of "some new bytes" and "the rest as in the value
before": literals of a few bytes and copies from eight bytes back. What was written last is
therefore kept in a register (`last`): such a copy turns it round and stores it, instead of reading
back bytes that are still on their way to memory.
"""

from __future__ import annotations

from headrace.stage.memory.instructions import half_word, shift_right, signed, word
from headrace.stage.memory.records import compiled, copy_bytes, i64s, u8s

BEFORE = 8  # bytes before the target that may be written to
DAMAGED = -1  # what `unpack` answers where the packed bytes make no sense

_WORD = 8  # bytes
_BITS = 64
_SHORT = 16  # bytes that the longest tag takes, and the word that is read at once
_ROOM = 80  # bytes that the longest copy of a tag may need, written in words
_LITERAL, _NEAR, _FAR = 0, 1, 2  # kinds of tags; 3: with an offset of four bytes
_NEAR_BITS, _WORD_BEFORE = 0xFFE3, 0x0801  # a near tag but for its count, with an offset of 8
_LONGEST_IN_TAG = 60  # bytes of a literal whose length the tag itself tells


@compiled
def append(target, last, following, count):
    """Write the first `count` (1 to 8) bytes of a word; gives the last eight bytes written."""
    bits = 8 * count
    last = shift_right(shift_right(last, bits - 8), 8) | signed(following << (_BITS - bits))
    i64s(target + count - _WORD)[0] = last
    return last


@compiled
def repeated(last, count):
    """The last 1, 2 or 4 bytes of a word, again and again."""
    bits = 8 * count
    following = shift_right(last, _BITS - bits)
    while bits < _BITS:
        following |= signed(following << bits)
        bits *= 2
    return following


@compiled
def copy_slowly(target, offset, count):
    """Bytes from `offset` bytes back, one by one: they may be among those that are written."""
    to, back = u8s(target), u8s(target - offset)
    for k in range(count):
        to[k] = back[k]


@compiled
def unpack(source, source_end, target, target_end):
    """Unpack the tags between two addresses; gives the number of bytes, or DAMAGED.

    The BEFORE bytes before the target are overwritten.
    """
    start = target
    last = 0
    # while both sides have room for whole words, whatever comes next
    while source_end - source > _SHORT and target_end - target > _ROOM:
        head = word(source)
        kind = head & 3
        count = ((head >> 2) & 63) + 1
        if kind == _LITERAL:
            if count <= _WORD:
                last = append(target, last, word(source + 1), count)
                source += count + 1
                target += count
                continue
            source += 1
            if count > _LONGEST_IN_TAG:
                extra = count - _LONGEST_IN_TAG
                count = (half_word(source) & shift_right(-1, _BITS - 8 * extra)) + 1
                source += extra
            if count > source_end - source or count > target_end - target:
                return DAMAGED
            copy_bytes(target, source, count)
            source += count
            target += count
            last = word(target - _WORD)
            continue
        near_count = ((head >> 2) & 7) + 4
        if head & _NEAR_BITS == _WORD_BEFORE and near_count <= _WORD and target - start >= _WORD:
            last = append(target, last, last, near_count)
            source += 2
            target += near_count
            continue
        if kind <= _FAR:  # which of the two cannot be foretold: chosen without a jump
            near = kind - _FAR  # all bits set for a near one, none for a far one
            near_offset = ((head << 3) & 0x700) | ((head >> 8) & 255)
            offset = (head >> 8) & 0xFFFF
            count ^= (count ^ near_count) & near
            offset ^= (offset ^ near_offset) & near
            source += 3 + near
        else:
            offset = (head >> 8) & 0xFFFFFFFF
            source += 5
        if offset == 0 or offset > target - start:
            return DAMAGED
        if offset <= _WORD and offset & (offset - 1) == 0:  # it divides a word
            following = last if offset == _WORD else repeated(last, offset)
            while count > _WORD:
                last = following
                i64s(target)[0] = last
                target += _WORD
                count -= _WORD
            last = append(target, last, following, count)
            target += count
        elif offset > _WORD:
            while count > _WORD:
                last = word(target - offset)
                i64s(target)[0] = last
                target += _WORD
                count -= _WORD
            last = append(target, last, word(target - offset), count)
            target += count
        else:
            copy_slowly(target, offset, count)
            target += count
            last = word(target - _WORD)
    return _unpack_end(source, source_end, start, target, target_end)


@compiled
def _unpack_end(source, source_end, start, target, target_end):
    """The last tags, which nothing may lie behind."""
    while source < source_end:
        tag = u8s(source)[0]
        kind = tag & 3
        count = (tag >> 2) + 1
        source += 1
        extra = kind
        if kind == _LITERAL:
            extra = count - _LONGEST_IN_TAG if count > _LONGEST_IN_TAG else 0
        elif kind > _FAR:
            extra = 4
        if extra > source_end - source:
            return DAMAGED
        number = 0
        for k in range(extra):
            number |= u8s(source)[k] << (8 * k)
        source += extra
        if kind == _LITERAL:
            if extra > 0:
                count = number + 1
            if count > source_end - source or count > target_end - target:
                return DAMAGED
            copy_bytes(target, source, count)
            source += count
        else:
            if kind == _NEAR:
                count = ((tag >> 2) & 7) + 4
                number |= (tag >> 5) << 8
            if number == 0 or number > target - start or count > target_end - target:
                return DAMAGED
            copy_slowly(target, number, count)
        target += count
    return target - start
