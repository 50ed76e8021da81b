"""What user code does with text and bytes, in both modes, compared with Python's str and bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.runtime import _nrt_python as _nrt
from numba.core.runtime import rtsys
from tests.stage.both import STRINGS, mode

from headrace.stage.memory.records import compiled, i64, interpreted, make_record, optional
from headrace.stage.strings.heap import new_heap
from headrace.stage.strings.letter_case import upper_words
from headrace.stage.strings.text import blob, text, words

many = settings(max_examples=150, deadline=None)


def compare_all(a, b, s):
    return (a == b, a != b, a < b, a <= b, a > b, a >= b, a in b, a.startswith(b), b.endswith(a),
            a == s, s == a, a != s, a < s, s < a, s in a, a in s, a.startswith(s), a.endswith(s),
            a == "aé", "a" in a, a.startswith("a"), len(a), bool(a), not a)  # fmt: skip


@compiled
def call_compare_all(ah, at, bh, bt, s):
    return compare_all_compiled(text(ah, at), text(bh, bt), s)


compare_all_compiled = compiled(compare_all)


@many
@given(a=STRINGS, b=STRINGS, s=STRINGS)
def test_operators_of_user_code(a, b, s):
    heap = new_heap(1 << 12)
    x, y = words(a, heap), words(b, heap)
    expected = compare_all(a, b, s)
    assert call_compare_all(*x, *y, s) == expected
    assert interpreted(call_compare_all)(*x, *y, s) == expected


def methods(a, b):
    return (a + b, a + "é", str(a), a.upper(), a.strip("a "), a.replace(b, "x"), a.find(b),
            a.isdigit(), a.split("a", 1), "-".join([c + "." for c in a]))  # fmt: skip


def more_methods(a, b):
    return (b + a, a.lower(), a.strip(), a.replace("a", "é"), a.find("a", 1), a.count("a"),
            a.isalpha(), a.title(), a.zfill(20), a.center(20), a.ljust(20, "é"), a.rfind("a"),
            a.partition("a"), a * 2, a.split("a"), a.splitlines(), a.isspace())  # fmt: skip


def callable_with_words(called):
    made = compiled(called)

    @compiled
    def call(ah, at, bh, bt):
        return made(text(ah, at), text(bh, bt))

    return call


call_methods = callable_with_words(methods)


def check_methods(called, call, a, b):
    heap = new_heap(1 << 12)
    x, y = words(a, heap), words(b, heap)
    expected = called(a, b)
    assert call(*x, *y) == expected
    assert interpreted(call)(*x, *y) == expected


@given(a=STRINGS, b=STRINGS.filter(bool))
def test_methods_of_user_code(a, b):
    check_methods(methods, call_methods, a, b)


call_more_methods = callable_with_words(more_methods)


@pytest.mark.soak  # Numba compiles them for texts: each of them takes a while
@given(a=STRINGS, b=STRINGS.filter(bool))
def test_more_methods_of_user_code(a, b):
    check_methods(more_methods, call_more_methods, a, b)


@compiled
def item(head, tail, index):
    return text(head, tail)[index]


@compiled
def part(head, tail, start, stop):
    return text(head, tail)[start:stop]


@compiled
def rest(head, tail, start):
    return text(head, tail)[start:]


@mode
@many
@given(a=STRINGS, start=st.integers(-45, 45), stop=st.integers(-45, 45))
def test_items_and_slices(mode, a, start, stop):
    x = words(a, heap := new_heap(1 << 12))
    assert mode(part)(*x, start, stop) == a[start:stop]
    assert mode(rest)(*x, start) == a[start:]
    if -len(a) <= start < len(a):
        assert mode(item)(*x, start) == a[start]
    else:
        with pytest.raises(IndexError):
            mode(item)(*x, start)
    assert heap.overflow == 0


@compiled
def encoded(value, heap):
    return words(value, heap)


@many
@given(a=STRINGS)
def test_compiled_words_of_str(a):
    heap = new_heap(1 << 12)
    assert text(*encoded(a, heap)) == a
    assert blob(*encoded(a.encode(), heap)) == a.encode()


def choose(value, which):
    if which == 0:
        return None
    return value


def either(value, which):
    chosen = value if which else "a literal"
    return chosen + "!"


def early(value, which):
    if which:
        return value
    return "another literal"


def steps(value):
    yield value
    yield value[1:]


choose_compiled, either_compiled = compiled(choose), compiled(either)
early_compiled, steps_compiled = compiled(early), compiled(steps)


@compiled
def shapes(head, tail):
    value = text(head, tail)
    kept = [(s, 1) for s in steps_compiled(value)]
    pair = (value, 1)
    nothing = choose_compiled(value, 0)
    something = choose_compiled(value, 1)
    seen = {value: 5}
    return (len(kept), kept[1][0] == value[1:], pair[0], nothing is None, something is None,
            either_compiled(value, True), either_compiled(value, False), seen[value],
            early_compiled(value, False), early_compiled(value, True))  # fmt: skip


@mode
@pytest.mark.parametrize("a", ["short", "long enough to be outside"])
def test_texts_in_containers_and_branches(mode, a):
    expected = (2, True, a, True, False, a + "!", "a literal!", 5, "another literal", a)
    assert mode(shapes)(*words(a, heap := new_heap(100))) == expected
    assert heap.used <= 100


@compiled
def number(head, tail):
    return int(text(head, tail))


@mode
def test_int_of_text(mode):
    heap = new_heap(1000)
    for good in ("0", " -17 ", "+5\n", "9223372036854775807", "-9223372036854775808"):
        assert mode(number)(*words(good, heap)) == int(good)
    for bad in ("", "-", "1.5", "x1", "1 2"):
        with pytest.raises(ValueError):
            mode(number)(*words(bad, heap))


@compiled
def of_blob(head, tail, other_head, other_tail, k):
    a, b = blob(head, tail), blob(other_head, other_tail)
    return a == b, a < b, len(a), a[k], a[1:3] == b[1:3], a.startswith(b), a[-1], bool(a)


@mode
@many
@given(a=st.binary(min_size=1, max_size=40), b=st.binary(max_size=40))
def test_blobs(mode, a, b):
    heap = new_heap(1000)
    k = len(a) // 2
    expected = (a == b, a < b, len(a), a[k], a[1:3] == b[1:3], a.startswith(b), a[-1], bool(a))
    assert mode(of_blob)(*words(a, heap), *words(b, heap), k) == expected
    with pytest.raises(IndexError):
        mode(of_blob)(*words(a, heap), *words(b, heap), len(a))


STATE = [("heap", i64), ("last", "text"), ("best", optional("text")), ("raw", "blob"),
         ("count", optional(i64))]  # fmt: skip
State = make_record("State", STATE)


@compiled
def remember(address, head, tail, extra):
    state = State(address)
    value = text(head, tail)
    was_none = state.best is None
    state.last = value
    state.best = value + extra
    state.raw = blob(head, tail)
    if state.count is None:
        state.count = 1
    first = state.last
    state.last = extra
    return was_none, first == value, state.last, state.best, state.raw == blob(head, tail)


@mode
@settings(max_examples=50, deadline=None)
@given(a=STRINGS, b=STRINGS)
def test_fields(mode, a, b):
    heap = new_heap(1 << 12)
    state = State.allocate()
    state.heap = heap.address
    x = words(a, heap)
    assert mode(remember)(state.address, *x, b) == (True, True, b, a + b, True)
    assert (state.last, state.best, state.raw, state.count) == (b, a + b, a.encode(), 1)
    state.best = None
    assert state.best is None
    state.best = a
    assert state.best == a


def test_text_needs_a_heap():
    with pytest.raises(TypeError, match="heap: i64"):
        make_record("Homeless", [("name", "text")])


@pytest.mark.parametrize("a", ["short", "long enough to be outside, é"])
def test_user_code_gives_its_memory_back(a):
    heap = new_heap(1 << 16)
    x, y = words(a, heap), words("é", heap)
    state = State.allocate()
    state.heap = heap.address

    def run():
        call_compare_all(*x, *y, "né")
        call_methods(*x, *y)
        shapes(*x)
        encoded("né" * 20, heap)
        remember(state.address, *x, "né" * 20)
        upper_words(*x, heap)

    run()
    _nrt.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        for _ in range(20):
            run()
        after = rtsys.get_allocation_stats()
    finally:
        _nrt.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free > 0
