"""Numbers, formats, handlers and dates in users' functions: compiled, they do what Python does."""

import datetime as dt
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace import dates

NUMERALS = st.one_of(
    st.floats().map(repr),
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.from_regex(r"\A[ ]?[+-]?[0-9]{0,18}(\.[0-9]{0,20})?(e[+-]?[0-9]{1,2})?\Z"),
    st.sampled_from(["", "x", "1,5", "nan", "-Infinity", "é", "a long text that is no number"]),
)


FLOATS = st.floats(-1e300, 1e300) | st.just(math.inf)


def as_float(s):
    try:
        return float(s)
    except ValueError:
        return -1.5


def as_int(s):
    try:
        return int(s.strip())
    except ValueError:
        return -1


def checked(s):
    try:
        number = int(s[0:2])
        if number < 0:
            raise ValueError("negative")
        return number
    except ValueError:
        pass
    return -7


def said(n, x):
    plain = f"{n}|{x}|" + str(x)
    return plain + f"|{format(x, '.2f')}|{format(n, '06d')}|{format(x, '012.3f')}|{format(n, '5d')}"


def reversed_text(s):
    return s[::-1]


def parts(t):
    return (
        dates.year(t), dates.month(t), dates.day(t), dates.hour(t), dates.minute(t),
        dates.second(t), dates.weekday(t), dates.ordinal_day(t),
    )  # fmt: skip


def both(function, columns, output="r"):
    """What a function gives, compiled and interpreted."""
    found = []
    for compiled in (True, False):
        out = hr.read.memory(columns).map(function, output=output).write.collect()
        hr.run(out, engine="thread", compiled=compiled)
        found.append(out.result().to_pylist())
    return found


@pytest.mark.compiled
@pytest.mark.parametrize("function", [as_float, as_int, checked, reversed_text])
@given(texts=st.lists(NUMERALS, min_size=1, max_size=8))
def test_strings_become_numbers(function, texts):
    compiled, interpreted = both(function, {"s": texts})
    assert repr(compiled) == repr(interpreted)  # so that NaN equals NaN
    assert repr([row["r"] for row in compiled]) == repr([function(text) for text in texts])


@pytest.mark.compiled
@given(
    rows=st.lists(
        st.tuples(st.integers(-(2**63) + 1, 2**63 - 1), FLOATS),
        min_size=1,
        max_size=8,
    )
)
def test_numbers_become_strings(rows):
    columns = {"n": [n for n, _ in rows], "x": [x for _, x in rows]}
    compiled, interpreted = both(said, columns)
    assert compiled == interpreted
    assert [row["r"] for row in compiled] == [said(n, x) for n, x in rows]


@pytest.mark.compiled
@given(moments=st.lists(st.datetimes(), min_size=1, max_size=8))
def test_parts_of_timestamps(moments):
    names = ["year", "month", "day", "hour", "minute", "second", "weekday", "ordinal"]
    compiled, interpreted = both(parts, {"t": moments}, output=names)
    assert compiled == interpreted
    for row, moment in zip(compiled, moments, strict=True):
        expected = moment.timetuple()
        assert tuple(row.values()) == (*expected[:6], expected[6] + 1, expected[7])


def test_parts_of_timestamps_in_plain_python():
    day = dt.datetime(2024, 2, 29, 13, 5, 7) - dt.datetime(1970, 1, 1)
    assert parts(day // dt.timedelta(microseconds=1)) == (2024, 2, 29, 13, 5, 7, 4, 60)


@pytest.mark.compiled
def test_dates_by_way_of_the_package():
    compiled, interpreted = both(lambda t: hr.dates.year(t), {"t": [dt.datetime(1969, 12, 31)]})
    assert compiled == interpreted == [{"r": 1969}]
