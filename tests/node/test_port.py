"""Ports over all interleavings: order, claims, wrap-around, slices, room."""

import pytest
from tests.node.explore import planted

from headrace.node.port import (
    BARRIER,
    END,
    MARKER,
    ROWS,
    WATERMARK,
    Slice,
    claim_consumer,
    close_rows,
    consume,
    has_room,
    new_port,
    open_rows,
    peek,
    pending,
    pop,
    publish_rows,
    push,
    push_mark,
    push_rows,
    release_consumer,
    release_producer,
    room_wanted,
    try_push,
    want_room,
)
from headrace.stage.clock import NEVER
from headrace.stage.memory.atomics import load_relaxed, pause, store_release
from headrace.stage.memory.records import array, i64, interpreted, line, record

KINDS = (ROWS, WATERMARK, BARRIER, MARKER, END)


@record
class Rows:
    """Rows of a toy block."""

    values: array(i64, 8) = line()


# ---- one thread ----------------------------------------------------------------------------


def test_a_port_keeps_order_and_capacity():
    port, got = new_port(2), Slice.allocate()
    assert not pop(port, got)
    for turn in range(5):
        assert push_rows(port, 64, 3, 7, turn, 100) and push_mark(port, BARRIER, turn, 9)
        assert not push_mark(port, END, turn, 0) and not has_room(port)
        assert pending(port) == 5
        assert peek(port, got)
        assert (got.kind, got.block, got.first, got.last, got.serial, got.value) == (
            ROWS, 64, 3, 7, turn, 100,
        )  # fmt: skip
        assert consume(port, got, 1) == 0 and peek(port, got) and (got.first, got.last) == (4, 7)
        assert consume(port, got, 3) == 64
        assert pop(port, got) and (got.kind, got.value, got.block) == (BARRIER, 9, 0)
        assert not pop(port, got) and pending(port) == 0


def test_a_slice_is_cut_off_and_the_producer_goes_on():
    port, got = new_port(2), Slice.allocate()
    assert not publish_rows(port, 1, 0)
    assert open_rows(port, 64, 0, 0, 4, 0, NEVER)
    assert not peek(port, got)
    assert publish_rows(port, 2, 20) and peek(port, got)
    assert (got.first, got.last, got.value, got.whole) == (0, 2, 20, 0)
    assert publish_rows(port, 1, 30)
    assert consume(port, got, 2) == 0
    assert peek(port, got) and (got.first, got.last, got.value) == (2, 3, 30)
    assert consume(port, got, 1) == 0 and not peek(port, got)
    assert publish_rows(port, 0, 31) and peek(port, got)  # a watermark alone
    assert (got.first, got.last, got.value) == (3, 3, 31) and consume(port, got, 0) == 0
    assert not publish_rows(port, 2, 50)  # beyond the limit
    assert publish_rows(port, 1, 40) and not publish_rows(port, 0, 41)
    assert peek(port, got) and got.whole and consume(port, got, 1) == 64
    assert not peek(port, got) and pending(port) == 0


@pytest.mark.parametrize("how", ["mark", "close"])
def test_an_open_slice_ends_before_its_limit(how):
    port, got = new_port(2), Slice.allocate()
    assert open_rows(port, 64, 0, 1, 4, 0, 10) and pop(port, got) and not got.whole
    close_rows(port) if how == "close" else push_mark(port, END, 1, 0)
    assert not publish_rows(port, 1, 20)
    assert peek(port, got) and got.first == got.last == 1 and consume(port, got, 0) == 64


def test_a_capacity_that_is_no_power_of_two_is_refused():
    with pytest.raises(ValueError, match="power of two, not 3"):
        new_port(3)


# ---- all interleavings: order --------------------------------------------------------------


def send_all(port, kinds):
    for i in range(len(kinds)):
        block = 64 if kinds[i] == ROWS else 0
        last = 1 if kinds[i] == ROWS else 0
        while not push(port, kinds[i], block, 0, last, last, i, 10 + i):
            pause()


def receive_all(port, got, count):
    seen = []
    while len(seen) < count:
        found = pop(port, got)
        if found:
            seen.append((got.kind, got.serial, got.value))
        else:
            pause()
    return seen


def one_to_one(capacity, kinds, **bugs):
    port, got = new_port(capacity), Slice.allocate()
    send, receive = interpreted(send_all, **bugs), interpreted(receive_all, **bugs)
    expected = [(kind, i, 10 + i) for i, kind in enumerate(kinds)]

    def check(results):
        assert results[1] == expected, f"received {results[1]}"

    return [lambda: send(port, kinds), lambda: receive(port, got, len(kinds))], check


@pytest.mark.parametrize("capacity", [1, 2, 4])
def test_all_kinds_keep_their_order(explored, capacity):
    explored(f"a port of {capacity}", *one_to_one(capacity, KINDS))


def test_relaxed_publish_is_found(found):
    bug = planted(push, 'store_release(port, "tail"', 'store_relaxed(port, "tail"')
    failures = found(*one_to_one(2, KINDS[:3], push=bug))
    # x86 keeps the order of stores, so only the weak model can tell.
    assert set(failures) == {"weak"} and "races" in failures["weak"]


def test_relaxed_look_at_the_tail_is_found(found):
    bug = planted(peek, 'load_acquire(port, "tail")', 'load_relaxed(port, "tail")')
    assert set(found(*one_to_one(2, KINDS[:3], peek=bug))) == {"weak"}


def test_giving_back_a_place_too_early_is_found(found):
    """The head moves on before the descriptor was read."""
    bug = planted(
        peek,
        "    slice.kind = slot.kind\n",
        '    store_release(port, "head", head + 1)\n    slice.kind = slot.kind\n',
    )
    other = planted(consume, '    store_release(port, "head", head + 1)\n', "")
    failures = found(*one_to_one(1, KINDS[:3], peek=bug, consume=other))
    assert set(failures) == {"sc", "tso", "weak"}


# ---- all interleavings: claims -------------------------------------------------------------


def send_in_turns(port, producer, count):
    for i in range(count):
        while not try_push(port, MARKER, 0, 0, 0, 0, i, producer):
            pause()


def receive_in_turns(port, got, total):
    """(position, producer, serial) of what this consumer took out."""
    seen = []
    while True:
        received = load_relaxed(port, "received")
        if received >= total:
            return seen
        sent = load_relaxed(port, "sent")
        claimed = claim_consumer(port) if sent != received else False
        if claimed:
            head = load_relaxed(port, "head")
            found = pop(port, got)
            release_consumer(port)
            if found:
                seen.append((head, got.value, got.serial))
                continue
        pause()


def in_turns(capacity, producers, consumers, count, **bugs):
    port = new_port(capacity)
    send, receive = interpreted(send_in_turns, **bugs), interpreted(receive_in_turns, **bugs)
    slices = [Slice.allocate() for _ in range(consumers)]
    total = producers * count
    bodies = [lambda p=p: send(port, p, count) for p in range(producers)]
    bodies += [lambda got=got: receive(port, got, total) for got in slices]

    def check(results):
        seen = sorted(thing for result in results[producers:] for thing in result)
        assert [position for position, _, _ in seen] == list(range(total)), f"took {seen}"
        for producer in range(producers):
            serials = [serial for _, p, serial in seen if p == producer]
            assert serials == list(range(count)), f"took {seen}"

    return bodies, check


@pytest.mark.parametrize(
    ("capacity", "producers", "consumers", "count"),
    [
        (1, 2, 1, 1),
        (2, 2, 1, 1),
        (1, 1, 2, 1),
        (1, 2, 1, 2),
        (1, 1, 2, 2),
        pytest.param(1, 2, 2, 1, marks=pytest.mark.soak),  # takes as long as all others together
    ],
)
def test_producers_and_consumers_take_turns(explored, capacity, producers, consumers, count):
    what = f"a port of {capacity}, claimed by {producers} producers and {consumers} consumers"
    small = (producers + consumers) * count * capacity < 4
    models = ("weak", "tso", "sc") if small else ("sc",)
    explored(what, *in_turns(capacity, producers, consumers, count), models)


def test_missing_unlock_is_found(found):
    """Streams fig. 3 as printed: push returns true without prodUnlock()."""
    bug = planted(
        try_push,
        "    release_producer(port)\n    return pushed",
        "    if pushed:\n        return True\n    release_producer(port)\n    return False",
    )
    failures = found(*in_turns(2, 2, 1, 1, try_push=bug))
    assert set(failures) == {"sc", "tso", "weak"}
    assert all(failure.startswith("deadlock") for failure in failures.values())


@pytest.mark.parametrize("released", [release_producer, release_consumer])
def test_relaxed_unlock_is_found(found, released):
    bug = planted(released, "store_release", "store_relaxed")
    two = (2, 1) if released is release_producer else (1, 2)
    failures = found(*in_turns(1, *two, 1, **{released.__name__: bug}))
    assert set(failures) == {"weak"}


def test_claims_without_a_swap_are_found(found):
    bug = planted(
        claim_consumer,
        'return cas(port, "consuming", 0, 1)',
        'store_release(port, "consuming", 1)\n    return True',
    )
    assert set(found(*in_turns(1, 1, 2, 1, claim_consumer=bug))) == {"sc", "tso", "weak"}


# ---- all interleavings: slices -------------------------------------------------------------


def fill_slices(port, rows, sizes):
    """Row k has the time k + 1; the watermark after k rows is k. Marks end it."""
    while not open_rows(port, 64, 0, 0, sum(sizes), 0, NEVER):
        pause()
    done = 0
    for i in range(len(sizes)):
        size = sizes[i]
        for _ in range(size):
            rows.values[done] = done + 1
            done += 1
        publish_rows(port, size, done)
    while not push_mark(port, END, 1, 0):
        pause()


def read_slices(port, got, rows, total):
    """(first, last) of each slice. A row that the watermark has overtaken is an error."""
    seen = []
    watermark = NEVER
    while True:
        found = peek(port, got)
        if not found:
            pause()
            continue
        if got.kind == END:
            break
        first, last = got.first, got.last
        for row in range(first, last):
            time = rows.values[row]
            if time != row + 1:
                raise ValueError("a row was read before it was written")
            if time <= watermark:
                raise ValueError("a row is late that was not")
        watermark = got.value
        seen.append((first, last))
        consume(port, got, last - first)
    if watermark != total:
        raise ValueError("the last watermark is lost")
    return seen


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

    total = sum(sizes)
    bodies = [lambda: fill(port, rows, sizes), lambda: read(port, got, rows, total)]
    return bodies, check, ways


@pytest.mark.parametrize("capacity", [1, 2])
def test_slices_grow_until_they_are_taken(explored, capacity):
    bodies, check, ways = slices(capacity, (1, 2))
    explored(f"slices in a port of {capacity}", bodies, check)
    assert ways == {((0, 3),), ((0, 1), (1, 3))}  # cut or not


def test_the_watermark_read_after_the_row_count_is_found(found):
    bug = planted(
        peek,
        '    value = load_acquire(slot, "value")\n    last = load_acquire(slot, "last")\n',
        '    last = load_acquire(slot, "last")\n    value = load_acquire(slot, "value")\n',
    )
    failures = found(*slices(2, (1, 1), peek=bug)[:2])
    assert set(failures) == {"sc", "tso", "weak"}
    assert "late" in failures["sc"]


def test_the_watermark_published_before_the_rows_is_found(found):
    bug = planted(
        publish_rows,
        '    store_release(slot, "last", last)\n    store_release(slot, "value", watermark)\n',
        '    store_release(slot, "value", watermark)\n    store_release(slot, "last", last)\n',
    )
    assert set(found(*slices(2, (1, 1), publish_rows=bug)[:2])) == {"sc", "tso", "weak"}


def test_rows_published_relaxed_are_found(found):
    bug = planted(publish_rows, 'store_release(slot, "last"', 'store_relaxed(slot, "last"')
    assert set(found(*slices(2, (1, 1), publish_rows=bug)[:2])) == {"weak"}


def test_closing_before_the_last_watermark_is_found(found):
    """The descriptor leaves the ring, and the watermark after its last row is never read."""
    bug = planted(
        peek,
        '    closed = load_acquire(slot, "closed")\n'
        '    value = load_acquire(slot, "value")\n'
        '    last = load_acquire(slot, "last")\n',
        '    value = load_acquire(slot, "value")\n'
        '    last = load_acquire(slot, "last")\n'
        '    closed = load_acquire(slot, "closed")\n',
    )
    failures = found(*slices(1, (1, 1), peek=bug)[:2])
    assert set(failures) == {"sc", "tso", "weak"}
    assert "lost" in failures["sc"]


# ---- all interleavings: room ---------------------------------------------------------------


@record
class Bell:
    rung: i64 = line()


def send_or_wait(port, bell, count):
    """A producer that sleeps when the port is full, until the consumer rings."""
    for i in range(count):
        while not push_mark(port, MARKER, i, 0):
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
