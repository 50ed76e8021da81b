"""A predicate may rule out rows, never one that the filter would keep."""

import datetime as dt
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.pushdown import Range, mask, may_match, usable
from headrace.plan.expressions import Binary, Column, IsIn, IsNull, Literal, Unary
from headrace.plan.literals import to_literal
from headrace.plan.schema import Schema
from headrace.plan.types import optional

SCHEMA = Schema.of(
    {"i": optional(int), "f": optional(float), "s": optional(str), "t": optional("timestamp")}
)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
SMALL = {
    "i": st.integers(-3, 3),
    "f": st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1.0, math.nan, math.inf]),
    "s": st.sampled_from(["", "a", "ab", "b", "é"]),
    "t": st.integers(-2, 2).map(lambda n: EPOCH + dt.timedelta(microseconds=n)),
}
OPERATIONS = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@st.composite
def conditions(draw, depth=2):
    name = draw(st.sampled_from(list(SMALL)))
    kind = draw(st.sampled_from(["compare", "compare", "in", "null", "columns", "&", "|", "~"]))
    if depth and kind in ("&", "|"):
        return Binary(kind, draw(conditions(depth - 1)), draw(conditions(depth - 1)))
    if depth and kind == "~":
        return Unary("~", draw(conditions(depth - 1)))
    if kind == "null":
        return IsNull(Column(name))
    if kind == "columns":
        return Binary("<", Column("i"), Column("f"))
    if kind == "in":
        return IsIn(Column(name), tuple(to_literal(draw(SMALL[name])) for _ in range(2)))
    sides = [Column(name), to_literal(draw(SMALL[name]))]
    if draw(st.booleans()):
        sides.reverse()
    return Binary(draw(st.sampled_from(list(OPERATIONS))), *sides)


def truth(expression, row):
    """Three-valued, the slow and obvious way."""
    match expression:
        case Column(name):
            return row[name]
        case Literal(value, _):
            return value
        case IsNull(operand):
            return truth(operand, row) is None
        case Unary("~", operand):
            found = truth(operand, row)
            return None if found is None else not found
        case IsIn(operand, choices):
            found = truth(operand, row)
            return None if found is None else any(found == c.value for c in choices)
        case Binary("&", left, right):
            both = [truth(left, row), truth(right, row)]
            return False if False in both else None if None in both else True
        case Binary("|", left, right):
            both = [truth(left, row), truth(right, row)]
            return True if True in both else None if None in both else False
        case Binary(op, left, right):
            both = [truth(left, row), truth(right, row)]
            return None if None in both else OPERATIONS[op](*both)


def micros(row):
    return {**row, "t": None if row["t"] is None else (row["t"] - EPOCH) // dt.timedelta(0, 0, 1)}


def ranges_of(rows):
    """As a Parquet footer would have it: bounds without nulls and NaN."""
    found = {}
    for name in SMALL:
        there = [row[name] for row in rows if row[name] is not None]
        plain = [value for value in there if value == value]
        low, high = (min(plain), max(plain)) if plain else (None, None)
        found[name] = Range(low, high, len(rows) - len(there))
    return found


ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in SMALL.items()}), max_size=6
)


@given(conditions(), ROWS)
def test_no_row_is_lost(condition, rows):
    kept = usable(condition, SCHEMA)
    if kept is None:
        return
    stored = [micros(row) for row in rows]
    wanted = [truth(condition, row) is True for row in stored]
    allowed = [truth(kept, row) is True for row in stored]
    assert all(b for a, b in zip(wanted, allowed) if a), "the usable part is weaker"
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA.to_arrow())
    assert [value is True for value in mask(kept, batch).to_pylist()] == allowed
    if any(allowed):
        assert may_match(kept, ranges_of(stored))
        assert may_match(kept, {}), "what is not known may match"


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (Binary("==", Column("i"), to_literal(1)), "(i == 1)"),
        (Binary(">", to_literal(1), Column("i")), "(i < 1)"),
        (Binary("==", Column("f"), to_literal(1)), "(f == 1)"),
        (Binary("==", Column("f"), to_literal(2**60)), None),
        (Binary("==", Column("i"), to_literal(0.5)), None),
        (Binary("==", Column("f"), to_literal(math.nan)), None),
        (Binary("==", Column("i"), Literal(None, to_literal(1).type)), None),
        (Unary("~", Binary("==", Column("i"), to_literal(1))), None),
        (Unary("~", IsNull(Column("i"))), "~is_null(i)"),
        (None, None),
    ],
)
def test_what_is_usable(predicate, expected):
    found = usable(predicate, SCHEMA)
    assert (None if found is None else str(found)) == expected


def test_nothing_is_used_of_what_can_fail():
    safe = Binary("!=", Column("i"), to_literal(0))
    fails = Binary(">", Binary("/", to_literal(1), Column("i")), to_literal(0.5))
    assert usable(safe, SCHEMA) is not None
    assert usable(Binary("&", safe, fails), SCHEMA) is None


def test_statistics_rule_out():
    known = {"i": Range(5, 9, nulls=0)}
    for op, value, expected in [
        *(("==", 4, False), ("==", 5, True), ("<", 5, False), ("<=", 5, True)),
        *((">", 9, False), (">=", 9, True), ("!=", 5, True)),
    ]:
        assert may_match(Binary(op, Column("i"), to_literal(value)), known) is expected
    assert not may_match(IsNull(Column("i")), known)
    assert not may_match(IsIn(Column("i"), (to_literal(1), to_literal(10))), known)
