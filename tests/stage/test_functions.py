"""User functions: what is accepted, what is refused and how, and what never comes from a cache."""

import enum
import functools
import inspect
import math
import operator
import os
import shutil
import subprocess
import sys
import textwrap
import types
import warnings
from collections import namedtuple
from pathlib import Path
from typing import NamedTuple

import numba
import numba.extending
import numpy as np
import pytest
from numba.core.errors import NumbaPerformanceWarning

import headrace
from headrace.plan.errors import PipelineError
from headrace.plan.functions import StateSpec
from headrace.plan.schema import Field
from headrace.plan.site import Site
from headrace.plan.types import (
    binary,
    bool_,
    date,
    float32,
    float64,
    int8,
    int32,
    int64,
    optional,
    string,
    timestamp,
)
from headrace.stage import cache
from headrace.stage.functions import checking
from headrace.stage.functions.checking import check, compiled_function
from headrace.stage.functions.fingerprint import fingerprint
from headrace.stage.functions.state import state_record

pytestmark = pytest.mark.compiled

SITE = Site("pipeline.py", 7, "stream.map(f)")
plain_function = operator.attrgetter("callable")
SOURCES = str(Path(headrace.__path__[0]).parent)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Facts of other runs would hide what is tested here."""
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))


def checked(function, *inputs, **options):
    plain = getattr(function, "py_func", function)
    yields = bool(getattr(plain, "__code__", check.__code__).co_flags & inspect.CO_GENERATOR)
    options.setdefault("generator", yields)
    return check(function, inputs, operator="map", site=SITE, **options)


def refused(function, *inputs, **options):
    with pytest.raises(PipelineError) as caught:
        checked(function, *inputs, **options)
    assert len(str(caught.value).splitlines()) <= 3
    return caught.value


def both(function, *arguments):
    """The result in both modes, which must agree."""
    plain = function.callable(*arguments)
    compiled = compiled_function(function)(*arguments)
    if function.is_generator:
        plain, compiled = list(plain), list(compiled)
    assert compiled == plain
    return plain


# ---- accepted ------------------------------------------------------------------------------

LIMIT = 3
WEIGHTS = np.array([1.5, 2.5, 3.5])


class Point(NamedTuple):
    x: int
    y: float


class Colour(enum.IntEnum):
    RED = 1
    BLUE = 2


ORIGIN = Point(3, 0.5)


def double(x):
    return 2 * x


def quadruple(x):
    return double(double(x))


def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


def is_even(n):
    if n == 0:
        return True
    return is_odd(n - 1)


def is_odd(n):
    if n == 0:
        return False
    return is_even(n - 1)


def helper_rows(n):
    for i in range(n):
        yield i * LIMIT


def spread(x):
    for value in helper_rows(x):
        yield value, value / 2


def with_default(x, factor=3):
    return x * factor


def loops(x):
    total = 0
    for i, value in enumerate([x, x + 1]):
        total += i * value
    else:
        total += 1
    while total > 100:
        total -= 7
    return total


def safe(x):
    try:
        return 10 // x
    except Exception:
        return -1


def dicts(x):
    counts = {}
    for k in range(x):
        counts[k % 3] = k
    total = 0
    for key in counts:
        total += counts[key]
    return total


def sets(x):
    for k in {1, 2, 3}:
        yield k + x


@pytest.mark.parametrize(
    ("function", "arguments", "result"),
    [
        (lambda x: x + 1, (4,), 5),
        (lambda x: (x, x / 2, x > 1), (4,), (4, 2.0, True)),
        (lambda x: x + LIMIT, (4,), 7),
        (lambda x: WEIGHTS[x] * 2, (1,), 5.0),
        (lambda x: quadruple(x), (4,), 16),
        (lambda x: factorial(x), (5,), 120),
        (lambda x: is_even(x), (7,), False),
        (lambda x: x + ORIGIN.x + ORIGIN[1], (4,), 7.5),
        (lambda x: x == Colour.BLUE, (2,), True),
        (lambda x: math.sqrt(x) + math.pi - np.pi, (4,), 2.0),
        (lambda x: x in (1, 2, 3), (2,), True),
        (lambda x: max([k * x for k in range(4)]), (2,), 6),
        (with_default, (4,), 12),
        (loops, (4,), 6),
        (safe, (0,), -1),
        (dicts, (7,), 15),
        (spread, (3,), [(0, 0.0), (3, 1.5), (6, 3.0)]),
        (sets, (1,), [2, 3, 4]),
    ],
)
def test_accepted(function, arguments, result):
    assert both(checked(function, int64), *arguments) == result


def test_a_function_that_the_user_compiled():
    @numba.njit(error_model="numpy")
    def inner(x):
        return 10 // x

    function = checked(numba.njit(lambda x: inner(x)), int64)
    assert both(function, 3) == 3
    with pytest.raises(ZeroDivisionError):  # compiled our way, not as the user's options say
        compiled_function(function)(0)


def test_division_by_zero_and_wrong_indices_are_errors():
    for function, error in (
        (lambda x: 1 // x, ZeroDivisionError),
        (lambda x: 1.0 / x, ZeroDivisionError),
        (lambda x: WEIGHTS[x + 17], IndexError),
    ):
        for mode in (plain_function, compiled_function):
            with pytest.raises(error):
                mode(checked(function, int64))(0)


def test_closures_over_numbers_arrays_and_functions():
    offset, table = 10, np.arange(5)

    def inner(x):
        return table[x] + offset

    assert both(checked(lambda x: inner(x) * offset, int64), 3) == 130


def test_two_lambdas_on_one_line():
    first, second = (checked(f, int64) for f in (lambda x: x + 1, lambda x: x + 2))
    assert (both(first, 1), both(second, 1)) == (2, 3)
    assert first.fingerprint != second.fingerprint


def test_functions_without_source():
    names = {}
    exec("k = 5\ndef typed_in(x):\n    yield x\n    if x > 3: yield x * k", names)
    assert both(checked(names["typed_in"], int64), 4) == [4, 20]
    error = refused(eval("lambda x: x.nothing"), int64)
    assert "<string>:1" in str(error) and "no attribute 'nothing'" in str(error)


def test_the_function_as_the_plan_sees_it():
    function = checked(with_default, int8)
    assert function.name == "with_default"
    assert function.parameters == ("x",)
    assert function.inputs == (int8,)
    assert function.site.file == "test_functions.py"
    assert checked(with_default, int64, int64).parameters == ("x", "factor")
    assert checked(lambda x: x, int64).name == "lambda"
    assert checked(lambda x: x + 1, int64) == checked(lambda x: x + 1, int64)


def test_the_same_machine_code_for_equal_functions():
    first, second = checked(lambda x: x + 1, int64), checked(lambda x: x + 1, int64)
    assert compiled_function(first) is compiled_function(second)


# ---- types ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "inputs", "outputs"),
    [
        (lambda x: x, [bool_], [bool_]),
        (lambda x: x, [int8], [int64]),
        (lambda x: x, [float32], [float64]),
        (lambda x: x, [date], [int64]),
        (lambda x: x, [timestamp], [int64]),
        (lambda x: x, [optional(int32)], [optional(int64)]),
        (lambda x: x if x > 0 else None, [int64], [optional(int64)]),
        (lambda x: 1, [int64], [int64]),
        (lambda x: 1 if x else 2.5, [int64], [float64]),
        (lambda x: (1, 2.5) if x else (x, x), [int64], [int64, float64]),
        (lambda x: (x, None) if x > 1 else (x, 2), [int64], [int64, optional(int64)]),
        (lambda x: np.int8(x), [int64], [int64]),
        (lambda x: np.float32(x), [int64], [float64]),
        (lambda x: Point(x, 0.5), [int64], [int64, float64]),
        (lambda x: "a", [int64], [string]),
        (lambda x: b"a", [int64], [binary]),
        (lambda s: s, [string], [string]),
        (lambda s: s, [binary], [binary]),
        (lambda s: s, [optional(string)], [optional(string)]),
        (lambda s: (len(s), s == "view", s + "!"), [string], [int64, bool_, string]),
        (lambda s: None if s is None else s.upper(), [optional(string)], [optional(string)]),
        (lambda s: s if s == "a" else "b", [string], [string]),
    ],
)
def test_inferred_outputs(function, inputs, outputs):
    assert checked(function, *inputs).outputs == tuple(outputs)


def test_generators_of_strings():
    def words(line):
        for word in line.split():
            yield word, len(word)

    assert checked(words, string).outputs == (string, int64)


@pytest.mark.parametrize(
    ("function", "declared"),
    [
        (lambda x: x, int8),
        (lambda x: x, timestamp),
        (lambda x: x, date),
        (lambda x: x, float32),
        (lambda x: x / 2, float32),
        (lambda x: x, optional(int64)),
        (lambda x: x > 1, bool_),
        (lambda x: "a", optional(string)),
        (lambda x: x if x > 1 else None, optional(int8)),
    ],
)
def test_declared_types_that_fit(function, declared):
    assert checked(function, int64, declared=[declared]).outputs == (declared,)


def test_a_column_that_is_always_none_needs_a_declaration():
    assert "only None for result 2" in str(refused(lambda x: (x, None), int64))
    found = checked(lambda x: (x, None), int64, declared=[int64, optional(string)])
    assert found.outputs == (int64, optional(string))


@pytest.mark.parametrize(
    ("function", "declared", "message"),
    [
        (lambda x: x / 2, [int64], "gives float64 for column 'a', which is declared int64"),
        (lambda x: x > 1, [int64], "gives bool for column 'a', which is declared int64"),
        (lambda x: x, [string], "gives int64 for column 'a', which is declared string"),
        (lambda x: x if x else None, [int64], "may give None for column 'a'"),
        (lambda x: (x, x), [int64], "gives 2 values for 1 columns"),
    ],
)
def test_declared_types_that_do_not_fit(function, declared, message):
    assert message in str(refused(function, int64, declared=declared, names=["a"]))


def test_names_and_results_must_be_as_many():
    assert "gives 1 value for 2 columns" in str(refused(lambda x: x, int64, names=["a", "b"]))
    assert "gives 1 value for 2 declared types" in str(
        refused(lambda x: x, int64, declared=[int64, int64])
    )
    assert checked(lambda x: (x, x), int64, names=["a", "b"]).outputs == (int64, int64)


# ---- state ---------------------------------------------------------------------------------

TOTALS = StateSpec((Field("n", int64), Field("best", optional(float32))), (0, None))


def running(state, x):
    state.n += 1
    if state.best is None or x > state.best:
        state.best = x
        yield state.n, state.best


def test_state_in_both_lives():
    function = checked(running, float64, state=TOTALS)
    assert function.outputs == (int64, optional(float64))
    assert function.parameters == ("x",)
    for mode in (plain_function, compiled_function):
        state, rows = state_record(TOTALS).allocate(), []
        for x in (1.5, 0.5, 2.5):
            rows += mode(function)(state, x)
        assert rows == [(1, 1.5), (3, 2.5)]


def test_a_state_of_every_type():
    kinds = [bool_, int8, int32, int64, float32, float64, date, timestamp, string, binary]
    fields = [Field(f"a{i}", kind) for i, kind in enumerate(kinds)]
    fields += [Field(f"b{i}", optional(kind)) for i, kind in enumerate(kinds)]
    made = state_record(StateSpec(tuple(fields), (None,) * len(fields)))
    assert list(made.fields) == ["heap", *(field.name for field in fields)]


def test_strings_in_a_state():
    spec = StateSpec((Field("last", string), Field("n", int64)), ("", 0))

    def changed(state, s):
        if state.last != s:
            yield state.last, state.n
            state.last = s
        state.n += 1

    assert checked(changed, string, state=spec).outputs == (string, int64)


def test_mistakes_with_a_state():
    def wrong_field(state, x):
        state.m += 1
        yield x

    def wrong_type(state, x):
        state.n = x / 2
        yield x

    def nothing():
        yield 1

    error = refused(wrong_field, int64, state=TOTALS)
    assert "the state has no field 'm'" in str(error) and "state.m += 1" in str(error)
    error = refused(wrong_type, int64, state=TOTALS)
    assert "cannot assign float64 to the state's field 'n'" in str(error)
    assert "state.n = x / 2" in str(error)
    assert "take the state as first parameter" in str(refused(nothing, state=TOTALS))
    hidden = StateSpec((Field("_n", int64),), (0,))
    assert "field '_n'" in str(refused(running, float64, state=hidden))
    heap = StateSpec((Field("heap", int64), Field("s", string)), (0, ""))
    assert "field 'heap'" in str(refused(running, float64, state=heap))


# ---- refused -------------------------------------------------------------------------------

THINGS, NAMES, TAGS = {1: 2}, [1, 2], {1, 2}
HUGE = -(2**63) - 1
OBJECTS = np.array([None, "a"])
TOTAL = 0
config = types.SimpleNamespace(limit=3)
cached = functools.lru_cache(double)


class Plain:
    field = 1

    def method(self, x):
        return x

    def __call__(self, x):
        return x


def assigns(x):
    global TOTAL
    TOTAL = x
    return x


def make_counter():
    count = 0

    def counter(x):
        nonlocal count
        count += x
        return count

    return counter


def make_early():
    def early(x):
        return x + later

    error = refused(early, int64)
    later = 1
    return error, later


def prints(x):
    print(x)
    return x


def calls_printer(x):
    return prints(x) + 1


def imports(x):
    import math

    return math.sqrt(x)


def defines(x):
    class Inner:
        pass

    return x


def opens(x):
    with open("file") as file:
        return len(file.read()) + x


def delegates(x):
    yield from range(x)


def inner_generator(x):
    def rows():
        yield x

    total = 0
    for value in rows():
        total += value
    return total


def catches(x):
    try:
        return 1 // x
    except ZeroDivisionError:
        return 0


def indexes_in_try(x):
    try:
        return (x, 1)[x]
    except ValueError:
        return 0


def calls_in_try(x):
    try:
        return divides_in_try(x)
    except ValueError:
        return 0


def divides_in_try(x):
    try:
        return 1 // x
    except ValueError:
        return 0


def two_types(x):
    if x > 1:
        return "a"
    return 1


def yields_two_types(x):
    yield x
    yield "a"


def never_yields(x):
    if False:
        yield x


def changes_array(x):
    WEIGHTS[0] = x
    return x


def calls_broken(x):
    return broken(x) + 1


def broken(x):
    return x.missing


async def coroutine(x):
    return x


REFUSED = [
    (lambda x: x + "a", "there is no int64 + 'a'", 'x + "a"', "map_batches"),
    (lambda x: x.upper(), "an int64 has no attribute 'upper'", "x.upper()", "map_batches"),
    (lambda x: THINGS[x], "uses 'THINGS', a dict", "THINGS[x]", "join with a table"),
    (lambda x: NAMES[x], "uses 'NAMES', a list", "NAMES[x]", "tuple or a NumPy array"),
    (lambda x: x in TAGS, "uses 'TAGS', a set", "x in TAGS", "tuple"),
    (lambda x: len(OBJECTS) + x, "an array of Python objects", "OBJECTS", "array of numbers"),
    (lambda x: x + config.limit, "object of class SimpleNamespace", "config", "numbers"),
    (lambda x: Plain.field + x, "uses 'Plain', a class", "Plain.field", "NamedTuple"),
    (lambda x: cached(x), "object of class _lru_cache_wrapper", "cached(x)", "map_batches"),
    (lambda x: missing(x), "'missing', which is not defined", "missing(x)", "define it"),  # noqa: F821
    (lambda x: pytest.importorskip(x), "calls importorskip(), which", "", "map_batches"),
    (lambda x: shutil.copy(x, x), "Numba does not know shutil.copy", "shutil", "map_batches"),
    (lambda x: f"{x!s}", "uses `!` or `=` in an f-string", "{x!s}", "{str(x)}"),
    (lambda x: sum(i for i in range(x)), "generator expression", "sum(", "comprehension"),
    (lambda x: x + 2**64, "which does not fit in int64", "2**64", "map_batches"),
    (lambda x: x & 0xFFFFFFFFFFFFFFFF, "does not fit in int64", "0xFFFF", "map_batches"),
    (lambda x: x in (1, 2**63), "does not fit in int64", "2**63", "map_batches"),
    (lambda x: x + HUGE, "uses 'HUGE', a number that does not fit in int64", "HUGE", "map_batches"),
    (lambda x: x[0], "there is no int64[0]", "x[0]", "map_batches"),
    (lambda x: {"a": x}, "returns a dict", '{"a": x}', "tuple"),
    (lambda x: [x, x], "returns a list", "[x, x]", "flat_map"),
    (lambda x: WEIGHTS, "returns a list, set or array", "WEIGHTS", "flat_map"),
    (lambda x: (x, (x, x)), "a tuple inside a tuple", "(x, (x, x))", "flat tuple"),
    (lambda x: x * 1j, "a complex number", "1j", "real and imaginary"),
    (lambda x: np.uint64(x), "an unsigned 64-bit number", "uint64", "np.int64"),
    (lambda x: None, "returns nothing", "None", "on every path"),
    (lambda x: (x, x) if x > 1 else None, "a tuple and sometimes None", "None", "flat_map"),
    (lambda x: (), "an empty tuple", "()", "at least one"),
    (lambda x: (x,), "a tuple of one value", "(x,)", "the value itself"),
    (lambda *x: 1, "takes * or ** arguments", "*x", "name each parameter"),
    (lambda x, **y: 1, "takes * or ** arguments", "**y", "name each parameter"),
    (lambda x, *, y: 1, "keyword-only", "*, y", "remove the *"),
    (lambda: 1, "takes 0 arguments and is given 1", "lambda: 1", "none"),
    (lambda x, y, z=1: 1, "takes 2 to 3 arguments and is given 1", "z=1", "x, y, z"),
    (lambda x, y=[1]: x, "the default of 'y', a list", "y=[1]", "tuple"),
    (assigns, "assigns to the global 'TOTAL'", "TOTAL = x", "state of process"),
    (make_counter(), "assigns to 'count' of an enclosing function", "count += x", "return"),
    (prints, "prints", "print(x)", "console"),
    (calls_printer, "calls prints(), which prints", "print(x)", "console"),
    (imports, "imports 'math' inside", "import math", "top of the module"),
    (defines, "defines a class", "class Inner", "outside"),
    (opens, "opens a file", 'open("file")', "source"),
    (delegates, "uses `yield from`", "yield from", "loop"),
    (inner_generator, "defines the generator rows() inside", "def rows", "outside"),
    (catches, "catches ZeroDivisionError", "except ZeroDivisionError", "`except ValueError`"),
    (indexes_in_try, "catches ValueError where an index may raise", "(x, 1)[x]", "in the try"),
    (calls_in_try, "catches ValueError where 'divides_in_try' may raise", "divides", "in the try"),
    (divides_in_try, "catches ValueError where `//` may raise", "1 // x", "in the try"),
    (two_types, "it returns different types", "return ", "map_batches"),
    (yields_two_types, "it yields different types", "yield ", "map_batches"),
    (never_yields, "it never yields", "def never_yields", "map_batches"),
    (changes_array, "arrays from outside are constants", "WEIGHTS[0] = x", "map_batches"),
    (calls_broken, "has no attribute 'missing'", "return x.missing", "map_batches"),
    (coroutine, "is async", "async def", "plain function"),
    (Plain().method, "is a method", "stream.map(f)", "outside the class"),
    (Plain(), "is an object that can be called", "stream.map(f)", "write a function"),
    (Plain, "is a class", "stream.map(f)", "write a function"),
    (functools.partial(double), "is a functools.partial", "stream.map(f)", "lambda"),
    (math.sqrt, "is not written in Python", "stream.map(f)", "lambda x: sqrt(x)"),
    (5, "is not a function", "stream.map(f)", "give a function"),
]


@pytest.mark.parametrize(("function", "what", "line", "fix"), REFUSED)
def test_refused(function, what, line, fix):
    error = refused(function, int64)
    assert what in error.what
    assert line in error.site.text
    assert fix in error.fix
    assert error.operator == "map"


def test_generators_and_plain_functions_are_not_mixed_up():
    error = refused(double, int64, generator=True)
    assert "double() does not yield" in str(error) and "use map" in str(error)
    error = refused(spread, int64, generator=False)
    assert "spread() yields" in str(error) and "use flat_map" in str(error)


def test_a_variable_without_a_value():
    error, _ = make_early()
    assert "uses 'later', which has no value yet" in str(error)


def keys_of_a_dict(x):
    counts = {1: 2}
    for key in counts:
        yield key + x


def items_of_a_dict(x):
    counts = {1: 2}
    for index, pair in enumerate(counts.items()):
        yield index + pair[0] + x


def values_of_a_dict(x):
    counts = {1: 2}
    for first, second in zip(counts.values(), range(x)):
        yield first + second


def all_of_an_array(x):
    for cell in np.nditer(WEIGHTS):
        yield cell.item() + x


def helper_with_a_dict(x):
    return sum([value for value in keys_of_a_dict(x) if value])


@pytest.mark.parametrize(
    "function",
    [keys_of_a_dict, items_of_a_dict, values_of_a_dict, all_of_an_array, helper_with_a_dict],
)
def test_a_yield_inside_a_loop_over_a_dict_would_crash(function):
    error = refused(function, int64)
    assert "yields inside a loop over a dict or an nditer" in str(error)
    assert error.site.text.startswith("for ")


def maybe_unassigned(x):
    if x > 3:
        y = 1
    return y


def calls_maybe_unassigned(x):
    return maybe_unassigned(x) + 1


def unassigned_without_rows(x):
    for k in range(x):
        last = k
    return last


@pytest.mark.parametrize(
    ("function", "what", "line"),
    [
        (maybe_unassigned, "uses 'y', which may have no value there", "return y"),
        (calls_maybe_unassigned, "uses 'y', which may have no value there", "return y"),
        (unassigned_without_rows, "uses 'last', which may have no value", "return last"),
        (lambda x: x**-1, "a power that may be negative", "x**-1"),
        (lambda x: 2**x, "a power that may be negative", "2**x"),
        (lambda x: pow(2, x), "a power that may be negative", "pow(2, x)"),
        (lambda x: ~(x > 1), "uses ~ on a bool", "~(x > 1)"),
    ],
)
def test_what_numba_would_get_wrong_without_a_word(function, what, line):
    error = refused(function, int64)
    assert what in error.what
    assert line in error.site.text


def test_no_false_alarm():
    def assigned(x):
        if x < 0:
            raise ValueError("negative")
        elif x == 0:
            y = 1
        else:
            y = 2
        for k in range(4):
            z = k + y
            if z == 3:
                found = z
                break
        else:
            found = -1
        try:
            r = 1 // x
        except Exception:
            r = 3
        while True:
            q = y + 1
            if q > 3:
                break
            y += 1
        return y + found + r + q + x**2 + len(f"{x}{x > 1}")

    function = checked(assigned, int64)
    assert [both(function, x) for x in (0, 1, 7)]


@pytest.mark.parametrize("function", [lambda x: int(x), lambda x: round(x)])
def test_floats_that_are_no_integer_are_errors(function):
    function = checked(function, float64)
    for x in (2.5, -2.5, 3.7, -0.1):
        both(function, x)
    for x in (float("nan"), float("inf")):
        for mode in (plain_function, compiled_function):
            with pytest.raises((ValueError, OverflowError)):
                mode(function)(x)
    with pytest.raises(OverflowError):
        compiled_function(function)(1e30)
    assert both(checked(lambda x: (int(x), round(x, 1), round(x)), float64), 2.25) == (2, 2.2, 2)
    assert both(checked(lambda x: (int(x), round(x), int(x > 1)), int64), 7) == (7, 7, 1)
    assert checked(lambda s: int(s), string).outputs == (int64,)
    assert both(checked(lambda x: int(x) if isinstance(x, int) else 0, int64), 7) == 7


def test_a_dict_may_be_iterated_where_nothing_is_yielded():
    def total(x):
        counts, result = {1: x, 3: 4}, 0
        for key in counts:
            result += key
        yield result
        for key in list(counts.keys()):
            yield counts[key]

    assert both(checked(total, int64), 2) == [4, 2, 4]


@numba.extending.overload_method(numba.types.Integer, "warning")
def _warning(x):
    warnings.warn("slow", NumbaPerformanceWarning, stacklevel=1)
    return lambda x: x


def test_numba_warnings_stay_inside():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        numba.njit(lambda x: x.warning() + 1)(1)
        assert seen
        seen.clear()
        checked(lambda x: x.warning() + 2, int64)
        assert not seen


# ---- frozen --------------------------------------------------------------------------------


def test_what_changes_later_changes_nothing(monkeypatch):
    table, factor = np.arange(3), 2

    def scaled(x):
        return table[x] * factor + WEIGHTS[0] + LIMIT + double(x)

    function = checked(scaled, int64)
    expected = scaled(1)
    table[1] = factor = 100
    monkeypatch.setitem(globals(), "LIMIT", 100)
    monkeypatch.setitem(globals(), "double", lambda x: 100)
    monkeypatch.setattr(WEIGHTS, "flat", 0)
    try:
        assert scaled(1) != expected
        assert both(function, 1) == expected
    finally:
        WEIGHTS[:] = 1.5, 2.5, 3.5


def test_user_modules_are_frozen_too():
    settings = types.ModuleType("settings_of_a_user")
    settings.LIMIT, settings.unrelated = 3, object()
    settings.inner = types.ModuleType("settings_of_a_user.inner")
    settings.inner.table = np.arange(4)
    settings.inner.settings = settings  # a cycle
    settings.scale = lambda x: x * settings.LIMIT

    def limited(x):
        return settings.scale(x) + settings.inner.table[1] + settings.LIMIT

    function, before = checked(limited, int64), fingerprint(limited)
    assert both(function, 2) == 10
    assert function.fingerprint == before
    settings.unrelated = 5
    assert fingerprint(limited) == before
    settings.inner.table[1] = 50
    changed = fingerprint(limited)
    settings.LIMIT = 4
    assert len({before, changed, fingerprint(limited)}) == 3
    assert both(function, 2) == 10


# ---- fingerprints --------------------------------------------------------------------------


def with_cell(value):
    return lambda x: (x, value)


def with_global(value):
    return types.FunctionType((lambda x: (x, given)).__code__, {"given": value})  # noqa: F821


def with_default_value(value):
    def function(x, given=value):
        return x, given

    return function


def with_keyword_value(value):
    def function(x, *, given=value):
        return x, given

    return function


Pair = namedtuple("Pair", "a b")
OtherPair = namedtuple("Pair", "a c")
OtherPair.__qualname__ = "Pair"

VALUES = [
    1,
    1.0,
    True,
    2,
    "1",
    b"1",
    None,
    0.0,
    -0.0,
    float("nan"),
    1j,
    (1, 2),
    (1, 2.0),
    ((1,), 2),
    Pair(1, 2),
    OtherPair(1, 2),
    Pair,
    Colour.RED,
    Colour.BLUE,
    np.int32(1),
    np.int64(1),
    np.arange(3),
    np.arange(3.0),
    np.arange(4),
    np.arange(4).reshape(2, 2),
    np.array([0, 1, 3]),
    np.dtype("i4"),
    math,
    np,
    math.sqrt,
    math.sin,
    np.sqrt,
    np.mean,
    int,
    float,
    ValueError,
    double,
    quadruple,
    lambda x: x + 1,
    lambda x: x + 2,
    lambda x: [k + 1 for k in range(x)],
    lambda x: [k + 2 for k in range(x)],
    lambda x: x in {"a", "b"},
    lambda x: x in {"a", "c"},
    lambda y: y + 1,
]


@pytest.mark.parametrize("holder", [with_cell, with_global, with_default_value, with_keyword_value])
def test_fingerprints_tell_values_apart(holder):
    assert len({fingerprint(holder(value)) for value in VALUES}) == len(VALUES)
    assert [fingerprint(holder(v)) for v in VALUES] == [fingerprint(holder(v)) for v in VALUES]


def test_fingerprints_see_through_helpers():
    def made(constant):
        def inner(x):
            return x + constant

        def middle(x):
            return inner(x)

        return lambda x: middle(x)

    assert fingerprint(made(1)) == fingerprint(made(1)) != fingerprint(made(2))
    assert fingerprint(factorial) == fingerprint(factorial)
    assert fingerprint(is_even) != fingerprint(is_odd)
    assert fingerprint(numba.njit(double)) == fingerprint(double)


def test_fingerprints_see_exception_handlers():
    def all_inside(x):
        try:
            x = 1 // x
            x = 2 // x
        except Exception:
            x = 0
        return x

    def one_inside(x):
        x = 1 // x
        try:
            x = 2 // x
        except Exception:
            x = 0
        return x

    assert fingerprint(all_inside) != fingerprint(one_inside)


def test_fingerprints_do_not_depend_on_place_or_name():
    sources = ("def f(x):\n    return x + 1\n", "\n\n\ndef g(x):\n\n    return x + 1\n")
    made = []
    for source, file in zip(sources, ("a.py", "/somewhere/else/b.py")):
        names = {}
        exec(compile(source, file, "exec"), names)
        made.append(fingerprint(names["f" if "f" in names else "g"]))
    assert made[0] == made[1]


def test_a_frozen_function_has_the_same_fingerprint():
    for function in (spread, quadruple, with_default, is_even, lambda x: WEIGHTS[x] + LIMIT):
        made = checked(function, int64)
        assert made.fingerprint == fingerprint(function) == fingerprint(made.callable)


def test_what_is_no_function_has_no_fingerprint():
    with pytest.raises(TypeError, match="not a Python function"):
        fingerprint(functools.partial(double))


# ---- across processes ----------------------------------------------------------------------


def run(script, *arguments, **environment):
    environment = {**os.environ, "PYTHONPATH": SOURCES, **environment}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


FINGERPRINTS = """
    import math, numpy as np
    from headrace.stage.functions.fingerprint import fingerprint
    table, names = np.arange(10), ("a", "b")
    def helper(x): return x in {"x", "y", "z"} or x in {1, 2.5, "q"}
    def user(x, k=3): return helper(x) and table[k] + math.pi and names and np.sqrt(x)
    print(fingerprint(user), fingerprint(lambda x: user(x)))
"""


def test_fingerprints_are_the_same_in_every_process():
    first, second = (run(FINGERPRINTS, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first == second


# What a stage does: a kernel named by the function's fingerprint, the function among its globals.
KERNEL = """
    import sys
    import numba
    import numpy as np
    from headrace.plan.types import int64
    from headrace.stage import cache
    from headrace.stage.functions.checking import check, compiled_function

    __name__ = (sys.argv[4] or None) if sys.argv[4:] else "__main__"
    table = np.arange(int(sys.argv[1]), int(sys.argv[1]) + 10)
    constant = float(sys.argv[2])
    def helper(x): return x * constant
    def make(cell): return lambda x: helper(table[x]) + cell
    function = check(make(int(sys.argv[3])), [int64], operator="map", site=None, generator=False)
    text = "@numba.njit(nogil=True, cache=True)\\ndef kernel(x):\\n    return user(x)"
    name = "kernel_" + function.fingerprint
    module = cache.load_module(name, text, user=compiled_function(function), numba=numba)
    kernel = module.kernel
    result, hits = kernel(2), sum(kernel.stats.cache_hits.values())
    print(result, hits, len(compiled_function(function).overloads))
"""


def test_a_changed_array_constant_or_closure_is_never_served_from_an_old_cache(tmp_path):
    folder = str(tmp_path / "kernels")
    for arguments in ((0, 1, 0), (5, 1, 0), (0, 3, 0), (0, 1, 7)):
        expected = str((arguments[0] + 2) * float(arguments[1]) + arguments[2])
        cold = run(KERNEL, *arguments, HEADRACE_CACHE=folder)
        warm = run(KERNEL, *arguments, HEADRACE_CACHE=folder)
        assert cold == [expected, "0", "1"]
        assert warm == [expected, "1", "0"]  # nothing at all was compiled


@pytest.mark.parametrize("keep_times", [True, False])
def test_the_cache_folder_can_be_carried_elsewhere(tmp_path, keep_times):
    first, second = tmp_path / "here", tmp_path / "some" / "other place"
    assert run(KERNEL, 0, 1, 0, HEADRACE_CACHE=str(first)) == ["2.0", "0", "1"]
    shutil.copytree(first, second, copy_function=shutil.copy2 if keep_times else shutil.copy)
    shutil.rmtree(first)
    assert run(KERNEL, 0, 1, 0, HEADRACE_CACHE=str(second)) == ["2.0", "1", "0"]


@pytest.mark.parametrize("module", ["", "<run_path>"])
def test_a_kernel_does_not_need_the_module_of_its_function(tmp_path, module):
    """By exec, runpy or a notebook: equal functions are one kernel, wherever they were written."""
    folder = str(tmp_path / "kernels")
    assert run(KERNEL, 0, 1, 0, module, HEADRACE_CACHE=folder) == ["2.0", "0", "1"]
    assert run(KERNEL, 0, 1, 0, HEADRACE_CACHE=folder) == ["2.0", "1", "0"]


def test_a_known_function_is_not_compiled_to_be_checked(monkeypatch):
    outputs = checked(running, float64, state=TOTALS).outputs
    monkeypatch.setattr(checking, "_ask_numba", None)
    assert checked(running, float64, state=TOTALS).outputs == outputs


# ---- the cache folder ----------------------------------------------------------------------


def test_the_folder(tmp_path, monkeypatch):
    assert cache.folder() == tmp_path / "cache" / cache.version()
    monkeypatch.delenv("HEADRACE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.folder() == tmp_path / "xdg" / "headrace" / cache.version()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache.folder() == tmp_path / "home" / ".cache" / "headrace" / cache.version()


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(UserWarning, match="Set HEADRACE_CACHE"):
        folder = cache.folder()
    assert cache.folder() == folder  # and no second warning
    cache.write_json("fact", 1)
    assert cache.read_json("fact") == 1
    shutil.rmtree(folder)


def test_modules_are_written_once_and_mended():
    path = cache.write_module("a_module", "x = 1\n")
    stamp = path.stat().st_mtime
    inode = path.stat().st_ino
    cache.write_module("a_module", "x = 1\n")
    assert (path.stat().st_ino, path.stat().st_mtime) == (inode, stamp)
    path.write_text("x = ")
    cache.write_module("a_module", "x = 1\n")
    assert (path.read_text(), path.stat().st_mtime) == ("x = 1\n", stamp)
    assert cache.write_module("b_module", "x = 2\n").stat().st_mtime != stamp
    assert {file.name for file in cache.folder().iterdir()} == {
        "a_module.py",
        "b_module.py",
        "facts",
    }


def test_modules_are_loaded_once():
    first = cache.load_module("once", "y = given + 1\n", given=1)
    assert first.y == 2 and cache.load_module("once", "y = given + 1\n", given=5) is first
    with pytest.raises(ValueError, match="two different modules"):
        cache.load_module("once", "y = 3\n")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            cache.load_module("fails", "1 // 0\n")


def test_damaged_facts_are_forgotten():
    cache.write_json("fact", {"a": [1, None]})
    assert cache.read_json("fact") == {"a": [1, None]}
    (cache.folder() / "facts" / "fact.json").write_text("{")
    assert cache.read_json("fact") is None
