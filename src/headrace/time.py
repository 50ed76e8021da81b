"""Durations and windows, as users write them.

>>> from headrace.time import duration, tumbling
>>> duration("10s")
10000000
>>> tumbling("10s", offset="2s")
tumbling('10s', offset='2s')
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from .plan.durations import parse_duration
from .plan.errors import PipelineError
from .plan.expression_types import ExpressionError
from .plan.site import caller_site

Length = str | int | dt.timedelta


def duration(given: Length) -> int:
    """The microseconds of a duration: a string with a unit, a timedelta, or microseconds.

    The units are us, ms, s, m or min, h and d.

    >>> duration("500ms"), duration("5 min"), duration(dt.timedelta(hours=1)), duration(7)
    (500000, 300000000, 3600000000, 7)
    """
    try:
        return parse_duration(given)
    except ExpressionError as error:
        raise PipelineError(error.what, site=caller_site(), fix=error.fix) from None


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of equal length that follow each other, as the user gave them.

    They get a unit when `window` sees the event-time column: durations for timestamps, plain
    numbers for int64.
    """

    size: Length
    offset: Length = 0

    def __repr__(self) -> str:
        offset = "" if self.offset == 0 else f", offset={self.offset!r}"
        return f"tumbling({self.size!r}{offset})"


def tumbling(size: Length, offset: Length = 0) -> Tumbling:
    """Windows [k * size + offset, (k + 1) * size + offset) for every whole number k.

    >>> tumbling("1h"), tumbling(100)
    (tumbling('1h'), tumbling(100))
    """
    for given in (size, offset):
        if isinstance(given, str):
            duration(given)  # a typing error is best reported where it was typed
    return Tumbling(size, offset)
