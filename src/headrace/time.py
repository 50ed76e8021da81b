"""Durations and windows, as users write them.

>>> from headrace.time import duration, tumbling
>>> duration("10s")
10000000
>>> tumbling("10s", offset="2s")
tumbling('10s', offset='2s')
"""

from __future__ import annotations

import datetime as dt
import functools
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, overload

from .expr.times import MICROSECONDS, known_zone
from .expr.values import Expr, as_expr
from .plan.builtins import DURATION
from .plan.durations import parse_duration, parse_every
from .plan.errors import ExpressionError, PipelineError
from .plan.expressions import Cast
from .plan.site import caller_site
from .plan.windows.base import Window
from .plan.windows.calendar import Calendar
from .plan.windows.counting import Counting
from .plan.windows.repeated import Repeated
from .plan.windows.session import Session
from .plan.windows.sliding import Sliding
from .plan.windows.tumbling import Tumbling

Length = str | int | dt.timedelta
_CALENDAR = re.compile(r"\s*\d+\s*(w|mo|q|y)\s*")


@overload
def duration(given: Length, /) -> int: ...


@overload
def duration(**parts: Expr | int) -> Expr: ...


def duration(given: Length | None = None, /, **parts: Expr | int) -> int | Expr:
    """The microseconds of a duration: a string with a unit, a timedelta, or microseconds.

    The units are us, ms, s, m or min, h and d. With `days`, `hours`, `minutes`, `seconds`,
    `milliseconds` or `microseconds` it is an expression, to be added to timestamps.

    >>> duration("500ms"), duration("5 min"), duration(dt.timedelta(hours=1)), duration(7)
    (500000, 300000000, 3600000000, 7)
    >>> from headrace.expr import col
    >>> col("t") + duration(hours=col("n"))
    Expr(t + cast((n * 3600000000), duration))
    """
    if parts:
        return _duration_of(parts)
    try:
        return parse_duration(given)
    except ExpressionError as error:
        raise PipelineError(error.what, site=caller_site(), fix=error.fix) from None


def _duration_of(parts: Mapping[str, Expr | int]) -> Expr:
    unknown = [name for name in parts if name not in MICROSECONDS]
    if unknown:
        raise PipelineError(
            f"a duration has no {unknown[0]}", site=caller_site(), fix=", ".join(MICROSECONDS)
        )
    micros = [as_expr(count) * MICROSECONDS[name] for name, count in parts.items()]
    return Expr(Cast(functools.reduce(operator.add, micros).node, DURATION))


@dataclass(frozen=True, slots=True, repr=False)
class Windows:
    """Windows as the user gave them.

    They get a unit when `window` sees the event-time column: durations for timestamps, plain
    numbers for int64.
    """

    said: str
    make: Callable[..., Window]
    given: Mapping[str, Any]

    def __repr__(self) -> str:
        return self.said


def _windows(name: str, make: Callable[..., Window], unnamed: str = "", **given: Any) -> Windows:
    """Windows by what was given; `unnamed` need not be said by its name."""
    shown = [repr(value) if key == unnamed else f"{key}={value!r}" for key, value in given.items()]
    return Windows(f"{name}({', '.join(shown)})", make, given)


def _by_length(name: str, make: Callable[..., Window], unnamed: str = "", **given: Any) -> Windows:
    """The same, of lengths only: a typing error is best reported where it was typed."""
    for value in given.values():
        if isinstance(value, str):
            duration(value)
    return _windows(name, make, unnamed, **given)


def tumbling(
    size: Length,
    offset: Length = 0,
    *,
    zone: str | None = None,
    early: Length | Counting | None = None,
    lateness: Length | None = None,
) -> Windows:
    """Windows [k * size + offset, (k + 1) * size + offset) for every whole number k.

    Of weeks (from Monday), months, quarters and years, "1w", "1mo", "1q" and "1y", and of days in
    a time zone, the windows are those of the calendar.

    early: results before the end of a window, every so much event time from its start on, for the
    keys that had rows since the last one; or, `counting(n)`, every n rows of a key, with the row.
    They have all rows of the window so far, and `window_early` marks them.

    lateness: a window is kept for so much longer than until its end. Rows that come in between are
    not late, and it is given out once more, for the keys that had some, with all its rows.
    `window_updated` marks such results.

    Where either goes by time, results say when they were given out, `window_given`.

    >>> tumbling("1h"), tumbling(100), tumbling("10s", offset="2s")
    (tumbling('1h'), tumbling(100), tumbling('10s', offset='2s'))
    >>> tumbling("1d", zone="Europe/Berlin")
    tumbling('1d', zone='Europe/Berlin')
    >>> tumbling("10s", lateness="1m"), tumbling("1h", early="5m")
    (tumbling('10s', lateness='1m'), tumbling('1h', early='5m'))
    >>> tumbling("1h", early=counting(100))
    tumbling('1h', early=counting(100))
    """
    by_calendar = zone is not None or (isinstance(size, str) and _CALENDAR.fullmatch(size))
    if lateness is not None and by_calendar:
        raise PipelineError(
            f"tumbling({size!r}, lateness={lateness!r}): windows of the calendar are not kept",
            site=caller_site(),
            fix="give a size in days or less and no zone, or a larger bound of with_watermark",
        )
    repeated = {"early": early, "lateness": lateness}
    more = {name: value for name, value in repeated.items() if value is not None}
    whole: Callable[..., Tumbling | Calendar] = Calendar.of if by_calendar else Tumbling.of
    of = functools.partial(Repeated.of, whole=whole) if more else whole
    if not by_calendar:
        shifted = {} if offset == 0 else {"offset": offset}
        return _by_length("tumbling", of, "size", size=size, **shifted, **more)
    if not isinstance(size, str) or offset != 0:
        raise PipelineError(
            f"tumbling({size!r}, offset={offset!r}): windows of the calendar have no offset",
            site=caller_site(),
            fix='write tumbling("1d", zone="Europe/Berlin")',
        )
    try:
        named = {} if zone is None else {"zone": known_zone(zone)}
        parse_every(size)
    except ExpressionError as error:
        raise PipelineError(error.what, site=caller_site(), fix=error.fix) from None
    return _windows("tumbling", of, "every", every=size, **named, **more)


def sliding(size: Length, every: Length, offset: Length = 0) -> Windows:
    """Windows [k * every + offset, k * every + offset + size): a row is in several of them.

    >>> sliding("10s", every="1s")
    sliding('10s', every='1s')
    """
    shifted = {} if offset == 0 else {"offset": offset}
    return _by_length("sliding", Sliding.of, "size", size=size, every=every, **shifted)


def session(gap: Length) -> Windows:
    """Windows by key that last as long as rows follow each other in less than `gap`.

    A session is [its first row, its last row + gap); results have both, as `window_start` and
    `window_end`.

    >>> session(gap="30s")
    session(gap='30s')
    """
    return _by_length("session", Session.of, gap=gap)


def counting(rows: int) -> Counting:
    """Windows of so many rows of a key, in their order, whatever their times are.

    A window is given out with its last row; one that is not full in the end is not.

    >>> counting(100)
    counting(100)
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise PipelineError(
            f"{rows!r} is not a number of rows", site=caller_site(), fix="counting(100)"
        )
    return Counting(rows)
