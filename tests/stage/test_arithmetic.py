"""Checked arithmetic in both modes, compared with Python's integers and floats."""

import ctypes
import math
import operator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.stage.both import mode

from headrace.stage.memory import arithmetic as a
from headrace.stage.memory.records import compiled

LOW, HIGH = -(2**63), 2**63 - 1
INTEGERS = st.one_of(
    st.integers(LOW, HIGH), st.integers(-5, 5), st.sampled_from([LOW, LOW + 1, HIGH, HIGH - 1])
)
many = settings(max_examples=300, deadline=None)

# The instructions have no compiled form of their own: a kernel calls them.
add, subtract, multiply = a.add, a.subtract, a.multiply
to_float32, float_bits = a.to_float32, a.float_bits


@compiled
def call_add(x, y):
    return add(x, y)


@compiled
def call_subtract(x, y):
    return subtract(x, y)


@compiled
def call_multiply(x, y):
    return multiply(x, y)


@compiled
def call_to_float32(x):
    return to_float32(x)


@compiled
def call_float_bits(x):
    return float_bits(x)


def outcome(function, *arguments):
    """The value or the class of the exception; NaN and the sign of zero made comparable."""
    try:
        value = function(*arguments)
    except (ArithmeticError, ValueError) as error:
        return type(error)
    return repr(value)


def in_range(function):
    def checked(*arguments):
        value = function(*arguments)
        if not LOW <= value <= HIGH:
            raise OverflowError
        return value

    return checked


INTEGER_FUNCTIONS = [
    (call_add, operator.add),
    (call_subtract, operator.sub),
    (call_multiply, operator.mul),
    (a.floor_divide, operator.floordiv),
    (a.remainder, operator.mod),
]


@mode
@pytest.mark.parametrize(("ours", "python"), INTEGER_FUNCTIONS, ids=lambda f: f.__name__)
@many
@given(x=INTEGERS, y=INTEGERS)
@example(x=LOW, y=-1)
@example(x=LOW, y=0)
def test_integers(mode, ours, python, x, y):
    assert outcome(mode(ours), x, y) == outcome(in_range(python), x, y)


@mode
@many
@given(x=INTEGERS)
@example(x=LOW)
def test_signs(mode, x):
    assert outcome(mode(a.negate), x) == outcome(in_range(operator.neg), x)
    assert outcome(mode(a.absolute), x) == outcome(in_range(abs), x)
    fits = -128 <= x <= 127
    assert outcome(mode(a.narrow), x, -128, 127) == (repr(x) if fits else OverflowError)


@mode
@many
@given(x=st.floats(), y=st.floats())
@example(x=1.0, y=0.0)
@example(x=-0.0, y=5.0)
@example(x=math.inf, y=2.0)
@example(x=1.0, y=-math.inf)
def test_float_division(mode, x, y):
    assert outcome(mode(a.true_divide), x, y) == outcome(operator.truediv, x, y)
    assert outcome(mode(a.float_floor_divide), x, y) == outcome(operator.floordiv, x, y)
    assert outcome(mode(a.float_remainder), x, y) == outcome(operator.mod, x, y)


@mode
@many
@given(x=INTEGERS, y=INTEGERS)
def test_division_of_integers_goes_through_floats(mode, x, y):
    expected = outcome(lambda: float(x) / float(y))
    assert outcome(mode(a.true_divide), x, y) == expected


@mode
@many
@given(x=st.floats())
@example(x=2.0**63)
@example(x=-(2.0**63))
def test_to_integer(mode, x):
    assert outcome(mode(a.float_to_int), x) == outcome(in_range(int), x)


@mode
@many
@given(x=st.floats())
def test_bits_and_rounding(mode, x):
    assert repr(mode(call_to_float32)(x)) == repr(ctypes.c_float(x).value)
    assert mode(call_float_bits)(x) == ctypes.c_int64.from_buffer(ctypes.c_double(x)).value


@mode
@many
@given(x=st.floats(), y=st.floats())
@example(x=0.0, y=-0.0)
@example(x=math.nan, y=math.inf)
@example(x=math.nan, y=-math.nan)
def test_total_order(mode, x, y):
    def key(value):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)

    assert mode(a.float_less)(x, y) == (key(x) < key(y))
    ours = mode(a.float_order)(x), mode(a.float_order)(y)
    assert (ours[0] < ours[1], ours[0] == ours[1]) == (key(x) < key(y), key(x) == key(y))
