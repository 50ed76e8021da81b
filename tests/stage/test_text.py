"""Text in both lives, compared with plain Python strings."""

import ctypes
import gc
import math
import mmap

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba.core.runtime import _nrt_python as _nrt
from numba.core.runtime import rtsys

from headrace.stage import text as t
from headrace.stage.records import compiled, i64, interpreted, make_record, optional
from headrace.stage.text import blob, new_heap, text, views, words

CHARACTERS = st.one_of(
    st.sampled_from("aAbB0 \0é߀ßΣσ一😀\U0010ffff"), st.characters(exclude_categories=["Cs"])
)
STRINGS = st.text(CHARACTERS, max_size=40)
LIVES = [lambda f: f, interpreted]
life = pytest.mark.parametrize("life", LIVES, ids=["compiled", "interpreted"])
many = settings(max_examples=150, deadline=None)


def sign(a, b):
    return (a > b) - (a < b)


@life
@many
@given(a=STRINGS, b=STRINGS)
@example(a="a", b="a\0")
@example(a="twelve bytes", b="twelve bytes!")
@example(a="the same first bytes, 1", b="the same first bytes, 2")
def test_pairs(life, a, b):
    heap = new_heap(1 << 12)
    x, y = words(a, heap), words(b, heap)
    again = words(a, heap)
    assert life(t.equal_words)(*x, *y) == (a == b)
    assert life(t.equal_words)(*x, *again)
    assert life(t.hash_words)(*x) == life(t.hash_words)(*again)
    assert life(t.compare_words)(*x, *y) == sign(a, b)
    prefixes = life(t.order_prefix)(*x), life(t.order_prefix)(*y)
    assert prefixes[0] == prefixes[1] or sign(*prefixes) == sign(a, b)
    assert life(t.starts_with_words)(*x, *y) == a.startswith(b)
    assert life(t.ends_with_words)(*x, *y) == a.endswith(b)
    assert life(t.contains_words)(*x, *y) == (b in a)
    assert text(*life(t.concat_words)(*x, *y, heap)) == a + b


@life
@many
@given(a=STRINGS, start=st.integers(0, 40), stop=st.integers(0, 40))
def test_parts_are_found(life, a, start, stop):
    heap = new_heap(1 << 12)
    x, part = words(a, heap), words(a[start:stop], heap)
    assert life(t.contains_words)(*x, *part)
    assert life(t.starts_with_words)(*x, *words(a[:stop], heap))
    assert life(t.ends_with_words)(*x, *words(a[start:], heap))


@life
@many
@given(a=STRINGS)
def test_one(life, a):
    heap = new_heap(1 << 12)
    data = a.encode()
    x = words(a, heap)
    assert text(*x) == a
    assert life(t.byte_length)(x[0]) == len(data)
    assert life(t.char_length)(*x) == len(a)
    assert text(*life(t.upper_words)(*x, heap)) == a.upper()
    assert text(*life(t.lower_words)(*x, heap)) == a.lower()
    kept = x[0], life(t.keep_words)(*x, heap)
    assert text(*kept) == a
    assert len(data) <= t.SHORT or kept[1] != x[1]
    address = t.take(heap, len(data))
    life(t.write_words)(*x, address)
    made = life(t.make_words)(address, len(data))
    assert life(t.equal_words)(*made, *x)


@many
@given(value=st.integers(-(2**63), 2**63 - 1), other=st.integers(-(2**63), 2**63 - 1))
def test_integer_hashes_agree(value, other):
    for function, arguments in [(t.hash_int, (value,)), (t.combine, (value, other))]:
        assert function(*arguments) == interpreted(function)(*arguments)
    assert mixed(value, other) == t.mix(value, other)


@compiled
def mixed(a, b):
    return t_mix(a, b)


t_mix = t.mix


@many
@given(value=st.floats())
def test_float_hashes_agree(value):
    assert t.hash_float(value) == interpreted(t.hash_float)(value)
    assert t.hash_float(-0.0) == t.hash_float(0.0)
    assert t.hash_float(math.nan) == t.hash_float(-math.nan)


@life
def test_hashes_never_change(life):
    """Key groups in saved states depend on these numbers."""
    heap = new_heap(1000)
    found = [life(t.hash_words)(*words(s, heap)) for s in ("", "key", "x" * 13, "y" * 40)]
    found += [life(t.hash_int)(1), life(t.hash_float)(1.5), life(t.combine)(1, 2)]
    assert found == GOLDEN


GOLDEN = [
    -3559812226017314060,
    5740903986358978901,
    -6536505114290403680,
    -2069768447243280216,
    2501659722660953352,
    -2852452250454890453,
    3246891210449051841,
]


def test_integers_spread():
    for step in (1, 8, 1 << 20, 1 << 32):
        for shift in (0, 57):
            groups = [0] * 128
            for k in range(12_800):
                groups[t.hash_int(k * step) >> shift & 127] += 1
            assert 50 < min(groups) and max(groups) < 160


@life
def test_heap_overflows_and_is_freed(life):
    heap = new_heap(20)
    made = [life(t.concat_words)(*words("x" * 10, heap), *words(str(k) * 10, heap), heap)
            for k in range(9)]  # fmt: skip
    assert [text(*m) for m in made] == ["x" * 10 + str(k) * 10 for k in range(9)]
    assert heap.overflow_bytes == 160
    life(t.release_overflow)(heap)
    assert heap.overflow == 0
    words("z" * 100, heap)
    del heap
    gc.collect()


@life
def test_views(life):
    heap = new_heap(100)
    column = t.View.allocate(3)
    view = views(column.address)[2]
    view.head, view.tail = words("the third of them", heap)

    def read(address):
        view = views(address)[2]
        return text(view.head, view.tail)

    assert life(compiled(read))(column.address) == "the third of them"


def guarded_page():
    """The end of a page behind which nothing may be read."""
    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page), page, 0) == 0
    return area, start + page


def test_nothing_is_read_beyond_the_end():
    area, end = guarded_page()
    heap = new_heap(1 << 12)
    for count in range(41):
        data = bytes(range(65, 65 + count))
        ctypes.memmove(end - count, data, count)
        x, y = t.make_words(end - count, count), words(data, heap)
        assert t.equal_words(*x, *y)
        assert t.compare_words(*x, *y) == 0
        assert t.hash_words(*x) == t.hash_words(*y)
        assert t.order_prefix(*x) == t.order_prefix(*y)
        assert t.char_length(*x) == count
        assert t.find_words(*x, *words(data[-20:], heap)) == max(0, count - 20)
        assert blob(x[0], t.keep_words(*x, heap)) == data
        assert text(*t.lower_words(*x, heap)) == data.decode().lower()
    assert len(area) == 2 * mmap.PAGESIZE  # alive until here


# ---- user code -----------------------------------------------------------------------------


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
    return (a + b, b + a, a + "é", str(a), a.upper(), a.lower(), a.strip(), a.strip("a "),
            a.replace("a", "é"), a.replace(b, "x"), a.find(b), a.find("a", 1), a.count("a"),
            a.isdigit(), a.isalpha(), a.title(), a.zfill(20), a.center(20), a.ljust(20, "é"),
            a.partition("a"), a * 2, a.split("a"), a.split("a", 1), a.splitlines(),
            a.rfind("a"), a.isspace(), "-".join([c + "." for c in a]))  # fmt: skip


methods_compiled = compiled(methods)


@compiled
def call_methods(ah, at, bh, bt):
    return methods_compiled(text(ah, at), text(bh, bt))


@settings(max_examples=60, deadline=None)
@given(a=STRINGS, b=STRINGS.filter(bool))
def test_methods_of_user_code(a, b):
    heap = new_heap(1 << 12)
    x, y = words(a, heap), words(b, heap)
    expected = methods(a, b)
    assert call_methods(*x, *y) == expected
    assert interpreted(call_methods)(*x, *y) == expected


@compiled
def item(head, tail, index):
    return text(head, tail)[index]


@compiled
def part(head, tail, start, stop):
    return text(head, tail)[start:stop]


@compiled
def rest(head, tail, start):
    return text(head, tail)[start:]


@life
@many
@given(a=STRINGS, start=st.integers(-45, 45), stop=st.integers(-45, 45))
def test_items_and_slices(life, a, start, stop):
    x = words(a, heap := new_heap(1 << 12))
    assert life(part)(*x, start, stop) == a[start:stop]
    assert life(rest)(*x, start) == a[start:]
    if -len(a) <= start < len(a):
        assert life(item)(*x, start) == a[start]
    else:
        with pytest.raises(IndexError):
            life(item)(*x, start)
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


@life
@pytest.mark.parametrize("a", ["short", "long enough to be outside"])
def test_texts_in_containers_and_branches(life, a):
    expected = (2, True, a, True, False, a + "!", "a literal!", 5, "another literal", a)
    assert life(shapes)(*words(a, heap := new_heap(100))) == expected
    assert heap.used <= 100


@compiled
def number(head, tail):
    return int(text(head, tail))


@life
def test_int_of_text(life):
    heap = new_heap(1000)
    for good in ("0", " -17 ", "+5\n", "9223372036854775807", "-9223372036854775808"):
        assert life(number)(*words(good, heap)) == int(good)
    for bad in ("", "-", "1.5", "x1", "1 2"):
        with pytest.raises(ValueError):
            life(number)(*words(bad, heap))


@compiled
def of_blob(head, tail, other_head, other_tail, k):
    a, b = blob(head, tail), blob(other_head, other_tail)
    return a == b, a < b, len(a), a[k], a[1:3] == b[1:3], a.startswith(b), a[-1], bool(a)


@life
@many
@given(a=st.binary(min_size=1, max_size=40), b=st.binary(max_size=40))
def test_blobs(life, a, b):
    heap = new_heap(1000)
    k = len(a) // 2
    expected = (a == b, a < b, len(a), a[k], a[1:3] == b[1:3], a.startswith(b), a[-1], bool(a))
    assert life(of_blob)(*words(a, heap), *words(b, heap), k) == expected
    with pytest.raises(IndexError):
        life(of_blob)(*words(a, heap), *words(b, heap), len(a))


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


@life
@settings(max_examples=50, deadline=None)
@given(a=STRINGS, b=STRINGS)
def test_fields(life, a, b):
    heap = new_heap(1 << 12)
    state = State.allocate()
    state.heap = heap.address
    x = words(a, heap)
    assert life(remember)(state.address, *x, b) == (True, True, b, a + b, True)
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
        t.upper_words(*x, heap)

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
