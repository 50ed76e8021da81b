"""Values written as Python's format() writes them: ".2f", "+05d", "#x", "*^10".

A spec is read once, in plain Python (`parse`). What writes is compiled: the C library rounds, and
all that lies around its digits is put here.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from headrace.stage.memory.arithmetic import float_bits
from headrace.stage.memory.instructions import copy_bytes, signed
from headrace.stage.memory.records import compiled, u8s
from headrace.stage.strings.numerals import (
    INF_WORD,
    LETTER_E,
    LOWER,
    MINUS,
    NAN_WORD,
    PLUS,
    POINT,
    ZERO,
    keep_digits,
    print_fixed,
    print_float,
    shortest,
    write_digits,
)
from headrace.stage.strings.pieces import PERCENT, char_start
from headrace.stage.strings.words import (
    LENGTH_MASK,
    byte_at,
    char_length,
    make_words,
    slice_words,
    write_words,
)

_SPEC = re.compile(
    r"(?:(?P<fill>.)?(?P<align>[<>=^]))?(?P<sign>[-+ ])?(?P<z>z)?(?P<alternate>#)?(?P<zeros>0)?"
    r"(?P<width>\d+)?(?P<separator>[,_])?(?:\.(?P<precision>\d+))?(?P<kind>[bdoxXeEfFgG%s])?",
    re.DOTALL,
)
MOST = 1_000_000  # characters that a width or a precision may ask for
NONE = "\0"
_BASES = {"b": 2, "o": 8, "x": 16, "X": 16}
_SIGNS = {"+": PLUS, " ": ord(" ")}

CENTER, EQUALS, GREATER = ord("^"), ord("="), ord(">")
LETTER_A, LETTER_F, LETTER_G = ord("a"), ord("f"), ord("g")
ZERO_FILL = 1 | ZERO << 32  # the first word of "0"

USUAL_DECIMALS = 6
LARGEST_PLAIN = 16  # digits in front of the point, without a kind and a precision
WIDEST = 4  # bytes of a code point
SCRATCH = 400  # bytes of a number's digits and what is behind them, besides the precision
LONGEST_WHOLE = 64  # digits


class Format(NamedTuple):
    """What a spec says, in numbers, for compiled code: characters by their codes, 0 for none."""

    fill: int  # the first word of the character; the second is 0
    align: int
    sign: int  # of numbers that are not negative
    positive_zero: bool
    alternate: bool
    width: int
    separator: int
    group: int  # digits between separators, 0: none
    precision: int  # -1: none
    kind: int  # as a lower letter
    upper: bool
    base: int


def parse(spec: str, sample: str | int | float) -> Format:
    """A spec for values of the sample's type; ValueError says what is wrong with it.

    >>> parse("+.2f", 0.0).precision
    2
    >>> parse("d", "")
    Traceback (most recent call last):
    ValueError: Unknown format code 'd' for object of type 'str'
    """
    known = _SPEC.fullmatch(spec)
    width, precision = (int(known[part] or -1) if known else -1 for part in ("width", "precision"))
    if max(width, precision) > MOST:
        raise ValueError(f"more than {MOST} characters")
    format(sample, spec)  # Python knows what is wrong
    if known is None:
        raise ValueError("compiled code knows b, d, o, x, e, f, g, % and s")
    fill = (known["fill"] or known["zeros"] or " ").encode()
    usual = "<" if isinstance(sample, str) else "=" if known["zeros"] else ">"
    kind = known["kind"] or NONE
    return Format(
        fill=signed(len(fill) | int.from_bytes(fill, "little") << 32),
        align=ord(known["align"] or usual),
        sign=_SIGNS.get(known["sign"], 0),
        positive_zero=known["z"] is not None,
        alternate=known["alternate"] is not None,
        width=max(width, 0),
        separator=ord(known["separator"] or NONE),
        group=0 if known["separator"] is None else 3 if kind not in _BASES else 4,
        precision=_digits_asked_for(precision, kind, isinstance(sample, float)),
        kind=ord(kind.lower()),
        upper=kind.isupper(),
        base=_BASES.get(kind, 10),
    )


def _digits_asked_for(precision: int, kind: str, is_float: bool) -> int:
    """The precision, as the C library has it."""
    if precision < 0:
        return USUAL_DECIMALS if kind in "eEfFgG%" else -1
    counts_all = kind in "gG" or (kind == NONE and is_float)
    return max(precision, 1) if counts_all else precision


# ---- padding -------------------------------------------------------------------------------


@compiled
def _put_fill(target, at, fill, count):
    """Put the fill character so often: the place behind."""
    bytes_of = u8s(target)
    for _ in range(count):
        for k in range(fill & LENGTH_MASK):
            bytes_of[at] = byte_at(fill, 0, k)
            at += 1
    return at


@compiled
def _in_front(padding, form):
    """So much of the padding is in front of all else."""
    if form.align == GREATER:
        return padding
    return padding // 2 if form.align == CENTER else 0


# ---- texts ---------------------------------------------------------------------------------


@compiled
def text_room(head, form):
    """Bytes of memory for a text."""
    return (head & LENGTH_MASK) + WIDEST * form.width


@compiled
def write_text(memory, head, tail, form):
    """Write a text to memory (`text_room`): the words of what is there then.

    >>> from headrace.stage.strings.text import new_heap, text, words
    >>> heap, form = new_heap(100), parse("*^7.3", "")
    >>> text(*write_text(heap.base, *words("écluse", heap), form))
    '**écl**'
    """
    count = char_length(head, tail)
    if 0 <= form.precision < count:
        count = form.precision
        head, tail = slice_words(head, tail, 0, char_start(head, tail, count))
    padding = max(form.width - count, 0)
    front = _in_front(padding, form)
    at = _put_fill(memory, 0, form.fill, front)
    write_words(head, tail, memory + at)
    at = _put_fill(memory, at + (head & LENGTH_MASK), form.fill, padding - front)
    return make_words(memory, at)


# ---- numbers -------------------------------------------------------------------------------


class Digits(NamedTuple):
    """A number taken apart: its digits lie in memory, and right behind them what ends it."""

    negative: bool
    prefix: int  # the letter of 0x
    address: int
    digits: int
    point: int  # behind so many digits, where zeros stand for those that are not there
    decimals: int  # behind the point
    has_point: bool
    end: int  # bytes of an exponent, or of a word where there are no digits


@compiled
def number_room(form):
    """Bytes of memory for a number."""
    digits = SCRATCH + max(form.precision, 0)
    return 3 * digits + WIDEST * form.width  # taken apart, and written with separators


@compiled
def write_whole(memory, number, form):
    """Write a whole number to memory (`number_room`): the words of what is there then.

    >>> from headrace.stage.strings.text import new_heap, text
    >>> form = parse("012,d", 0)
    >>> text(*write_whole(new_heap(number_room(form)).base, -1234567, form))
    '-001,234,567'
    """
    return _put_number(memory + SCRATCH, _digits_of_whole(memory, number, form), form)


@compiled
def write_real(memory, number, form):
    """The same for a float.

    >>> from headrace.stage.strings.text import new_heap, text
    >>> form = parse(".1%", 0.0)
    >>> text(*write_real(new_heap(number_room(form)).base, 0.125, form))
    '12.5%'
    """
    target = memory + SCRATCH + max(form.precision, 0)
    return _put_number(target, _digits_of_float(memory, number, form), form)


@compiled
def _put_number(target, number, form):
    bytes_of = u8s(target)
    sign = MINUS if number.negative else form.sign
    is_percent = form.kind == PERCENT
    beside = (sign > 0) + 2 * (number.prefix > 0) + number.has_point + number.decimals
    beside += number.end + is_percent
    whole = max(number.point, 1) if number.digits > 0 else 0
    zeros = 0
    if whole > 0 and form.fill == ZERO_FILL and form.align == EQUALS:
        zeros = max(_digits_of_width(form.width - beside, form) - whole, 0)
    whole += zeros
    padding = max(form.width - beside - whole - _separators(whole, form), 0)
    front = _in_front(padding, form)
    inside = padding if form.align == EQUALS else 0
    at = _put_fill(target, 0, form.fill, front)
    if sign > 0:
        bytes_of[at] = sign
        at += 1
    if number.prefix > 0:
        bytes_of[at], bytes_of[at + 1] = ZERO, number.prefix
        at += 2
    at = _put_fill(target, at, form.fill, inside)
    first = min(number.point - 1, 0) - zeros
    for k in range(whole):
        if form.group > 0 and k > 0 and (whole - k) % form.group == 0:
            bytes_of[at] = form.separator
            at += 1
        bytes_of[at] = _digit(number, first + k)
        at += 1
    if number.has_point:
        bytes_of[at] = POINT
        at += 1
    for k in range(whole, whole + number.decimals):
        bytes_of[at] = _digit(number, first + k)
        at += 1
    copy_bytes(target + at, number.address + number.digits, number.end)
    at += number.end
    if is_percent:
        bytes_of[at] = PERCENT
        at += 1
    at = _put_fill(target, at, form.fill, padding - front - inside)
    return make_words(target, at)


@compiled
def _separators(digits, form):
    """How many there are among so many digits."""
    return (digits - 1) // form.group if form.group > 0 and digits > 0 else 0


@compiled
def _digits_of_width(width, form):
    """The fewest digits that are so wide with their separators."""
    return width - (width - 1) // (form.group + 1) if form.group > 0 else width


@compiled
def _digit(number, place):
    if 0 <= place < number.digits:
        return u8s(number.address)[place]
    return ZERO


@compiled
def _digits_of_whole(scratch, number, form):
    bytes_of, at = u8s(scratch), LONGEST_WHOLE
    letter = LETTER_A - LOWER * form.upper
    rest = number if number < 0 else -number  # there is one more negative number
    while True:
        digit = -(rest % -form.base)
        at -= 1
        bytes_of[at] = ZERO + digit if digit < 10 else letter + digit - 10
        rest = -(rest // -form.base)
        if rest == 0:
            break
    prefix = form.kind - LOWER * form.upper if form.alternate and form.base != 10 else 0
    count = LONGEST_WHOLE - at
    return Digits(number < 0, prefix, scratch + at, count, count, 0, False, 0)


@compiled
def _digits_of_float(scratch, number, form):
    bytes_of, upper = u8s(scratch), LOWER * form.upper
    value = number * 100.0 if form.kind == PERCENT else number
    negative = float_bits(value) < 0 and value == value
    size = -value if negative else value
    if size - size != 0.0:
        word = INF_WORD if size == size else NAN_WORD
        for k in range(3):
            bytes_of[k] = byte_at(word[0], word[1], k) - upper
        return Digits(negative, 0, scratch, 0, 0, 0, False, 3)
    count, exponent = _rounded(scratch, size, form)
    if form.positive_zero and negative:
        negative = _has_value(bytes_of, count)
    if not _has_exponent(exponent, form):
        point = exponent + 1
        decimals = max(count - point, int(form.kind == 0))
        has_point = decimals > 0 or form.alternate
        return Digits(negative, 0, scratch, count, point, decimals, has_point, 0)
    places = 3 if abs(exponent) >= 100 else 2
    bytes_of[count] = LETTER_E - upper
    bytes_of[count + 1] = MINUS if exponent < 0 else PLUS
    write_digits(scratch + count + 2, abs(exponent), places)
    has_point = count > 1 or form.alternate
    return Digits(negative, 0, scratch, count, 1, count - 1, has_point, 2 + places)


@compiled
def _rounded(scratch, size, form):
    """(count, exponent) of a float's digits."""
    if form.precision < 0:
        number, count, exponent = shortest(size, False)
        write_digits(scratch, number, count)
        return count, exponent
    if form.kind == LETTER_F or form.kind == PERCENT:
        print_fixed(scratch, form.precision, float_bits(size))
        count, _ = keep_digits(scratch)
        return count, count - form.precision - 1
    keeps_zeros = form.kind == LETTER_E
    print_float(scratch, form.precision - (not keeps_zeros), float_bits(size))
    count, exponent = keep_digits(scratch)
    keeps_zeros |= form.alternate
    while count > 1 and not keeps_zeros and u8s(scratch)[count - 1] == ZERO:
        count -= 1
    return count, exponent


@compiled
def _has_value(bytes_of, count):
    """Is there a digit besides zeros?"""
    for k in range(count):
        if bytes_of[k] != ZERO:
            return True
    return False


@compiled
def _has_exponent(exponent, form):
    """Is a float with this exponent written with it?"""
    if form.kind == LETTER_F or form.kind == PERCENT:
        return False
    if form.kind == LETTER_E:
        return True
    most = LARGEST_PLAIN if form.precision < 0 else form.precision
    if form.kind == 0 and form.precision >= 0:
        most -= 1  # there is room for ".0"
    return exponent < -4 or exponent >= most
