"""Whole numbers in compiled functions, against Python's: the same, or an OverflowError."""

import operator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import headrace as hr
from headrace import wrapping
from headrace.plan.types import int64, optional
from headrace.stage.functions.checking import check, compiled_function
from headrace.stage.memory.arithmetic import HIGHEST, LOWEST

pytestmark = pytest.mark.compiled

numbers = st.one_of(
    st.integers(LOWEST, HIGHEST),
    st.integers(-70, 70),
    st.sampled_from([LOWEST, LOWEST + 1, HIGHEST, 1 << 31, 1 << 32, -(1 << 32), 3037000500]),
)


def twice(a, b):
    """Both, one in place: what does not fit in between is an error, too."""
    made = a
    made += b
    return made - b


FUNCTIONS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "up": lambda a, b: a << b,
    "down": lambda a, b: a >> b,
    "square": lambda a, b: a**2 + b * 0,
    "power": lambda a, b: pow(a, 3) + b * 0,
    "negate": lambda a, b: -a + b * 0,
    "absolute": lambda a, b: abs(a) + b * 0,
    "one": lambda a, b: a + 1 - (b & 0),
    "in place": twice,
}


def compiled(function, kind=int64):
    made = check(function, [kind, int64], operator="map", site=None, generator=False)
    return compiled_function(made)


def expected(function, a, b):
    """What Python gives; OverflowError where that is no int64."""
    if function is twice:
        return a if LOWEST <= a + b <= HIGHEST else OverflowError
    try:
        # 1 << HIGHEST is a MemoryError
        made = function(a, min(b, 100) if function is FUNCTIONS["up"] else b)
    except (ValueError, ZeroDivisionError) as error:
        return type(error)
    return made if LOWEST <= made <= HIGHEST else OverflowError


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_result_is_that_of_python_or_an_error(name):
    function = FUNCTIONS[name]
    run = compiled(function)

    @given(a=numbers, b=numbers)
    @example(a=LOWEST, b=-1)
    @example(a=-1, b=63)
    @example(a=1, b=63)
    def agrees(a, b):
        try:
            found = run(a, b)
        except Exception as error:
            found = type(error)
        assert found == expected(function, a, b)

    agrees()


def test_nulls_and_booleans():
    either = compiled(lambda a, b: 0 if a is None else a + b + (a > b), optional(int64))
    assert (either(None, 1), either(2, 1)) == (0, 4)
    with pytest.raises(OverflowError):
        either(HIGHEST, 1)


def caught(a, b):
    try:
        return a * b
    except Exception:
        return -1


def test_it_can_be_caught():
    run = compiled(caught)
    assert (run(6, 7), run(HIGHEST, 2)) == (42, -1)


WRAPPING = {
    wrapping.add: operator.add,
    wrapping.subtract: operator.sub,
    wrapping.multiply: operator.mul,
    wrapping.left_shift: lambda a, b: a << (b & 63),
    wrapping.right_shift: lambda a, b: (a % 2**64) >> (b & 63),
}


@pytest.mark.parametrize("made", WRAPPING, ids=lambda made: made.__name__)
def test_wrapping_keeps_the_low_bits(made):
    run, exact = compiled(lambda a, b: made(a, b)), WRAPPING[made]

    @given(a=numbers, b=numbers)
    def agrees(a, b):
        assert run(a, b) == made.py_func(a, b) == (exact(a, b) - LOWEST) % 2**64 + LOWEST

    agrees()


def test_who_fails_where_python_would_not():
    """Numbers in between may be larger in Python: the error is that of the compiled function."""
    rows = hr.read.memory({"x": [1, 2**62]})
    first = rows.map(lambda x: x + 1, output="y", carry="x", name="first")
    squares = first.map(lambda x: x * x // x, output="z", name="squares")
    last = squares.map(lambda z: z - 1, output="z", name="last").write.collect()
    with pytest.raises(OverflowError, match="does not fit in int64") as found:
        hr.run(last, engine="thread")
    assert "in operator map 'squares'" in "\n".join(found.value.__notes__)
