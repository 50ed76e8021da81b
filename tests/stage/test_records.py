"""Records: every kind of field and atomic gives the same, compiled and interpreted."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.errors import TypingError
from tests.stage.both import MODES, mode

from headrace.stage.memory.atomics import (
    cas,
    exchange,
    fetch_add,
    load_acquire,
    load_relaxed,
    load_sc,
    pause,
    store_relaxed,
    store_release,
    store_sc,
)
from headrace.stage.memory.records import (
    ARRAYS,
    KINDS,
    array,
    compiled,
    copy_record,
    f32,
    f64,
    flag,
    i8,
    i16,
    i32,
    i64,
    i64s,
    interpreted,
    line,
    make_record,
    optional,
    record,
    ref,
    u8,
)


@record
class Port:
    head: i64 = line()
    tail: i32 = line()
    kind: u8
    share: f64
    open: flag


@record
class Operator:
    name: i64
    inputs: array(Port, 3) = line()
    first: Port
    next: ref("Operator") = line()
    rows: array(i64, 4)


@compiled
def use(ops):
    op = ops[1]
    op.next = ops[0]
    op.next.first.head = 5
    for i in range(3):
        op.inputs[i].head = 10 * i
        op.inputs[i].tail = -i
        op.inputs[i].open = i == 2
        store_release(op.inputs[i], "kind", 200 + i)
        store_sc(op.inputs[i], "share", 0.5 * i)
        op.rows[i] += fetch_add(op.inputs[i], "head", 3)
    op.rows[3] = exchange(op.inputs[2], "tail", 77)
    swapped = cas(op, "next", ops[0], ops[1])
    copy_record(op.first, op.inputs[2])
    store_relaxed(op, "name", 9)
    pause()
    return (op.inputs[2].head, op.first.tail, load_acquire(op.inputs[1], "kind"),
            load_sc(op.inputs[1], "share"), swapped, op.next.address == op.address,
            ops[0].first.head, op.rows[2], op.rows[3], cas(op.rows, 2, 20, 9), op.rows[2],
            op.first.open, op.inputs[1].open, load_relaxed(op, "name"),
            exchange(op.first, "open", False), op.first.open, cas(op.rows, 0, 1, 2))  # fmt: skip


@mode
def test_all_kinds_of_access(mode):
    expected = (
        23,
        77,
        201,
        0.5,
        True,
        True,
        5,
        20,
        -2,
        True,
        9,
        True,
        False,
        9,
        True,
        False,
        False,
    )
    assert mode(use)(Operator.allocate(2)) == expected


NUMBERS = [("small", i8), ("short", i16), ("half", i32), ("whole", i64), ("byte", u8),
           ("single", f32), ("double", f64), ("yes", flag), ("maybe", optional(i32)),
           ("perhaps", optional(f64)), ("possibly", optional(flag))]  # fmt: skip
Numbers = make_record("Numbers", NUMBERS)


@compiled
def write_all(n, small, short, half, whole, byte, single, double, yes):
    n.small = small
    n.short = short
    n.half = half
    n.whole = whole
    n.byte = byte
    n.single = single
    n.double = double
    n.yes = yes
    n.maybe = half
    n.perhaps = double
    n.possibly = yes


@compiled
def read_all(n):
    return (n.small, n.short, n.half, n.whole, n.byte, n.single, n.double, n.yes, n.maybe,
            n.perhaps, n.possibly)  # fmt: skip


@compiled
def forget(n):
    given = n.maybe
    n.perhaps = None
    n.possibly = None
    n.maybe = None
    was = n.maybe is None
    n.maybe = given  # an optional value
    return was


def integers(bits):
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


@settings(max_examples=100, deadline=None)
@given(
    values=st.tuples(
        integers(8), integers(16), integers(32), integers(64), st.integers(0, 255),
        st.floats(width=32, allow_nan=False), st.floats(allow_nan=False), st.booleans(),
    )
)  # fmt: skip
def test_modes_read_what_the_other_wrote(values):
    expected = (*values, values[2], values[6], values[7])
    for write in (write_all, interpreted(write_all)):
        for read in (read_all, interpreted(read_all)):
            numbers = Numbers.allocate()
            write(numbers, *values)
            assert read(numbers) == expected
            for alive in MODES:
                assert alive(forget)(numbers) is True
                assert read(numbers)[8:] == (values[2], None, None)


def test_narrow_values_do_not_wrap_in_arithmetic():
    @compiled
    def difference(n):
        return n.byte - 2 * n.byte, n.single * n.single

    numbers = Numbers.allocate()
    numbers.byte, numbers.single = 200, 0.1
    assert difference(numbers) == interpreted(difference)(numbers) == (-200, numbers.single**2)


@pytest.mark.parametrize(("kind", "value"), [
    ("i8", 128), ("i16", -32769), ("i32", 2**31), ("i64", 2**63), ("u8", -1), ("u8", 256),
])  # fmt: skip
def test_interpreted_writes_check_the_range(kind, value):
    place = ARRAYS[kind](Port.allocate().address)
    with pytest.raises(OverflowError):
        place[0] = value
    with pytest.raises(TypeError):
        place[0] = 1.5


def test_a_float_is_not_cut_silently():
    @compiled
    def half(port):
        port.head = 0.5

    with pytest.raises(TypingError, match="cannot assign float64"):
        half(Port.allocate())
    with pytest.raises(TypeError):
        interpreted(half)(Port.allocate())


def test_unknown_fields_are_refused():
    @compiled
    def misspelt(port):
        port.haed = 1

    with pytest.raises(TypingError, match="no such field"):
        misspelt(Port.allocate())
    with pytest.raises(AttributeError):
        interpreted(misspelt)(Port.allocate())


def writer(items):
    @compiled
    def write(address, value):
        place = items(address)
        place[3] = value
        return place[3]

    return write


def test_typed_memory():
    buffer = np.zeros(64, np.uint8)
    address = buffer.ctypes.data
    for name, items in ARRAYS.items():
        write, kind = writer(items), KINDS[name]
        for alive in MODES:
            buffer[:] = 0
            value = name == "flag" or 7
            assert alive(write)(address, value) == value
            assert items(address)[3] == kind.read(address + 3 * kind.size) == value


def test_make_record_is_cached_and_deterministic():
    again = make_record("Numbers", [(name, kind) for name, kind in NUMBERS])
    assert again is Numbers
    wider = make_record("Numbers", [("small", i16), *NUMBERS[1:]])
    assert wider is not Numbers
    assert wider.numba_type != Numbers.numba_type
    assert wider.layout_digest != Numbers.layout_digest
    assert pickle.loads(pickle.dumps(Numbers.numba_type)) == Numbers.numba_type
    with pytest.raises(TypeError):
        make_record("Twice", [("a", i64), ("a", i64)])
    with pytest.raises(TypeError):
        make_record("Unknown", [("a", "i65")])


def test_layout_is_part_of_the_type():
    def declare(kind):
        @record
        class Same:
            value: kind
            other: i64

        return Same

    assert declare(i64).numba_type == declare(i64).numba_type
    assert declare(i64).numba_type.name != declare(i32).numba_type.name


def test_fields_may_have_any_name():
    Odd = make_record("Odd", [("size", i64), ("address", i64), ("allocate", i64), ("fields", i64)])
    assert Odd.size == 32

    @compiled
    def total(odd):
        return odd.size + odd.address + odd.allocate + odd.fields

    odd = Odd.allocate()
    odd.size, odd.address, odd.allocate, odd.fields = 1, 2, 3, 4
    assert total(odd) == interpreted(total)(odd) == 10


def test_records_come_back_from_compiled_code():
    @compiled
    def second(ports):
        return ports[1]

    ports = Port.allocate(2)
    found = second(ports)
    assert type(found) is Port
    assert found.address == interpreted(second)(ports).address == ports.address + Port.size


@mode
def test_arrays_reach_any_index(mode):
    @compiled
    def swap(address):
        items = i64s(address)
        items[0], items[3] = items[3], items[0]

    values = np.arange(4)
    mode(swap)(values.ctypes.data)
    assert values.tolist() == [3, 1, 2, 0]


@record
class Mixed:
    whole: i64
    real: f64
    word: i32
    byte: i8
    sure: flag
    maybe: optional(i64)


Odd = make_record("Odd", [("a", i8), ("b", i8), ("c", i8)])


@mode
def test_copies_are_whole(mode):
    """Of narrow and of wide fields that were just written, and of a size that is no word's."""

    @compiled
    def change(target, source, n):
        source.whole, source.real, source.word = n, n / 2, n + 1
        source.byte, source.sure, source.maybe = n, n > 0, n
        copy_record(target, source)
        source.whole = 0
        return target.whole, target.real, target.word, target.byte, target.sure, target.maybe

    one, other = Mixed.allocate(), Mixed.allocate()
    for n in (7, -3):
        assert mode(change)(one, other, n) == (n, n / 2, n + 1, n, n > 0, n)
    few, more = Odd.allocate(2), Odd.allocate(2)
    more[0].a, more[0].b, more[0].c, more[1].a = 1, 2, 3, 4
    mode(compiled(lambda target, source: copy_record(target, source)))(few[0], more[0])
    assert [few[0].a, few[0].b, few[0].c, few[1].a] == [1, 2, 3, 0]
