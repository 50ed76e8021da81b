"""Expressions as users write them."""

import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.expr import (
    Expr,
    col,
    concat,
    count,
    from_millis,
    from_seconds,
    lit,
    max_,
    mean,
    min_,
    sum_,
    udf,
    when,
)
from headrace.plan.errors import PipelineError
from headrace.plan.expression_types import DURATION, type_of
from headrace.plan.expressions import Aggregate, Column, Literal, UnboundCall
from headrace.plan.schema import Schema
from headrace.plan.types import (
    binary,
    bool_,
    date,
    float64,
    int8,
    int64,
    optional,
    string,
    timestamp,
)
from headrace.time import duration, tumbling

A, B = col("a"), col("b")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (A + B, "(a + b)"),
        (1 + A, "(1 + a)"),
        (1 - A, "(1 - a)"),
        (2 * A, "(2 * a)"),
        (1 / A, "(1 / a)"),
        (7 // A, "(7 // a)"),
        (7 % A, "(7 % a)"),
        (-A, "-a"),
        (abs(A), "abs(a)"),
        (round(A), "round(a, 0)"),
        (round(A, 2), "round(a, 2)"),
        (~A, "~a"),
        (A & True, "(a & True)"),
        (False | A, "(False | a)"),
        (A == 1, "(a == 1)"),
        (A != "x", "(a != 'x')"),
        (3 < A, "(a > 3)"),
        (A <= B, "(a <= b)"),
        (A >= 1, "(a >= 1)"),
        (A.is_null(), "is_null(a)"),
        (A.is_not_null(), "~is_null(a)"),
        (A.fill_null(0), "coalesce(a, 0)"),
        (A.between(1, B), "((a >= 1) & (a <= b))"),
        (A.cast(float), "cast(a, float64)"),
        (A.is_in((1, 2)), "a in (1, 2)"),
        (A.is_in({"b", "a"}), "a in ('a', 'b')"),
        (A.is_in([]), "a in ()"),
        (A.length(), "length(a)"),
        (A.starts_with("x"), "starts_with(a, 'x')"),
        (A.ends_with(B), "ends_with(a, b)"),
        (A.contains("x"), "contains(a, 'x')"),
        (A.upper().lower(), "lower(upper(a))"),
        (concat("x", A, B), "concat(concat('x', a), b)"),
        (from_millis(A), "cast((a * 1000), timestamp)"),
        (from_seconds("a"), "cast((a * 1000000), timestamp)"),
        (when(A).then(1), "when(a: 1, else null)"),
        (when(A).then(1).when(B).then(2).otherwise(3), "when(a: 1, b: 2, else 3)"),
        (np.float64(2) * A, "(2.0 * a)"),
        (np.int8(2) == A, "(a == 2)"),
    ],
)
def test_operators(made, said):
    assert isinstance(made, Expr)
    assert str(made.node) == said


@pytest.mark.parametrize(
    ("value", "stored", "kind"),
    [
        (True, True, bool_),
        (np.bool_(True), True, bool_),
        (3, 3, int64),
        (np.uint8(3), 3, int64),
        (-(2**63), -(2**63), int64),
        (1.5, 1.5, float64),
        (np.float32(0.5), 0.5, float64),
        ("é", "é", string),
        (np.str_("a"), "a", string),
        (b"a", b"a", binary),
        (bytearray(b"a"), b"a", binary),
        (dt.date(1969, 12, 31), -1, date),
        (dt.datetime(1970, 1, 1, 0, 0, 1), 1_000_000, timestamp),
        (
            dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
            0,
            timestamp,
        ),
        (np.datetime64("1970-01-01T00:00:00.000000001", "ns"), 0, timestamp),
        (np.datetime64("1970-01-02T00:00:00", "s"), 86_400_000_000, timestamp),
        (dt.timedelta(milliseconds=-5), -5_000, DURATION),
        (np.timedelta64(5, "ms"), 5_000, DURATION),
    ],
)
def test_constants_are_in_stored_form(value, stored, kind):
    made = lit(value).node
    assert made == Literal(stored, kind)
    assert type(made.value) is type(stored)


def test_constants_of_a_given_type():
    assert lit(3, int8).node == Literal(3, int8)
    assert lit(3, float).node == Literal(3.0, float64)
    assert type_of(lit(None, str).node, Schema(())) == optional(string)
    assert lit(0, timestamp).node == Literal(0, timestamp)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, np.uint64(2**64 - 1), "\ud800", object()])
def test_constants_that_do_not_fit(value):
    with pytest.raises(PipelineError):
        lit(value)


@given(st.datetimes(timezones=st.timezones()))
def test_datetimes_keep_their_instant(moment):
    try:
        expected = moment.astimezone(dt.UTC)
    except OverflowError:
        return  # outside what Python's own datetime has in UTC
    micros = lit(moment).node.value
    assert dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros) == expected


def test_expressions_are_immutable_and_hashable():
    with pytest.raises(AttributeError):
        A.node = B.node
    assert len({A, B, A}) == 2


def test_numpy_arrays_are_refused_on_either_side():
    for make in (lambda: np.arange(3) + A, lambda: A == np.arange(3)):
        with pytest.raises(PipelineError, match=r"numpy\.ndarray"):
            make()


def test_aggregates():
    assert count().node == Aggregate("count")
    assert count("a").node == Aggregate("count", Column("a"))
    made = [f(A * 2).node for f in (sum_, mean, min_, max_)]
    assert [str(m) for m in made] == [f"{k}((a * 2))" for k in ("sum", "mean", "min", "max")]


def test_udf_is_still_the_function():
    @udf
    def clip(x, top=10):
        """No more than top."""
        return min(x, top)

    assert clip(30) == 10
    assert clip(30, top=20) == 20
    assert (clip.__name__, clip.__doc__) == ("clip", "No more than top.")


def test_udf_of_expressions():
    @udf(returns=float)
    def scaled(x, factor, shift=0):
        return x * factor + shift

    node = scaled(A, factor=np.int64(3)).node
    assert isinstance(node, UnboundCall)
    assert (node.name, node.returns) == ("scaled", float64)
    assert node.operands == (Column("a"), Literal(3, int64))
    assert scaled(shift=B, x=1, factor=2).node.operands[2] == Column("b")
    assert node.site.text == "node = scaled(A, factor=np.int64(3)).node"
    assert udf(scaled).function is scaled.function


def test_udf_fills_defaults_that_are_left_out_in_the_middle():
    @udf
    def mixed(x, y=5, z=6):
        return x + y + z

    assert mixed(A).node.operands == (Column("a"),)
    assert [str(o) for o in mixed(A, z=B).node.operands] == ["a", "5", "b"]


@pytest.mark.parametrize(
    ("given", "micros"),
    [
        ("7us", 7),
        ("500ms", 500_000),
        ("10s", 10_000_000),
        ("5 min", 300_000_000),
        ("5m", 300_000_000),
        ("1.5h", 5_400_000_000),
        (" 1 d ", 86_400_000_000),
        ("-1s", -1_000_000),
        (dt.timedelta(hours=1), 3_600_000_000),
        (12, 12),
    ],
)
def test_durations(given, micros):
    assert duration(given) == micros


@pytest.mark.parametrize("given", ["", "s", "10", "10 parsecs", "1e3s", None, 1.5, True, "1 s s"])
def test_what_is_no_duration(given):
    with pytest.raises(PipelineError, match="is not a duration"):
        duration(given)


def test_windows_keep_what_was_given():
    assert repr(tumbling("10s", offset="1s")) == "tumbling('10s', offset='1s')"
    assert tumbling(5).given["size"] == 5
    assert tumbling("10s") == tumbling("10s")
    with pytest.raises(AttributeError):
        tumbling(5).said = "other"
