"""Parts of timestamps inside functions, where a timestamp is the number of microseconds since 1970.

    >>> from headrace import dates
    >>> dates.year(0), dates.hour(3_600_000_000), dates.weekday(0)
    (1970, 1, 4)

They work in compiled functions and in plain Python; in expressions there is `col("t").dt`. A date
is the number of days since 1970: `dates.year(day * dates.DAY)`.
"""

from __future__ import annotations

from .stage import civil
from .stage.civil import DAY, HOUR, MINUTE, SECOND
from .stage.memory.records import compiled

__all__ = [
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "day",
    "hour",
    "minute",
    "month",
    "ordinal_day",
    "second",
    "weekday",
    "year",
]

_year_of, _month_of, _day_of = civil.year_of, civil.month_of, civil.day_of
_weekday_of, _ordinal_day_of = civil.weekday_of, civil.ordinal_day_of


@compiled
def year(time):  # type: ignore[no-untyped-def]
    """The year of a timestamp, in UTC.

    >>> year(-1)
    1969
    """
    return _year_of(time // DAY)


@compiled
def month(time):  # type: ignore[no-untyped-def]
    """The month, 1 to 12.

    >>> month(-1)
    12
    """
    return _month_of(time // DAY)


@compiled
def day(time):  # type: ignore[no-untyped-def]
    """The day of the month, from 1.

    >>> day(-1)
    31
    """
    return _day_of(time // DAY)


@compiled
def weekday(time):  # type: ignore[no-untyped-def]
    """The day of the week, 1 (Monday) to 7.

    >>> weekday(0)
    4
    """
    return _weekday_of(time // DAY)


@compiled
def ordinal_day(time):  # type: ignore[no-untyped-def]
    """The day of the year, from 1.

    >>> ordinal_day(0)
    1
    """
    return _ordinal_day_of(time // DAY)


@compiled
def hour(time):  # type: ignore[no-untyped-def]
    """The hour, 0 to 23.

    >>> hour(-1)
    23
    """
    return time // HOUR % 24


@compiled
def minute(time):  # type: ignore[no-untyped-def]
    """The minute, 0 to 59.

    >>> minute(-1)
    59
    """
    return time // MINUTE % 60


@compiled
def second(time):  # type: ignore[no-untyped-def]
    """The second, 0 to 59.

    >>> second(-1)
    59
    """
    return time // SECOND % 60
