"""Dates and timestamps as strings of ISO 8601: read and written, in both modes."""

from __future__ import annotations

from headrace.stage.civil import DAY, HOUR, MINUTE, SECOND, civil, day_number, month_length
from headrace.stage.memory.records import compiled
from headrace.stage.strings.building import begin_text, end_text, put, put_digits
from headrace.stage.strings.numerals import INVALID, READ
from headrace.stage.strings.words import LENGTH_MASK, byte_at

DATE_LENGTH, TIME_LENGTH = 10, 17  # 2024-01-31, T12:00:00.000000Z
DASH, COLON, POINT, COMMA, PLUS, BLANK = 45, 58, 46, 44, 43, 32
LETTER_T, LETTER_Z, LOWER = 84, 122, 32


@compiled
def _number(head, tail, at, count):
    """So many digits at a place, or -1."""
    made = 0
    for k in range(at, at + count):
        digit = byte_at(head, tail, k) - 48
        if digit < 0 or digit > 9:
            return -1
        made = made * 10 + digit
    return made


@compiled
def _read_day(head, tail):
    """(what became of it, days) of the first ten bytes."""
    if byte_at(head, tail, 4) != DASH or byte_at(head, tail, 7) != DASH:
        return INVALID, 0
    year, month = _number(head, tail, 0, 4), _number(head, tail, 5, 2)
    day = _number(head, tail, 8, 2)
    if year < 1 or month < 1 or month > 12 or day < 1 or day > month_length(year, month):
        return INVALID, 0
    return READ, day_number(year, month, day)


@compiled
def read_date(head, tail):
    """(what became of it, days): 2024-01-31, of the years 1 to 9999.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap = new_heap(100)
    >>> read_date(*words("1970-01-03", heap)), read_date(*words("1970-02-30", heap))
    ((0, 2), (1, 0))
    """
    if head & LENGTH_MASK != DATE_LENGTH:
        return INVALID, 0
    return _read_day(head, tail)


@compiled
def _read_offset(head, tail, at, stop):
    """(what became of it, microseconds) of Z, +02, +0200 or +02:00."""
    if at == stop:
        return READ, 0
    sign, left = byte_at(head, tail, at), stop - at
    if sign | LOWER == LETTER_Z:
        return (READ if left == 1 else INVALID), 0
    if sign != PLUS and sign != DASH:
        return INVALID, 0
    minutes = 0
    if left == 5:
        minutes = _number(head, tail, at + 3, 2)
    elif left == 6 and byte_at(head, tail, at + 3) == COLON:
        minutes = _number(head, tail, at + 4, 2)
    elif left != 3:
        return INVALID, 0
    hours = _number(head, tail, at + 1, 2)
    if hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
        return INVALID, 0
    size = hours * HOUR + minutes * MINUTE
    return READ, -size if sign == DASH else size


@compiled
def read_timestamp(head, tail):
    """(what became of it, microseconds): a date, and perhaps a time of day and an offset.

    Without an offset it is in UTC; digits behind the microseconds are left out.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap = new_heap(100)
    >>> read_timestamp(*words("1970-01-01T02:00:01.5+02:00", heap))
    (0, 1500000)
    >>> read_timestamp(*words("1970-01-01 24:00", heap))
    (1, 0)
    """
    stop = head & LENGTH_MASK
    if stop < DATE_LENGTH:
        return INVALID, 0
    status, days = _read_day(head, tail)
    if status != READ or stop == DATE_LENGTH:
        return status, days * DAY
    parted = byte_at(head, tail, DATE_LENGTH)
    if stop < 16 or (parted != BLANK and parted | LOWER != LETTER_T | LOWER):
        return INVALID, 0
    hours, minutes = _number(head, tail, 11, 2), _number(head, tail, 14, 2)
    if byte_at(head, tail, 13) != COLON or not (0 <= hours <= 23 and 0 <= minutes <= 59):
        return INVALID, 0
    at, seconds, part = 16, 0, 0
    if at + 3 <= stop and byte_at(head, tail, at) == COLON:
        seconds = _number(head, tail, at + 1, 2)
        if seconds < 0 or seconds > 59:
            return INVALID, 0
        at += 3
        if at < stop and (byte_at(head, tail, at) == POINT or byte_at(head, tail, at) == COMMA):
            at += 1
            first, unit = at, SECOND // 10
            while at < stop and _number(head, tail, at, 1) >= 0:
                part += _number(head, tail, at, 1) * unit
                unit //= 10
                at += 1
            if at == first:
                return INVALID, 0
    status, offset = _read_offset(head, tail, at, stop)
    time = days * DAY + hours * HOUR + minutes * MINUTE + seconds * SECOND + part
    return status, (time - offset if status == READ else 0)


# ---- written -------------------------------------------------------------------------------


@compiled
def _year_digits(year):
    """How many digits a year takes, without its sign: four, or more where it has more."""
    size, count = abs(year), 4
    while size >= 10_000:
        size //= 10
        count += 1
    return count


@compiled
def _has_sign(year):
    """Years that have no four digits are written with a sign."""
    return year < 0 or year > 9999


@compiled
def _day_length(year):
    return 6 + _year_digits(year) + _has_sign(year)


@compiled
def _put_day(head, tail, year, month, day):
    at = 0
    if _has_sign(year):
        head, tail = put(head, tail, 0, DASH if year < 0 else PLUS)
        at = 1
    count = _year_digits(year)
    head, tail = put_digits(head, tail, at, abs(year), count)
    at += count
    head, tail = put(head, tail, at, DASH)
    head, tail = put_digits(head, tail, at + 1, month, 2)
    head, tail = put(head, tail, at + 3, DASH)
    return put_digits(head, tail, at + 4, day, 2)


@compiled
def write_date(days, heap):
    """
    >>> from headrace.stage.strings.text import new_heap, text
    >>> heap = new_heap(100)
    >>> text(*write_date(19_782, heap)), text(*write_date(-800_000, heap))
    ('2024-02-29', '-0221-09-04')
    """
    year, month, day = civil(days)
    head, tail = begin_text(_day_length(year), heap)
    head, tail = _put_day(head, tail, year, month, day)
    return end_text(head, tail)


@compiled
def write_timestamp(time, heap):
    """
    >>> from headrace.stage.strings.text import new_heap, text
    >>> text(*write_timestamp(-1, new_heap(100)))
    '1969-12-31T23:59:59.999999Z'
    """
    year, month, day = civil(time // DAY)
    at, of_day = _day_length(year), time % DAY
    head, tail = begin_text(at + TIME_LENGTH, heap)
    head, tail = _put_day(head, tail, year, month, day)
    head, tail = put(head, tail, at, LETTER_T)
    head, tail = put_digits(head, tail, at + 1, of_day // HOUR, 2)
    head, tail = put(head, tail, at + 3, COLON)
    head, tail = put_digits(head, tail, at + 4, of_day // MINUTE % 60, 2)
    head, tail = put(head, tail, at + 6, COLON)
    head, tail = put_digits(head, tail, at + 7, of_day // SECOND % 60, 2)
    head, tail = put(head, tail, at + 9, POINT)
    head, tail = put_digits(head, tail, at + 10, of_day % SECOND, 6)
    head, tail = put(head, tail, at + 16, LETTER_Z & ~LOWER)
    return end_text(head, tail)


# ---- what strict casts demand --------------------------------------------------------------


@compiled
def check_date(status):
    """Raise unless a string was read."""
    if status != READ:
        raise ValueError("the string is not a date such as 2024-01-31")


@compiled
def check_timestamp(status):
    """The same for timestamps."""
    if status != READ:
        raise ValueError("the string is not a time such as 2024-01-31T12:00:00Z")
