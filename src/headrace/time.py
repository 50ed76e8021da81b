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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import overload

from .expr.times import MICROSECONDS
from .expr.values import Expr, as_expr
from .plan.builtins import DURATION
from .plan.durations import parse_duration
from .plan.errors import ExpressionError, PipelineError
from .plan.expressions import Cast
from .plan.site import caller_site

Length = str | int | dt.timedelta


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
