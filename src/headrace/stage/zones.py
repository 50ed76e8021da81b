"""Time zones: the offsets of local time, as a table that kernels look up.

The table is the bytes of a constant: pairs of words, the instant from which on an offset holds and
the offset, both in microseconds. It comes from the zone database that Python uses. Beyond its last
entries the rules repeat every 400 years, as the calendar does.
"""

from __future__ import annotations

import datetime as dt
import struct
from functools import cache
from zoneinfo import TZPATH, ZoneInfo

from headrace.stage.civil import DAY, DAYS_IN_400_YEARS
from headrace.stage.memory.arithmetic import add, subtract
from headrace.stage.memory.instructions import word
from headrace.stage.memory.records import compiled
from headrace.stage.strings.words import LENGTH_MASK

ENTRY = 16  # bytes
CYCLE = DAYS_IN_400_YEARS * DAY
LAST_RULES = 2037  # files of the database name every change until then, and a rule for later
_SECOND = 1_000_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_STEP = dt.timedelta(days=7)  # no rule goes back sooner than it came


@compiled
def _instant(table, entry):
    return word(table + ENTRY * entry)


@compiled
def _offset(table, entry):
    return word(table + ENTRY * entry + 8)


@compiled
def _entry_at(table, entries, time):
    """The last entry that is not after a time; the first one holds before, too."""
    low, high = 0, entries
    while high - low > 1:
        middle = (low + high) // 2
        if _instant(table, middle) <= time:
            low = middle
        else:
            high = middle
    return low


@compiled
def zone_offset(time, head, table):
    """Microseconds that local time is ahead of UTC at an instant; the table as its two words."""
    entries = (head & LENGTH_MASK) // ENTRY
    last = _instant(table, entries - 1)
    if time >= last:
        time = last - CYCLE + (time - last) % CYCLE
    return _offset(table, _entry_at(table, entries, time))


@compiled
def local_time(time, head, table):
    """The local time of an instant, as if it were UTC; OverflowError beyond int64."""
    return add(time, zone_offset(time, head, table))


@compiled
def first_instant(local, head, table):
    """The first instant at which clocks show a local time, or jump over it."""
    before = zone_offset(subtract(local, DAY), head, table)
    after = zone_offset(add(local, DAY), head, table)
    early = subtract(local, before)
    if before == after or zone_offset(early, head, table) == before:
        return early
    late = subtract(local, after)
    if zone_offset(late, head, table) == after:
        return late
    low, high = min(early, late), max(early, late)  # the jump lies between
    while high - low > 1:
        middle = low + (high - low) // 2
        if zone_offset(middle, head, table) == before:
            low = middle
        else:
            high = middle
    return high


@compiled
def same_clock(local, time, head, table):
    """The instant of a local time as the clock went at another instant near it, if it did."""
    offset = zone_offset(time, head, table)
    near = subtract(local, offset)
    if zone_offset(near, head, table) == offset:
        return near
    return first_instant(local, head, table)


@cache
def zone_table(name: str) -> bytes:
    """The table of a zone.

    >>> struct.unpack_from("<qq", zone_table("UTC"))[1]
    0
    """
    zone = ZoneInfo(name)
    changes = _changes_in_file(name)
    start = dt.datetime(1900, 1, 1, tzinfo=dt.UTC)
    first = _micros(start) if not changes else changes[0] - _SECOND
    found = {first: _offset_of(zone, first)}
    for instant in changes:
        found[instant] = _offset_of(zone, instant)
    # the rule for later, over one whole cycle
    at = max(_moment(max(found)), dt.datetime(LAST_RULES - 1, 1, 1, tzinfo=dt.UTC))
    end = dt.datetime(at.year + 401, 1, 1, tzinfo=dt.UTC)
    while at < end:
        following = min(at + _STEP, end)
        if at.astimezone(zone).utcoffset() != following.astimezone(zone).utcoffset():
            instant = _change_between(zone, at, following)
            found[instant] = _offset_of(zone, instant)
        at = following
    found[_micros(end)] = _offset_of(zone, _micros(end))
    return b"".join(struct.pack("<qq", instant, found[instant]) for instant in sorted(found))


def _changes_in_file(name: str) -> list[int]:
    """The instants that the zone's file names (RFC 8536)."""
    data = _file(name)
    first = struct.calcsize(">4s c 15x 6l")
    _, version, utc, std, leap, times, kinds, letters = struct.unpack_from(">4s c 15x 6l", data)
    at, width = first, "l"
    if version >= b"2":  # behind the table of 32 bits stands one of 64
        at += times * 5 + kinds * 6 + letters + leap * 8 + std + utc
        times, width = struct.unpack_from(">4s c 15x 6l", data, at)[5], "q"
        at += first
    seconds = struct.unpack_from(f">{times}{width}", data, at)
    lowest = (dt.datetime.min.replace(tzinfo=dt.UTC) - _EPOCH).total_seconds() + 86_400 * 2
    return [second * _SECOND for second in seconds if second > lowest]


def _file(name: str) -> bytes:
    from importlib import resources
    from pathlib import Path

    for folder in TZPATH:
        path = Path(folder, *name.split("/"))
        if path.is_file():
            return path.read_bytes()
    *packages, file = name.split("/")
    return (resources.files(".".join(["tzdata.zoneinfo", *packages])) / file).read_bytes()


def _change_between(zone: ZoneInfo, low: dt.datetime, high: dt.datetime) -> int:
    before = low.astimezone(zone).utcoffset()
    while high - low > dt.timedelta(seconds=1):
        middle = low + dt.timedelta(seconds=(high - low) // dt.timedelta(seconds=2))
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return _micros(high)


def _micros(moment: dt.datetime) -> int:
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)


def _moment(micros: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(microseconds=micros)


def _offset_of(zone: ZoneInfo, micros: int) -> int:
    offset = _moment(micros).astimezone(zone).utcoffset()
    return (offset or dt.timedelta()) // dt.timedelta(microseconds=1)
