"""Days and microseconds since 1970 as years, months, days and hours, in the Gregorian calendar.

The calendar goes on before 1582 and before the year 1, as in ISO 8601: there is a year 0. The
algorithms are those of Howard Hinnant ("chrono-compatible low-level date algorithms").
"""

from __future__ import annotations

from headrace.stage.memory.arithmetic import multiply, subtract
from headrace.stage.memory.records import compiled

SECOND = 1_000_000  # microseconds
MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND
MONDAY = -3  # the day number of a Monday
DAYS_IN_400_YEARS = 146_097


@compiled
def civil(days):
    """(year, month, day) of a day.

    >>> civil(0), civil(-1), civil(19_782)
    ((1970, 1, 1), (1969, 12, 31), (2024, 2, 29))
    """
    shifted = days + 719_468  # since 0000-03-01
    era = shifted // DAYS_IN_400_YEARS
    of_era = shifted - era * DAYS_IN_400_YEARS
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    from_march = (5 * of_year + 2) // 153
    day = of_year - (153 * from_march + 2) // 5 + 1
    month = from_march + 3 if from_march < 10 else from_march - 9
    year = year_of_era + era * 400
    return (year + 1 if month <= 2 else year), month, day


@compiled
def day_number(year, month, day):
    """The day of a year, month and day.

    >>> day_number(2024, 2, 29)
    19782
    """
    if month <= 2:
        year -= 1
    era = year // 400
    year_of_era = year - era * 400
    from_march = month - 3 if month > 2 else month + 9
    of_year = (153 * from_march + 2) // 5 + day - 1
    of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + of_year
    return era * DAYS_IN_400_YEARS + of_era - 719_468


@compiled
def year_of(days):
    """
    >>> year_of(-1)
    1969
    """
    return civil(days)[0]


@compiled
def quarter_of(days):
    """
    >>> quarter_of(0)
    1
    """
    return (civil(days)[1] + 2) // 3


@compiled
def month_of(days):
    """
    >>> month_of(-1)
    12
    """
    return civil(days)[1]


@compiled
def day_of(days):
    """
    >>> day_of(-1)
    31
    """
    return civil(days)[2]


@compiled
def weekday_of(days):
    """1 (Monday) to 7.

    >>> weekday_of(0)    # a Thursday
    4
    """
    return (days - MONDAY) % 7 + 1


@compiled
def ordinal_day_of(days):
    """The day of the year, from 1.

    >>> ordinal_day_of(-1)
    365
    """
    return days - day_number(civil(days)[0], 1, 1) + 1


@compiled
def week_of(days):
    """The week of ISO 8601, from 1: that of its Thursday.

    >>> week_of(0), week_of(-3)
    (1, 1)
    """
    thursday = days + 4 - weekday_of(days)
    return (thursday - day_number(civil(thursday)[0], 1, 1)) // 7 + 1


@compiled
def month_length(year, month):
    """The days of a month.

    >>> month_length(2024, 2), month_length(1900, 2)
    (29, 28)
    """
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


# ---- cut down ------------------------------------------------------------------------------


@compiled
def truncate_time(time, size, origin):
    """The last k * size + origin that is not after a time; OverflowError if it is no int64.

    >>> truncate_time(-1, 10, 0), truncate_time(17, 10, 5)
    (-10, 15)
    """
    return subtract(time, (time % size - origin % size) % size)


@compiled
def truncate_months(days, months):
    """The first day of the month, quarter or year that a day is in.

    >>> truncate_months(-1, 12), truncate_months(50, 1)
    (-365, 31)
    """
    year, month, _ = civil(days)
    total = year * 12 + month - 1
    total -= total % months
    return day_number(total // 12, total % 12 + 1, 1)


@compiled
def truncate_time_to_months(time, months):
    """The same of microseconds.

    >>> truncate_time_to_months(-1, 1) == -31 * DAY
    True
    """
    return multiply(truncate_months(time // DAY, months), DAY)


@compiled
def whole_units(span, unit):
    """How many whole units a length of time has, the fraction left out.

    >>> whole_units(-1_500_000, SECOND), whole_units(-(2**63), 1)
    (-1, -9223372036854775808)
    """
    made = span // unit
    return made + 1 if made < 0 and made * unit != span else made
