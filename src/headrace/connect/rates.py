"""Load: how many rows of a source are due, at a rate or in steps of rates.

Rows are due by the clock alone (an open loop): who falls behind finds them waiting, and the time
that counts for a row is when it was due, not when somebody came for it. Arithmetic is in whole
nanoseconds and whole rows, so nothing drifts. `node.pace` compiles the same two functions.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

from headrace.plan.durations import Duration, parse_duration
from headrace.plan.errors import DataError
from headrace.plan.expression_types import ExpressionError

SECOND = 1_000_000_000  # nanoseconds
NEVER_DUE = 1 << 62  # a time, or a number of rows, that does not come
HORIZON = 1 << 61  # nanoseconds, 73 years: what is due later is never due
_MOST_PRODUCT = 1 << 62  # of the two numbers of a rate, so that products stay in 64 bits
_FIX = "give rows per second, or steps of rates: [(1000, '10s'), (5000, '10s')]"


def rows_in(ns, rows, per):  # type: ignore[no-untyped-def]
    """The whole rows in a time, at `rows` rows in `per` nanoseconds. Never a large product.

    >>> rows_in(2_500_000_000, 1, SECOND)
    2
    """
    return ns // per * rows + ns % per * rows // per


def time_for(count, rows, per):  # type: ignore[no-untyped-def]
    """The first nanosecond in which there are `count` rows: the inverse of `rows_in`.

    >>> time_for(1, 3, SECOND), rows_in(333_333_334, 3, SECOND), rows_in(333_333_333, 3, SECOND)
    (333333334, 1, 0)
    """
    return count // rows * per + (count % rows * per + rows - 1) // rows


@dataclass(frozen=True)
class Step:
    """`rows` rows in every `per` nanoseconds, for `ns` nanoseconds, or (None) for ever."""

    rows: int
    per: int
    ns: int | None

    @property
    def per_second(self) -> float:
        """The rate as users say it."""
        return self.rows * SECOND / self.per


@dataclass(frozen=True)
class Rate:
    """Steps, one after the other; the last goes on for ever. A step begins with a whole row.

    >>> rate = Rate.of([(10, "1s"), (1000, "1s")])
    >>> rate.rows_due(SECOND // 2), rate.rows_due(SECOND), rate.rows_due(2 * SECOND)
    (5, 10, 1010)
    >>> rate.due(4) / SECOND, rate.due(10) / SECOND, str(rate)
    (0.5, 1.001, '10/s for 1 s, then 1,000/s')
    """

    steps: tuple[Step, ...]

    @staticmethod
    def of(given: Any) -> Rate | None:
        """What a user gives as `rate`: rows per second, steps (rate, duration), or None."""
        if given is None or isinstance(given, Rate):
            return given
        if isinstance(given, Sequence) and not isinstance(given, str | bytes):
            return Rate(_steps(given))
        per_second = _number(given)
        if not per_second > 0:
            raise DataError(f"rate={given}: must be above zero; leave it out for full speed")
        return Rate((_step(per_second, None),))

    def __str__(self) -> str:
        said = [
            f"{step.per_second:,g}/s" + (f" for {step.ns / SECOND:,g} s" if step.ns else "")
            for step in self.steps
        ]
        return ", then ".join(said)

    def shared(self, channels: int) -> Rate:
        """The rate of one of several channels that have it together.

        >>> str(Rate.of([(10, "1s"), (30, None)]).shared(5))
        '2/s for 1 s, then 6/s'
        """
        return Rate(
            tuple(
                replace(_step(Fraction(s.rows * SECOND, s.per) / channels, None), ns=s.ns)
                for s in self.steps
            )
        )

    def rows_due(self, ns: int) -> int:
        """How many rows are due in all, so long after the start."""
        due = 0
        for step in self.steps:
            if step.ns is None or ns < step.ns:
                return due + rows_in(max(ns, 0), step.rows, step.per)
            due += rows_in(step.ns, step.rows, step.per)
            ns -= step.ns
        raise AssertionError("the last step has no end")

    def due(self, row: int) -> int:
        """How long after the start a row is due, the first being number 0; NEVER_DUE: never."""
        before, count = 0, row + 1
        for step in self.steps:
            length = HORIZON - before if step.ns is None else step.ns
            inside = rows_in(length, step.rows, step.per)
            if count <= inside:
                return before + time_for(count, step.rows, step.per)
            count -= inside
            before += step.ns or 0
        return NEVER_DUE


def _steps(given: Sequence[Any]) -> tuple[Step, ...]:
    made = []
    for number, step in enumerate(given):
        if not isinstance(step, Sequence) or isinstance(step, str) or len(step) != 2:
            raise DataError(f"rate={given!r}: step {number} is not (rate, duration); {_FIX}")
        rate, duration = step
        last = number == len(given) - 1
        per_second = _number(rate)
        if not per_second >= 0:
            raise DataError(f"rate={given!r}: step {number} has a negative rate")
        ns = _nanoseconds(duration, number, last)
        made.append(_step(per_second, None if last else ns))
    if not any(step.rows for step in made):
        raise DataError(f"rate={given!r}: no step has rows; {_FIX}")
    return tuple(made)


def _nanoseconds(duration: Any, number: int, last: bool) -> int | None:
    if duration is None and last:
        return None
    if not isinstance(duration, str | dt.timedelta | Duration):
        raise DataError(f"step {number} of the rate: {duration!r} is not a duration; {_FIX}")
    try:
        ns = parse_duration(duration) * 1_000
    except ExpressionError as error:
        raise DataError(f"step {number} of the rate: {error.what}; {error.fix}") from None
    if ns <= 0:
        raise DataError(f"step {number} of the rate: {duration!r} is not longer than nothing")
    return ns


def _number(given: Any) -> Fraction | float:
    """A rate as an exact number: 0.1 is a tenth, and not the float next to it."""
    if isinstance(given, bool) or not isinstance(given, Real):
        raise DataError(f"rate={given!r}: is not a number; {_FIX}")
    if math.isinf(given):
        raise DataError(f"rate={given}: leave it out for full speed")
    if math.isnan(given):
        return math.nan  # no comparison with it is true
    if isinstance(given, Rational):
        return Fraction(int(given.numerator), int(given.denominator))
    return Fraction(str(float(given)))


def _step(per_second: Fraction | float, ns: int | None) -> Step:
    """The rate as two numbers whose product fits 64 bits: exact for whole rates up to 4 G/s."""
    exact = Fraction(per_second) / SECOND
    if exact.numerator * exact.denominator > _MOST_PRODUCT:
        exact = exact.limit_denominator(max(1, math.isqrt(int(_MOST_PRODUCT / exact)) - 1))
    if exact == 0 and per_second > 0:
        raise DataError(f"rate={float(per_second):g}: is too slow to be told from nothing")
    return Step(exact.numerator, exact.denominator, ns)
