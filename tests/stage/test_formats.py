"""Formats of numbers and texts in compiled code: byte for byte what Python's format() writes."""

import math

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.stage.both import CHARACTERS, STRINGS, mode

import headrace as hr
from headrace.plan.errors import PipelineError
from headrace.plan.types import bool_, float64, int64, optional, string
from headrace.stage.functions.checking import check
from headrace.stage.strings.formats import (
    number_room,
    parse,
    text_room,
    write_real,
    write_text,
    write_whole,
)
from headrace.stage.strings.heap import new_heap
from headrace.stage.strings.numerals import keep_digits
from headrace.stage.strings.text import text, words
from headrace.stage.strings.words import make_words, write_words

INTS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, -1, 999, 1000, 123456, -(2**63)])
FLOATS = st.one_of(
    st.floats(),
    st.floats(-1e9, 1e9).map(lambda x: round(x, 3)),  # many of them lie near a tie
    st.sampled_from([-0.0, 5e-324, 2.5, 0.5, 9.995, 999999.5, 1e15, 1e16, 1e22, -0.004]),
)


ALIGNMENT = st.tuples(st.just("") | CHARACTERS, st.sampled_from("<>=^")).map("".join)
SIGN, ZERO_IS_POSITIVE, ALTERNATE, ZEROS = (
    st.sampled_from("+- "),
    st.just("z"),
    st.just("#"),
    st.just("0"),
)
WIDTH, SEPARATOR = st.integers(0, 40).map(str), st.sampled_from(",_")
PRECISION = st.sampled_from([0, 1, 2, 3, 6, 17, 40, 400]).map(lambda p: f".{p}")
WHOLE, REAL = st.sampled_from("bdoxX"), st.sampled_from("eEfFgG%")


def specs(*parts):
    """Formats of some of the parts; a few are wrong."""
    return st.tuples(*(st.just("") | part for part in parts)).map("".join)


def is_format(spec, sample):
    try:
        format(sample, spec)
    except ValueError:
        return False
    return True


@given(
    spec=specs(
        ALIGNMENT, SIGN, ZERO_IS_POSITIVE, ALTERNATE, ZEROS, WIDTH, SEPARATOR, PRECISION,
        WHOLE | REAL | st.sampled_from("s?Y,"),
    ),
    sample=st.sampled_from([0, 0.0, ""]),
)  # fmt: skip
def test_wrong_formats_are_those_that_are_wrong_in_python(spec, sample):
    if is_format(spec, sample):
        assert parse(spec, sample)
    else:
        with pytest.raises(ValueError):
            parse(spec, sample)


@pytest.mark.parametrize("spec", ["n", "c", "1000001", "+d\n"])
def test_some_formats_are_python_s_alone(spec):
    with pytest.raises(ValueError):
        parse(spec, 0)


@pytest.mark.compiled
@mode
@given(number=INTS, spec=specs(ALIGNMENT, SIGN, ALTERNATE, ZEROS, WIDTH, SEPARATOR, WHOLE))
@example(number=123456, spec="08,")
@example(number=-(2**63), spec="#_b")
def test_whole_numbers(mode, number, spec):
    assume(is_format(spec, number))
    form = parse(spec, number)
    heap = new_heap(number_room(form))
    assert text(*mode(write_whole)(heap.base, number, form)) == format(number, spec)


@pytest.mark.compiled
@mode
@given(
    number=FLOATS,
    spec=specs(
        ALIGNMENT, SIGN, ZERO_IS_POSITIVE, ALTERNATE, ZEROS, WIDTH, SEPARATOR, PRECISION, REAL
    ),
)
@example(number=math.nan, spec="010")
@example(number=-math.inf, spec="012,.1F")
@example(number=5.0, spec=".0")
@example(number=1.7976931348623157e308, spec=",.400f")
def test_floats(mode, number, spec):
    form = parse(spec, number)
    heap = new_heap(number_room(form))
    assert text(*mode(write_real)(heap.base, number, form)) == format(number, spec)


@pytest.mark.compiled
@mode
@given(value=STRINGS, spec=specs(ALIGNMENT, ZEROS, WIDTH, PRECISION, st.just("s")))
def test_texts(mode, value, spec):
    assume(is_format(spec, value))
    form = parse(spec, value)
    heap = new_heap(200)
    head, tail = words(value, heap)
    room = new_heap(text_room(head, form))
    assert text(*mode(write_text)(room.base, head, tail, form)) == format(value, spec)


@pytest.mark.compiled
@mode
@pytest.mark.parametrize("point", [".", ",", "٫"])
def test_the_point_of_any_locale_is_left_out(mode, point):
    for said, expected in ((f"3{point}25e-07\0", (3, -7)), (f"3{point}25\0", (3, 0))):
        buffer, heap = new_heap(20), new_heap(20)
        write_words(*words(said, heap), buffer.base)
        assert mode(keep_digits)(buffer.base) == expected
        assert text(*make_words(buffer.base, 3)) == "325"


# ---- in functions --------------------------------------------------------------------------

FROM_OUTSIDE = "+012,.2f"


def formatted(n, x, s, b):
    numbers = f"{n:05d}|{n:#_X}|{n:}|{n:.1%}|{x:10.3e}|{format(x, FROM_OUTSIDE)}"
    return f"{numbers}|{s:>10}|{s[1:] + 'é':*^10.3}|{'abc':<5}|{b:>6}|{b:}"


ROWS = st.lists(st.tuples(INTS, FLOATS, STRINGS, st.booleans()), min_size=1, max_size=20)


@pytest.mark.compiled
@given(rows=ROWS)
def test_in_a_pipeline(rows):
    columns = {name: [row[k] for row in rows] for k, name in enumerate("nxsb")}
    for compiled in (True, False):
        out = hr.read.memory(columns).map(formatted, output="r").write.collect()
        hr.run(out, engine="thread", compiled=compiled)
        assert [row["r"] for row in out.result().to_pylist()] == [formatted(*row) for row in rows]


REFUSED = [
    (lambda x: f"{x:d}", string, "the format 'd': Unknown format code 'd'", "{x:d}"),
    (lambda x: f"{x:=5}", string, "the format '=5': '=' alignment not allowed", "{x:=5}"),
    (lambda x: f"{x:d}", float64, "the format 'd': Unknown format code 'd'", "{x:d}"),
    (lambda x: f"{x:.2}", bool_, "the format '.2': Precision not allowed", "{x:.2}"),
    (lambda x: f"{x:n}", int64, "the format 'n': compiled code knows b, d,", "{x:n}"),
    (lambda x: f"{x:%Y-%m}", int64, "the format '%Y-%m': Invalid format", "{x:%Y-%m}"),
    (lambda x: f"{x:{x}d}", int64, "a format is no constant", "{x:{x}d}"),
    (lambda x: format(1.5, x), string, "a format is no constant", "format(1.5, x)"),
    (lambda x: f"{x:9999999}", int64, "more than 1000000 characters", "{x:9999999}"),
    (lambda x: f"{x:d}", optional(int64), "a value that may be None", "{x:d}"),
    (lambda x: f"{[x]:>5}", int64, "there is no format(list(int64), '>5')", "[x]"),
    (lambda x: f"{x!r:>5}", int64, "uses `!` or `=` in an f-string", "{x!r:>5}"),
]


@pytest.mark.compiled
@pytest.mark.parametrize(("function", "kind", "what", "line"), REFUSED)
def test_refused(function, kind, what, line):
    with pytest.raises(PipelineError) as caught:
        check(function, [kind], operator="map", site=None, generator=False)
    assert what in caught.value.what
    assert line in caught.value.site.text
    assert "map_batches" in caught.value.fix
