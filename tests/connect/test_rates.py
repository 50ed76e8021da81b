"""When rows are due, against fractions; and rates as users write them."""

import datetime as dt
import pickle
from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.rates import HORIZON, NEVER_DUE, SECOND, Rate
from headrace.node.pace import due_time, new_pace, next_due, rows_due, start_pace
from headrace.plan.errors import DataError
from headrace.plan.types import int64
from headrace.stage.memory.records import interpreted
from headrace.time import duration

DAYS = 10 * 86_400 * SECOND

per_second = st.one_of(
    st.integers(1, 10**9),
    st.integers(1, 1000).map(lambda tenths: tenths / 10),
    st.fractions(Fraction(1, 1000), 1000, max_denominator=1000),
)
durations = st.integers(1, 10**9).map(lambda us: f"{us}us")
steps = st.lists(st.tuples(st.just(0) | per_second, durations), min_size=1, max_size=4).filter(
    lambda made: any(rate for rate, _ in made)
)
rates = st.one_of(per_second, steps)


def fractions_of(given):
    """[(rows per nanosecond, nanoseconds)] of what a user gives; the last has no end."""
    made = given if isinstance(given, list) else [(given, "1us")]
    exact = [(Fraction(str(r)) / SECOND, int(d[:-2]) * 1000) for r, d in made]
    return [*exact[:-1], (exact[-1][0], None)]


def naive_rows_due(given, ns):
    due = 0
    for rate, length in fractions_of(given):
        inside = ns if length is None else min(ns, length)
        due += floor(rate * max(inside, 0))
        ns -= inside
    return due


@given(rates, st.lists(st.integers(-SECOND, DAYS), max_size=10), st.integers(0, 1 << 60))
def test_rows_are_due_as_fractions_say(given_rate, times, start):
    rate = Rate.of(given_rate)
    pace = new_pace(rate, start)
    ends = [int(d[:-2]) * 1000 for _, d in given_rate] if isinstance(given_rate, list) else []
    for ns in [*times, *ends, *(end - 1 for end in ends), sum(ends)]:
        wanted = naive_rows_due(given_rate, ns)
        assert rate.rows_due(ns) == wanted
        assert rows_due(pace, start + ns) == wanted
        assert interpreted(rows_due)(pace, start + ns) == wanted


@given(rates, st.integers(0, 10**9), st.integers(0, 1 << 60))
def test_a_row_is_due_in_the_first_nanosecond_that_counts_it(given_rate, row, start):
    rate = Rate.of(given_rate)
    pace = new_pace(rate, start)
    ns = rate.due(row)
    assert (
        due_time(pace, row) == next_due(pace, row) == (NEVER_DUE if ns == NEVER_DUE else start + ns)
    )
    assert interpreted(due_time)(pace, row) == due_time(pace, row)
    if ns == NEVER_DUE:
        assert naive_rows_due(given_rate, HORIZON) <= row
    else:
        assert naive_rows_due(given_rate, ns) > row >= naive_rows_due(given_rate, ns - 1)


@given(steps, st.integers(1, 16), st.integers(0, DAYS))
def test_channels_share_a_rate(given_rate, channels, ns):
    shares = [(Fraction(str(rate)) / channels, length) for rate, length in given_rate]
    assert Rate.of(given_rate).shared(channels).rows_due(ns) == naive_rows_due(shares, ns)


def test_a_year_at_a_third_of_a_row_per_second_does_not_drift():
    year = 365 * 86_400
    for given_rate in (1 / 3, Fraction(1, 3)):
        assert Rate.of(given_rate).rows_due(year * SECOND) == year // 3
    # Not to be written with small numbers: within a row of what is right, after a year.
    assert abs(Rate.of(123456.78901234567).rows_due(year * SECOND) - 123456.78901234567 * year) < 2


def test_as_fast_as_possible():
    pace = new_pace(Rate.of(None), 7)
    assert rows_due(pace, 7) == rows_due(pace, 0) == NEVER_DUE
    assert due_time(pace, 10**12) == 7


def test_a_pace_can_start_later():
    pace = new_pace(Rate.of(10), 0)
    start_pace(pace, 5 * SECOND)
    assert rows_due(pace, 5 * SECOND) == 0 and rows_due(pace, 6 * SECOND) == 10


@pytest.mark.parametrize(
    ("given_rate", "said"),
    [
        (1000, "1,000/s"),
        (np.int32(5), "5/s"),
        (np.float32(0.5), "0.5/s"),
        (Fraction(1, 4), "0.25/s"),
        ([(10, "1s"), (20, None)], "10/s for 1 s, then 20/s"),
        (((10, dt.timedelta(minutes=1)), (20, duration("1h"))), "10/s for 60 s, then 20/s"),
    ],
)
def test_rates_as_users_write_them(given_rate, said):
    rate = Rate.of(given_rate)
    assert str(rate) == said
    assert Rate.of(rate) is rate and pickle.loads(pickle.dumps(rate)) == rate


@pytest.mark.parametrize(
    ("given_rate", "message"),
    [
        (0, "rate=0: must be above zero"),
        (-1, "rate=-1: must be above zero"),
        (float("nan"), "rate=nan: must be above zero"),
        (float("inf"), "rate=inf: leave it out for full speed"),
        (True, "rate=True: is not a number"),
        ("fast", "rate='fast': is not a number; give rows per second, or steps"),
        (int64, "is not a number"),
        (1e-30, "rate=1e-30: is too slow"),
        ([], "no step has rows"),
        ([(0, "1s")], "no step has rows"),
        ([5, 6], "step 0 is not (rate, duration)"),
        ([(5, "1s", 3)], "step 0 is not (rate, duration)"),
        ([(5, "1s"), (-5, "1s")], "step 1 has a negative rate"),
        ([(5, "1s"), (float("nan"), "1s")], "step 1 has a negative rate"),
        ([(5, 10), (5, "1s")], "step 0 of the rate: 10 is not a duration"),
        ([(5, None), (5, "1s")], "step 0 of the rate: None is not a duration"),
        ([(5, "soon"), (5, "1s")], "step 0 of the rate: 'soon' is not a duration; write"),
        ([(5, "0s"), (5, "1s")], "step 0 of the rate: '0s' is not longer than nothing"),
        ([("x", "1s")], "rate='x': is not a number"),
    ],
)
def test_rates_that_are_none(given_rate, message):
    with pytest.raises(DataError) as raised:
        Rate.of(given_rate)
    assert message in str(raised.value)
