"""Functions of dates, timestamps and durations: `col("t").dt`, named as in Polars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from ..habits import TIMES, unknown
from ..plan.durations import parse_every
from ..plan.errors import ExpressionError
from ..plan.expressions import Binary, Builtin, Cast
from ..plan.types import int64
from .values import Expr, as_node, mistake

MICROSECONDS = {
    "days": 86_400_000_000,
    "hours": 3_600_000_000,
    "minutes": 60_000_000,
    "seconds": 1_000_000,
    "milliseconds": 1_000,
    "microseconds": 1,
}
_EPOCHS = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Times:
    """The functions of a time. `zone` names a time zone, such as "Europe/Berlin"; without it the
    parts are those of UTC."""

    of: Expr

    def __getattr__(self, name: str) -> NoReturn:
        raise unknown(".dt", name, TIMES, dir(type(self)))

    def __repr__(self) -> str:
        return f"{self.of!r}.dt"

    def _part(self, name: str, zone: str | None) -> Expr:
        return Expr(Builtin(name, (self.of.node,), known_zone(zone)))

    def year(self, *, zone: str | None = None) -> Expr:
        """The year.

        >>> from headrace.expr import col
        >>> col("t").dt.year(), col("t").dt.year(zone="Asia/Tokyo")
        (Expr(year(t)), Expr(year(t, zone=Asia/Tokyo)))
        """
        return self._part("year", zone)

    def quarter(self, *, zone: str | None = None) -> Expr:
        """The quarter, 1 to 4.

        >>> from headrace.expr import col
        >>> col("t").dt.quarter()
        Expr(quarter(t))
        """
        return self._part("quarter", zone)

    def month(self, *, zone: str | None = None) -> Expr:
        """The month, 1 to 12.

        >>> from headrace.expr import col
        >>> col("t").dt.month()
        Expr(month(t))
        """
        return self._part("month", zone)

    def week(self, *, zone: str | None = None) -> Expr:
        """The week of ISO 8601, 1 to 53.

        >>> from headrace.expr import col
        >>> col("t").dt.week()
        Expr(week(t))
        """
        return self._part("week", zone)

    def day(self, *, zone: str | None = None) -> Expr:
        """The day of the month, from 1.

        >>> from headrace.expr import col
        >>> col("t").dt.day()
        Expr(day(t))
        """
        return self._part("day", zone)

    def ordinal_day(self, *, zone: str | None = None) -> Expr:
        """The day of the year, from 1.

        >>> from headrace.expr import col
        >>> col("t").dt.ordinal_day()
        Expr(ordinal_day(t))
        """
        return self._part("ordinal_day", zone)

    def weekday(self, *, zone: str | None = None) -> Expr:
        """The day of the week, 1 (Monday) to 7.

        >>> from headrace.expr import col
        >>> col("t").dt.weekday()
        Expr(weekday(t))
        """
        return self._part("weekday", zone)

    def hour(self, *, zone: str | None = None) -> Expr:
        """The hour, 0 to 23.

        >>> from headrace.expr import col
        >>> col("t").dt.hour(zone="America/New_York")
        Expr(hour(t, zone=America/New_York))
        """
        return self._part("hour", zone)

    def minute(self, *, zone: str | None = None) -> Expr:
        """The minute, 0 to 59.

        >>> from headrace.expr import col
        >>> col("t").dt.minute()
        Expr(minute(t))
        """
        return self._part("minute", zone)

    def second(self) -> Expr:
        """The second, 0 to 59.

        >>> from headrace.expr import col
        >>> col("t").dt.second()
        Expr(second(t))
        """
        return self._part("second", None)

    def millisecond(self) -> Expr:
        """The milliseconds of the second, 0 to 999.

        >>> from headrace.expr import col
        >>> col("t").dt.millisecond()
        Expr(millisecond(t))
        """
        return self._part("millisecond", None)

    def microsecond(self) -> Expr:
        """The microseconds of the second, 0 to 999 999.

        >>> from headrace.expr import col
        >>> col("t").dt.microsecond()
        Expr(microsecond(t))
        """
        return self._part("microsecond", None)

    def date(self, *, zone: str | None = None) -> Expr:
        """The day as a date.

        >>> from headrace.expr import col
        >>> col("t").dt.date(zone="Europe/Berlin")
        Expr(date_of(t, zone=Europe/Berlin))
        """
        return self._part("date_of", zone)

    def truncate(self, every: str, *, zone: str | None = None) -> Expr:
        """The start of the step that the time is in: "15m", "1h", "1d", "1w", "1mo", "1q", "1y".

        Weeks begin on Mondays. In a zone, days and longer steps begin when local days do, at the
        first such instant.

        >>> from headrace.expr import col
        >>> col("t").dt.truncate("1h")
        Expr(truncate(t, '1h'))
        """
        try:
            parse_every(every if isinstance(every, str) else "")
        except ExpressionError as error:
            raise mistake(f"truncate({every!r}): {error.what}", error.fix) from None
        return Expr(Builtin("truncate", (self.of.node, as_node(every)), known_zone(zone)))

    def epoch(self, unit: str = "us") -> Expr:
        """The number of "s", "ms" or "us" since 1970, rounded down.

        >>> from headrace.expr import col
        >>> col("t").dt.epoch("ms")
        Expr(cast(t, int64) // 1000)
        """
        if unit not in _EPOCHS:
            raise mistake(f"epoch({unit!r}) is no unit", 'use "s", "ms" or "us"')
        micros = Cast(self.of.node, int64)
        return Expr(micros if unit == "us" else Binary("//", micros, as_node(_EPOCHS[unit])))

    def strftime(self, format: str) -> Expr:
        """The time as a string of a format, in UTC.

        >>> from headrace.expr import col
        >>> col("t").dt.strftime("%d.%m.%Y")
        Expr(format_time(t, '%d.%m.%Y'))
        """
        if not isinstance(format, str):
            raise mistake(f"{format!r} is not a format of times", '"%d.%m.%Y %H:%M"')
        return Expr(Builtin("format_time", (self.of.node, as_node(format))))

    def total_days(self) -> Expr:
        """The whole days of a duration.

        >>> from headrace.expr import col
        >>> (col("b") - col("a")).dt.total_days()
        Expr(total((b - a), 86400000000))
        """
        return self._total("days")

    def total_hours(self) -> Expr:
        """The whole hours of a duration.

        >>> from headrace.expr import col
        >>> (col("b") - col("a")).dt.total_hours()
        Expr(total((b - a), 3600000000))
        """
        return self._total("hours")

    def total_minutes(self) -> Expr:
        """The whole minutes of a duration.

        >>> from headrace.expr import col
        >>> (col("b") - col("a")).dt.total_minutes()
        Expr(total((b - a), 60000000))
        """
        return self._total("minutes")

    def total_seconds(self) -> Expr:
        """The whole seconds of a duration: of the difference of two timestamps, or a timedelta.

        >>> from headrace.expr import col
        >>> (col("b") - col("a")).dt.total_seconds()
        Expr(total((b - a), 1000000))
        """
        return self._total("seconds")

    def total_milliseconds(self) -> Expr:
        """The whole milliseconds of a duration.

        >>> from headrace.expr import col
        >>> (col("b") - col("a")).dt.total_milliseconds()
        Expr(total((b - a), 1000))
        """
        return self._total("milliseconds")

    def total_microseconds(self) -> Expr:
        """The microseconds of a duration.

        >>> from headrace.expr import col
        >>> (col("b") - col("a")).dt.total_microseconds()
        Expr(total((b - a), 1))
        """
        return self._total("microseconds")

    def _total(self, unit: str) -> Expr:
        return Expr(Builtin("total", (self.of.node, as_node(MICROSECONDS[unit]))))


def known_zone(name: Any) -> str:
    """The name of a time zone as expressions have it: "" for UTC."""
    if name is None or name == "UTC":
        return ""
    from zoneinfo import ZoneInfo, available_timezones

    try:
        return ZoneInfo(name).key
    except Exception:
        import difflib  # only for this message

        near = difflib.get_close_matches(str(name), available_timezones(), n=1)
        fix = f"did you mean {near[0]!r}?" if near else 'name a place: "Europe/Berlin"'
        raise mistake(f"{name!r} is not a time zone", fix) from None
