"""Pieces of strings: slices, parts, what is stripped, padded and replaced. Positions are those of
code points; a piece is a view of the same bytes."""

from __future__ import annotations

from headrace.stage.memory.records import compiled, u8s
from headrace.stage.strings.building import begin_text, end_text, put_piece
from headrace.stage.strings.words import (
    LENGTH_MASK,
    SHORT,
    byte_at,
    char_length,
    contains_words,
    ends_with_words,
    find_words,
    is_ascii_words,
    slice_words,
    starts_with_words,
)

PERCENT, UNDERSCORE, BACKSLASH = 37, 95, 92
PLUS, MINUS, ZERO = 43, 45, 48

# ---- characters ----------------------------------------------------------------------------


@compiled
def char_width(head, tail, at):
    """Bytes of the code point that begins at a byte, at most those that are left."""
    first = byte_at(head, tail, at)
    if first < 0xC0:
        return 1
    width = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    return min(width, (head & LENGTH_MASK) - at)


@compiled
def char_start(head, tail, index):
    """The byte at which a code point begins; the end for an index beyond.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> char_start(*words("né!", new_heap(0)), 2)
    3
    """
    count = head & LENGTH_MASK
    if is_ascii_words(head, tail):
        return min(index, count)
    at = 0
    while index > 0 and at < count:
        at += char_width(head, tail, at)
        index -= 1
    return at


@compiled
def _before(head, tail, at):
    """The byte at which the code point before a byte begins."""
    at -= 1
    while at > 0 and byte_at(head, tail, at) & 0xC0 == 0x80:
        at -= 1
    return at


@compiled
def code_at(head, tail, at, width):
    """The code point whose UTF-8 form begins at a byte."""
    code = byte_at(head, tail, at)
    if width == 1:
        return code
    code &= 0xFF >> (width + 1)
    for k in range(1, width):
        code = code << 6 | byte_at(head, tail, at + k) & 0x3F
    return code


@compiled
def is_space(code):
    """Is a code point white space, as Python's str.strip has it?

    >>> is_space(32), is_space(0x3000), is_space(65)
    (True, True, False)
    """
    if code < 128:
        return 9 <= code <= 13 or 28 <= code <= 32
    if code < 0x2000:
        return code == 0x85 or code == 0xA0 or code == 0x1680
    lines = code == 0x2028 or code == 0x2029 or code == 0x202F or code == 0x205F
    return code <= 0x200A or lines or code == 0x3000


# ---- slices --------------------------------------------------------------------------------


@compiled
def slice_chars(head, tail, offset, length):
    """`length` code points from `offset` on, which counts from the end where it is negative.

    >>> from headrace.stage.strings.text import new_heap, text, words
    >>> heap = new_heap(100)
    >>> text(*slice_chars(*words("écluse", heap), -3, 2))
    'us'
    """
    if offset < 0:
        offset += char_length(head, tail)
        if offset < 0:
            length += offset
            offset = 0
    if length <= 0:
        return 0, 0
    start = char_start(head, tail, offset)
    rest_head, rest_tail = slice_words(head, tail, start, head & LENGTH_MASK)
    return slice_words(rest_head, rest_tail, 0, char_start(rest_head, rest_tail, length))


@compiled
def _find_from(head, tail, by_head, by_tail, start):
    """The first byte from `start` on where a string is found, or -1."""
    count = head & LENGTH_MASK
    if count > SHORT and by_head & LENGTH_MASK == 1:  # most separators
        source, wanted = u8s(tail), byte_at(by_head, by_tail, 0)
        for at in range(start, count):
            if source[at] == wanted:
                return at
        return -1
    rest_head, rest_tail = slice_words(head, tail, start, count)
    found = find_words(rest_head, rest_tail, by_head, by_tail)
    return found + start if found >= 0 else -1


@compiled
def count_words(head, tail, needle_head, needle_tail):
    """How often a string is found, without overlaps; an empty one between all code points.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap = new_heap(0)
    >>> count_words(*words("aaa", heap), *words("aa", heap))
    1
    """
    step = needle_head & LENGTH_MASK
    if step == 0:
        return char_length(head, tail) + 1
    found, at = 0, _find_from(head, tail, needle_head, needle_tail, 0)
    while at >= 0:
        found += 1
        at = _find_from(head, tail, needle_head, needle_tail, at + step)
    return found


@compiled
def split_part(head, tail, by_head, by_tail, index):
    """(found, head, tail): one of the parts between separators, from the end where it is negative.

    >>> from headrace.stage.strings.text import new_heap, text, words
    >>> heap = new_heap(0)
    >>> found, *part = split_part(*words("a,b,c", heap), *words(",", heap), -1)
    >>> found, text(*part)
    (True, 'c')
    """
    step = by_head & LENGTH_MASK
    if step == 0:  # one part
        return index == 0 or index == -1, head, tail
    if index < 0:
        index += count_words(head, tail, by_head, by_tail) + 1
        if index < 0:
            return False, 0, 0
    start = 0
    while index > 0:
        at = _find_from(head, tail, by_head, by_tail, start)
        if at < 0:
            return False, 0, 0
        start = at + step
        index -= 1
    stop = _find_from(head, tail, by_head, by_tail, start)
    part_head, part_tail = slice_words(head, tail, start, stop if stop >= 0 else head & LENGTH_MASK)
    return True, part_head, part_tail


@compiled
def find_char(head, tail, needle_head, needle_tail):
    """(found, position of the first code point).

    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap = new_heap(0)
    >>> find_char(*words("né!", heap), *words("!", heap))
    (True, 2)
    """
    at = find_words(head, tail, needle_head, needle_tail)
    if at < 0:
        return False, 0
    front_head, front_tail = slice_words(head, tail, 0, at)
    return True, char_length(front_head, front_tail)


# ---- stripping -----------------------------------------------------------------------------


@compiled
def _goes(head, tail, at, chars_head, chars_tail):
    """Is the code point at a byte one of those to be stripped? No string means white space."""
    if chars_head & LENGTH_MASK == 0:
        return is_space(code_at(head, tail, at, char_width(head, tail, at)))
    one_head, one_tail = slice_words(head, tail, at, at + char_width(head, tail, at))
    return contains_words(chars_head, chars_tail, one_head, one_tail)


@compiled
def strip_start_words(head, tail, chars_head, chars_tail):
    """Without the code points in front that are among some.

    >>> from headrace.stage.strings.text import new_heap, text, words
    >>> heap = new_heap(0)
    >>> text(*strip_start_words(*words("  ab ", heap), 0, 0))
    'ab '
    """
    start, count = 0, head & LENGTH_MASK
    while start < count and _goes(head, tail, start, chars_head, chars_tail):
        start += char_width(head, tail, start)
    return slice_words(head, tail, start, count)


@compiled
def strip_end_words(head, tail, chars_head, chars_tail):
    """Without the code points at the end that are among some.

    >>> from headrace.stage.strings.text import new_heap, text, words
    >>> heap = new_heap(0)
    >>> text(*strip_end_words(*words("ab!?!", heap), *words("?!", heap)))
    'ab'
    """
    stop = head & LENGTH_MASK
    while stop > 0:
        last = _before(head, tail, stop)
        if not _goes(head, tail, last, chars_head, chars_tail):
            break
        stop = last
    return slice_words(head, tail, 0, stop)


@compiled
def strip_words(head, tail, chars_head, chars_tail):
    """Both.

    >>> from headrace.stage.strings.text import new_heap, text, words
    >>> heap = new_heap(0)
    >>> text(*strip_words(*words("  ab ", heap), 0, 0))
    'ab'
    """
    front_head, front_tail = strip_start_words(head, tail, chars_head, chars_tail)
    return strip_end_words(front_head, front_tail, chars_head, chars_tail)


@compiled
def strip_prefix_words(head, tail, prefix_head, prefix_tail):
    """As str.removeprefix.

    >>> from headrace.stage.strings.text import new_heap, text, words
    >>> heap = new_heap(0)
    >>> text(*strip_prefix_words(*words("headrace", heap), *words("head", heap)))
    'race'
    """
    if not starts_with_words(head, tail, prefix_head, prefix_tail):
        return head, tail
    return slice_words(head, tail, prefix_head & LENGTH_MASK, head & LENGTH_MASK)


@compiled
def strip_suffix_words(head, tail, suffix_head, suffix_tail):
    """As str.removesuffix.

    >>> from headrace.stage.strings.text import new_heap, text, words
    >>> heap = new_heap(0)
    >>> text(*strip_suffix_words(*words("headrace", heap), *words("race", heap)))
    'head'
    """
    if not ends_with_words(head, tail, suffix_head, suffix_tail):
        return head, tail
    return slice_words(head, tail, 0, (head & LENGTH_MASK) - (suffix_head & LENGTH_MASK))


# ---- made longer, or changed ---------------------------------------------------------------


@compiled
def _padded(head, tail, at, filled, fill_head, fill_tail, heap):
    """The string with some bytes of fill put in at a byte."""
    count, width = head & LENGTH_MASK, fill_head & LENGTH_MASK
    made_head, made_tail = begin_text(count + filled * width, heap)
    made_head, made_tail = put_piece(made_head, made_tail, 0, head, tail, 0, at)
    for k in range(filled):
        made_head, made_tail = put_piece(
            made_head, made_tail, at + k * width, fill_head, fill_tail, 0, width
        )
    made_head, made_tail = put_piece(
        made_head, made_tail, at + filled * width, head, tail, at, count
    )
    return end_text(made_head, made_tail)


@compiled
def pad_start_words(head, tail, length, fill_head, fill_tail, heap):
    """With a code point in front, as often as it is too short.

    >>> from headrace.stage.strings.text import new_heap, text, words
    >>> heap = new_heap(100)
    >>> text(*pad_start_words(*words("7", heap), 3, *words("é", heap), heap))
    'éé7'
    """
    missing = length - char_length(head, tail)
    if missing <= 0:
        return head, tail
    return _padded(head, tail, 0, missing, fill_head, fill_tail, heap)


@compiled
def pad_end_words(head, tail, length, fill_head, fill_tail, heap):
    """The same at the end.

    >>> from headrace.stage.strings.text import new_heap, text, words
    >>> heap = new_heap(100)
    >>> text(*pad_end_words(*words("7", heap), 3, *words(".", heap), heap))
    '7..'
    """
    missing = length - char_length(head, tail)
    if missing <= 0:
        return head, tail
    return _padded(head, tail, head & LENGTH_MASK, missing, fill_head, fill_tail, heap)


@compiled
def zero_fill_words(head, tail, length, heap):
    """As str.zfill: zeros in front, behind a sign.

    >>> from headrace.stage.strings.text import new_heap, text, words
    >>> heap = new_heap(100)
    >>> text(*zero_fill_words(*words("-7", heap), 4, heap))
    '-007'
    """
    missing = length - char_length(head, tail)
    if missing <= 0:
        return head, tail
    at = 0
    if head & LENGTH_MASK > 0:
        first = byte_at(head, tail, 0)
        at = 1 if first == PLUS or first == MINUS else 0
    return _padded(head, tail, at, missing, 1 | ZERO << 32, 0, heap)


@compiled
def replace_words(head, tail, old_head, old_tail, new_head, new_tail, most, heap):
    """As str.replace: the first `most` places, all of them where that is negative.

    >>> from headrace.stage.strings.text import new_heap, text, words
    >>> heap = new_heap(100)
    >>> text(*replace_words(*words("a-b-c", heap), *words("-", heap), *words("::", heap), -1, heap))
    'a::b::c'
    """
    found = count_words(head, tail, old_head, old_tail)
    if 0 <= most < found:
        found = most
    if found == 0:
        return head, tail
    count, old, new = head & LENGTH_MASK, old_head & LENGTH_MASK, new_head & LENGTH_MASK
    made_head, made_tail = begin_text(count + found * (new - old), heap)
    source, target = 0, 0
    for k in range(found):
        if old > 0:
            at = _find_from(head, tail, old_head, old_tail, source)
        else:  # between all code points
            at = source if k == 0 else source + char_width(head, tail, source)
        made_head, made_tail = put_piece(made_head, made_tail, target, head, tail, source, at)
        target += at - source
        made_head, made_tail = put_piece(made_head, made_tail, target, new_head, new_tail, 0, new)
        target += new
        source = at + old
    made_head, made_tail = put_piece(made_head, made_tail, target, head, tail, source, count)
    return end_text(made_head, made_tail)


# ---- patterns ------------------------------------------------------------------------------


@compiled
def like_words(head, tail, pattern_head, pattern_tail):
    """As SQL's LIKE: % is any string, _ any code point, a backslash takes what follows as it is.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap = new_heap(0)
    >>> like_words(*words("headrace", heap), *words("h_ad%e", heap))
    True
    """
    count, pattern = head & LENGTH_MASK, pattern_head & LENGTH_MASK
    at, place = 0, 0
    star, mark = -1, 0  # the last %, and where what it stands for ends
    while at < count:
        matched = False
        if place < pattern:
            wanted, width = byte_at(pattern_head, pattern_tail, place), 1
            if wanted == PERCENT:
                star, mark = place, at
                place += 1
                continue
            if wanted == UNDERSCORE:
                at += char_width(head, tail, at)
                place += 1
                continue
            if wanted == BACKSLASH and place + 1 < pattern:
                wanted, width = byte_at(pattern_head, pattern_tail, place + 1), 2
            matched = byte_at(head, tail, at) == wanted
            if matched:
                at += 1
                place += width
        if not matched:
            if star < 0:
                return False
            mark += char_width(head, tail, mark)
            at, place = mark, star + 1
    while place < pattern and byte_at(pattern_head, pattern_tail, place) == PERCENT:
        place += 1
    return place == pattern
