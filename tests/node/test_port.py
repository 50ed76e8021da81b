"""Ports over all interleavings: order, wrap-around, slices, room."""

import pytest
from tests.node.explore import planted

from headrace.node.port import (
    END,
    MARKER,
    ROWS,
    SPLIT,
    WATERMARK,
    Mark,
    Slice,
    close_rows,
    consume,
    has_room,
    new_port,
    open_rows,
    peek,
    pending,
    publish_rows,
    push_mark,
    room_wanted,
    want_room,
)
from headrace.stage.memory.atomics import load_relaxed, pause, store_release
from headrace.stage.memory.records import array, compiled, i64, interpreted, line, record

KINDS = (ROWS, WATERMARK, SPLIT, MARKER, END)


@record
class Rows:
    """Rows of a toy block."""

    values: array(i64, 8) = line()


def give_mark(port, kind, serial, value):
    """A mark that says one thing."""
    return push_mark(port, kind, serial, value, 0, 0, 0)


@compiled
def pop(port, got):
    """Peek and consume all of it."""
    found = peek(port, got)
    if found:
        consume(port, got, got.last - got.first)
    return found


# ---- one thread ----------------------------------------------------------------------------


def test_a_port_keeps_order_and_capacity():
    port, got = new_port(2), Slice.allocate()
    assert not pop(port, got)
    for turn in range(5):
        assert open_rows(port, 64, 3, 7, 7, turn, 5) and push_mark(port, SPLIT, turn, 9, 1, 2, 3)
        assert not give_mark(port, END, turn, 0) and not has_room(port)
        assert pending(port) == 5
        assert peek(port, got)
        assert (got.kind, got.block, got.first, got.last) == (ROWS, 64, 3, 7)
        assert (got.serial, got.due) == (turn, 5)
        assert consume(port, got, 1) == 0 and peek(port, got) and (got.first, got.last) == (4, 7)
        assert consume(port, got, 3) == 64
        assert peek(port, got) and (got.kind, got.block) == (SPLIT, 0)
        mark = Mark(got.mark)
        assert (mark.kind, mark.serial, mark.value) == (SPLIT, turn, 9)
        assert (mark.channel, mark.ended, mark.due) == (1, 2, 3)
        assert consume(port, got, 0) == 0
        assert not pop(port, got) and pending(port) == 0


def test_a_slice_is_cut_off_and_the_producer_goes_on():
    port, got = new_port(2), Slice.allocate()
    assert not publish_rows(port, 1)
    assert open_rows(port, 64, 0, 0, 4, 0, 0)
    assert not peek(port, got)
    assert publish_rows(port, 2) and peek(port, got)
    assert (got.first, got.last, got.whole) == (0, 2, 0)
    assert publish_rows(port, 1)
    assert consume(port, got, 2) == 0
    assert peek(port, got) and (got.first, got.last) == (2, 3)
    assert consume(port, got, 1) == 0 and not peek(port, got)
    assert not publish_rows(port, 2)  # beyond the limit
    assert publish_rows(port, 1) and not publish_rows(port, 0)
    assert peek(port, got) and got.whole and consume(port, got, 1) == 64
    assert not peek(port, got) and pending(port) == 0


@pytest.mark.parametrize("how", ["mark", "close"])
def test_an_open_slice_ends_before_its_limit(how):
    port, got = new_port(2), Slice.allocate()
    assert open_rows(port, 64, 0, 1, 4, 0, 0) and pop(port, got) and not got.whole
    close_rows(port) if how == "close" else give_mark(port, END, 1, 0)
    assert not publish_rows(port, 1)
    assert peek(port, got) and got.first == got.last == 1 and consume(port, got, 0) == 64


def test_a_capacity_that_is_no_power_of_two_is_refused():
    with pytest.raises(ValueError, match="power of two, not 3"):
        new_port(3)


# ---- all interleavings: order --------------------------------------------------------------


def send_all(port, kinds):
    for i in range(len(kinds)):
        while not send_one(port, kinds[i], i):
            pause()


@compiled
def send_one(port, kind, serial):
    if kind == ROWS:
        return open_rows(port, 64, 0, 1, 1, serial, 0)
    return push_mark(port, kind, serial, 10 + serial, 0, 0, 0)


def receive_all(port, got, count):
    seen = []
    while len(seen) < count:
        found = peek(port, got)
        if found:
            value = 0 if got.kind == ROWS else Mark(got.mark).value
            seen.append((got.kind, got.serial, value))
            consume(port, got, got.last - got.first)
        else:
            pause()
    return seen


def one_to_one(capacity, kinds, **bugs):
    port, got = new_port(capacity), Slice.allocate()
    send, receive = interpreted(send_all, **bugs), interpreted(receive_all, **bugs)
    expected = [(kind, i, 0 if kind == ROWS else 10 + i) for i, kind in enumerate(kinds)]

    def check(results):
        assert results[1] == expected, f"received {results[1]}"

    return [lambda: send(port, kinds), lambda: receive(port, got, len(kinds))], check


@pytest.mark.parametrize("capacity", [1, 2, 4])
def test_all_kinds_keep_their_order(explored, capacity):
    explored(f"a port of {capacity}", *one_to_one(capacity, KINDS))


@pytest.mark.parametrize("push", [open_rows, push_mark])
def test_relaxed_publish_is_found(found, push):
    bug = planted(push, 'store_release(port, "tail"', 'store_relaxed(port, "tail"')
    failures = found(*one_to_one(2, KINDS[:3], **{push.__name__: bug}))
    # x86 keeps the order of stores, so only the weak model can tell.
    assert set(failures) == {"weak"} and "races" in failures["weak"]


def test_relaxed_look_at_the_tail_is_found(found):
    bug = planted(peek, 'load_acquire(port, "tail")', 'load_relaxed(port, "tail")')
    assert set(found(*one_to_one(2, KINDS[:3], peek=bug))) == {"weak"}


def test_giving_back_a_place_too_early_is_found(found):
    """The head moves on before the descriptor was read."""
    bug = planted(
        peek,
        "    slice.kind = place.kind\n",
        '    store_release(port, "head", head + 1)\n    slice.kind = place.kind\n',
    )
    other = planted(consume, '    store_release(port, "head", head + 1)\n', "")
    failures = found(*one_to_one(1, KINDS[:3], peek=bug, consume=other))
    assert set(failures) == {"sc", "tso", "weak"}


# ---- all interleavings: slices -------------------------------------------------------------


def fill_slices(port, rows, sizes):
    """Row k has the value k + 1. A mark ends it."""
    while not open_rows(port, 64, 0, 0, sum(sizes), 0, 0):
        pause()
    done = 0
    for i in range(len(sizes)):
        size = sizes[i]
        for _ in range(size):
            rows.values[done] = done + 1
            done += 1
        publish_rows(port, size)
    while not push_mark(port, END, 1, 0, 0, 0, 0):
        pause()


def read_slices(port, got, rows):
    """(first, last) of each slice."""
    seen = []
    while True:
        found = peek(port, got)
        if not found:
            pause()
            continue
        if got.kind == END:
            return seen
        first, last = got.first, got.last
        for row in range(first, last):
            if rows.values[row] != row + 1:
                raise ValueError("a row was read before it was written")
        seen.append((first, last))
        consume(port, got, last - first)


def slices(capacity, sizes, **bugs):
    port, got, rows = new_port(capacity), Slice.allocate(), Rows.allocate()
    fill, read = interpreted(fill_slices, **bugs), interpreted(read_slices, **bugs)
    ways = set()

    def check(results):
        seen = results[1]
        ways.add(tuple(part for part in seen if part[0] != part[1]))
        bounds = [0, *(last for _, last in seen)]
        assert [first for first, _ in seen] == bounds[:-1], f"slices {seen}"
        assert bounds[-1] == sum(sizes), f"slices {seen}"

    bodies = [lambda: fill(port, rows, sizes), lambda: read(port, got, rows)]
    return bodies, check, ways


@pytest.mark.parametrize("capacity", [1, 2])
def test_slices_grow_until_they_are_taken(explored, capacity):
    bodies, check, ways = slices(capacity, (1, 2))
    explored(f"slices in a port of {capacity}", bodies, check)
    assert ways == {((0, 3),), ((0, 1), (1, 3))}  # cut or not


def test_rows_published_relaxed_are_found(found):
    bug = planted(publish_rows, 'store_release(place, "last"', 'store_relaxed(place, "last"')
    assert set(found(*slices(2, (1, 1), publish_rows=bug)[:2])) == {"weak"}


def test_the_end_read_before_the_close_is_found(found):
    """The descriptor leaves the ring, and its last row is never read."""
    bug = planted(
        peek,
        '    closed = load_acquire(place, "closed")\n    last = load_acquire(place, "last")\n',
        '    last = load_acquire(place, "last")\n    closed = load_acquire(place, "closed")\n',
    )
    failures = found(*slices(1, (1, 1), peek=bug)[:2])
    assert set(failures) == {"sc", "tso", "weak"}


def test_closing_before_the_last_row_is_found(found):
    bug = planted(
        publish_rows,
        '    store_release(place, "last", last)\n'
        "    if last == place.limit:\n"
        '        store_release(place, "closed", 1)\n',
        "    if last == place.limit:\n"
        '        store_release(place, "closed", 1)\n'
        '    store_release(place, "last", last)\n',
    )
    assert set(found(*slices(2, (1, 1), publish_rows=bug)[:2])) == {"sc", "tso", "weak"}


# ---- all interleavings: room ---------------------------------------------------------------


@record
class Bell:
    rung: i64 = line()


def send_or_wait(port, bell, count):
    """A producer that sleeps when the port is full, until the consumer rings."""
    for i in range(count):
        while not push_mark(port, MARKER, i, 0, 0, 0, 0):
            roomy = want_room(port)
            if not roomy:
                while load_relaxed(bell, "rung") == 0:
                    pause()
                bell_down(bell)


def bell_down(bell):
    store_release(bell, "rung", 0)


def receive_and_ring(port, got, bell, count):
    for _ in range(count):
        while not pop(port, got):
            pause()
        wanted = room_wanted(port)
        if wanted:
            store_release(bell, "rung", 1)


def room(**bugs):
    port, got, bell = new_port(1), Slice.allocate(), Bell.allocate()
    send, receive = interpreted(send_or_wait, **bugs), interpreted(receive_and_ring, **bugs)
    return [lambda: send(port, bell, 3), lambda: receive(port, got, bell, 3)]


def test_a_producer_that_waits_for_room_is_told(explored):
    explored("a producer that waits for room", room())


def test_waiting_for_room_without_a_last_look_is_found(found):
    bug = planted(want_room, "return has_room(port)", "return False")
    assert set(found(room(want_room=bug))) == {"sc", "tso", "weak"}


def test_asking_for_room_without_an_update_is_found(found):
    bug = planted(
        want_room, 'exchange(port, "wants_room", 1)', 'store_release(port, "wants_room", 1)'
    )
    assert set(found(room(want_room=bug))) == {"tso", "weak"}


def test_giving_room_without_an_update_is_found(found):
    bug = planted(
        room_wanted,
        'return exchange(port, "wants_room", 0) != 0',
        'return load_acquire(port, "wants_room") != 0',
    )
    assert set(found(room(room_wanted=bug))) == {"tso", "weak"}
