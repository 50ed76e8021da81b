"""What owners give, brought together: over all interleavings, and in whole pipelines that stall.

Explored is `gathering.gather_rows` as it is. Owners are scripts of what they push, in the order of
`running.run_kernel`; the planted bugs of that order are found in pipelines, on real threads.
"""

import time

import pytest
from tests.choices import Seeded
from tests.naive import naive, rows_of
from tests.node.explore import planted
from tests.running import assert_same

import headrace as hr
from headrace.node import building, engine
from headrace.node.blocks import NodeBlock
from headrace.node.gathering import (
    BYTES_8,
    GatheredColumn,
    GatherRecord,
    Stand,
    gather_rows,
    merge_rows,
    pick_by_place,
)
from headrace.node.mode import Mode
from headrace.node.port import PROGRESS, ROWS, SPLIT, new_port, open_rows, push_mark
from headrace.node.running import GO_ON, begin_input
from headrace.node.unit import AGAIN, NEXT, Edge, Output, Run, Unit
from headrace.stage.blocks.layout import ColumnRef
from headrace.stage.clock import NEVER
from headrace.stage.memory.atomics import load_acquire, pause, store_release
from headrace.stage.memory.calls import address_of, call
from headrace.stage.memory.records import array, compiled, i32, i64, i64s, interpreted, line, record

MOST = 4  # rows of a block
SECONDS = 60.0


@record
class Places:
    """The one column of a toy block."""

    values: array(i64, MOST) = line()


@record
class Picked:
    rows: array(i32, MOST) = line()


@record
class Turn:
    """What the first owner has done; the second one is given its mark behind it."""

    done: i64 = line()


def toy_block(places):
    block = NodeBlock.allocate(behind=ColumnRef.size)
    values = Places.allocate()
    for k, place in enumerate(places):
        values.values[k] = place
    block.block.columns[0].data = values.address
    block.block.rows, block.block.capacity = len(places), MOST
    return block, values


def give(port, steps, turn, waits):
    """An owner. The mark of the split reaches it only when the other one has taken its rows, if
    it waits."""
    for i in range(len(steps)):
        kind, block, rows, value = steps[i]
        if waits and kind == SPLIT:
            done = load_acquire(turn, "done")
            while done == 0:
                pause()
                done = load_acquire(turn, "done")
        while not push(port, kind, block, rows, value):
            pause()
    if not waits:
        store_release(turn, "done", 1)


@compiled
def push(port, kind, block, rows, value):
    """Rows, or a mark."""
    if kind == ROWS:
        return open_rows(port, block, 0, rows, rows, 0, 0)
    return push_mark(port, kind, 0, value, 0, 0, 0)


def gather_all(unit, gather, out, marks):
    """The places of all rows, and the marks, in the order in which they are given."""
    given = []
    while True:
        answer = gather_rows(None, unit, gather)
        if answer == GO_ON:
            given.append("mark")
            Run(unit.run).phase = NEXT
            if given.count("mark") == marks:
                return given
        elif answer == AGAIN:
            rows, places = out.block.rows, i64s(out.block.columns[0].data)
            for k in range(rows):
                place = places[k]
                given.append(place)
            out.block.rows = 0
        else:
            pause()


def has_room(worker, output, serial):
    """In the place of `emit.ready_to_write`."""
    return True


def tell_nobody(*_):
    """In the place of `publish`, `let_go` and `ready`."""


def gathering(*owners, ring=1, waits=False, **bugs):
    """owners: of each, lists of places (rows), numbers (how far it has come) and "mark"."""
    kept, ports, scripts = [], [new_port(ring) for _ in owners], []
    for owner in owners:
        steps = []
        for what in owner:
            if what == "mark":
                steps.append((SPLIT, 0, 0, 0))
            elif isinstance(what, int):
                steps.append((PROGRESS, 0, 0, what))
            else:
                block, values = toy_block(what)
                kept += [block, values]
                steps.append((ROWS, block.address, len(what), 0))
        scripts.append(tuple(steps))
    unit, gather, turn = Unit.allocate(), GatherRecord.allocate(), Turn.allocate()
    edges, stands = Edge.allocate(len(owners)), Stand.allocate(len(owners))
    column, picked = GatheredColumn.allocate(), Picked.allocate(2)
    out, values = toy_block([])
    given = {
        "ready_to_write": has_room, "publish": tell_nobody, "let_go": tell_nobody,
        "ready": tell_nobody, **bugs,
    }  # fmt: skip
    for k, port in enumerate(ports):
        edges[k].port, stands[k].passed = port.address, NEVER
    run, output = Run.allocate(), Output.allocate()
    unit.edges, unit.edge_count, unit.run = edges.address, len(owners), run.address
    run.outputs, output.block = output.address, out.address
    kept += [run, output]
    column.kind = BYTES_8
    gather.columns, gather.count, gather.watermark = column.address, 1, -1
    gather.stands, gather.edges, gather.rows = stands.address, picked[0].address, picked[1].address
    merge = interpreted(merge_rows, **given)
    gather.merge = address_of(merge)
    giving, taking = interpreted(give, **given), interpreted(gather_all, **given)
    marks = owners[0].count("mark")
    bodies = [
        lambda p=port, s=script, w=waits and k > 0: giving(p, s, turn, w)
        for k, (port, script) in enumerate(zip(ports, scripts, strict=True))
    ]
    bodies.append(lambda: taking(unit, gather, out, marks))
    rows = [each for owner in owners for each in split_rows(owner)]
    expected = []
    for number in range(marks):
        expected += [*sorted(p for which, p in rows if which == number), "mark"]

    def check(results):
        assert kept is not None and values is not None and merge is not None
        assert results[-1] == expected, f"given was {results[-1]}"

    return bodies, check


def split_rows(owner):
    """(split, place) of all rows that an owner gives."""
    split = 0
    for what in owner:
        if what == "mark":
            split += 1
        elif not isinstance(what, int):
            yield from ((split, place) for place in what)


ONE = ([3], "mark")
OTHER = ([2], "mark")
TWICE = ([1], "mark", [6], "mark")
SELDOM = ([2], "mark", 5, "mark")
BUSY = ([1], [2], [3], "mark")
IDLE = (4, "mark")


def test_rows_come_in_the_order_of_their_places(explored):
    explored("two owners", *gathering(ONE, OTHER), models=("sc",))
    explored("two owners, two splits", *gathering(TWICE, SELDOM), models=("sc",))


@pytest.mark.soak
@pytest.mark.parametrize(("one", "other"), [(ONE, OTHER), (TWICE, SELDOM)])
def test_rows_come_in_order_with_store_buffers(explored, one, other):
    explored("two owners", *gathering(one, other), models=("tso",))


@pytest.mark.soak
def test_rows_come_in_order_where_memory_is_weak(explored):
    explored("two owners", *gathering(([1], "mark"), ([2], "mark")))


def test_nobody_waits_for_an_owner_without_rows(explored):
    explored("an owner without rows", *gathering(BUSY, IDLE, waits=True), models=("sc",))


# ---- planted bugs --------------------------------------------------------------------------


def test_progress_that_is_told_before_the_rows_is_found(found):
    failures = found(*gathering(ONE, (5, [2], "mark")), models=("sc",))
    assert "given was" in failures["sc"]


def test_an_owner_that_tells_nothing_is_found(found):
    failures = found(*gathering(BUSY, ("mark",), waits=True), models=("tso", "sc"))
    assert set(failures) == {"sc", "tso"} and failures["sc"].startswith("deadlock")


def test_a_mark_that_is_taken_from_one_edge_is_found(found):
    bug = planted(gather_rows, "if unit.arrived == unit.edge_count:", "if unit.arrived > 0:")
    assert set(found(*gathering(ONE, OTHER, gather_rows=bug), models=("tso", "sc"))) == {
        "sc",
        "tso",
    }


def test_an_empty_edge_that_is_not_waited_for_is_found(found):
    bug = planted(pick_by_place, "sure = min(sure, stands[k].passed)", "sure = FOREVER - 1")
    failures = found(*gathering(ONE, OTHER, pick_by_place=bug), models=("sc",))
    assert "given was" in failures["sc"]


# ---- whole pipelines -----------------------------------------------------------------------


def totals(state, n):
    state.total += n
    yield state.total


def keyed(keys):
    rows = hr.read.memory({"n": list(range(len(keys))), "key": keys})
    return rows.key_by("key").process(totals, state={"total": int}, output=["total"])


def gathered(monkeypatch, seed, seconds=SECONDS, **bugs):
    """Run a pipeline with two owners, and the least room, that stalls at random."""
    random = Seeded(seed)

    def stalling(address, argument):
        if random.chance(20):
            time.sleep(random.number(0, 2) / 1000)
        return call(address, argument)

    slow = Mode(False, call=stalling, **bugs)
    monkeypatch.setattr(engine, "_mode", lambda compiled: slow)
    monkeypatch.setattr(engine, "OWNERS", 2)
    monkeypatch.setattr(building, "RING", 1)
    monkeypatch.setattr(building, "SPLIT_BLOCKS", random.pick([1, 4]))
    common = random.number(0, 9)
    keys = [random.number(0, 9) if random.chance(25) else common for _ in range(60)]
    collected = keyed(keys).write.collect()
    (expected,) = naive([collected])
    job = hr.start(
        collected, engine="node", workers=3, compiled=False, capacity=random.pick([1, 2])
    )
    ended = job.await_termination(seconds)
    if not ended:
        job.cancel()
        job.await_termination(SECONDS)
        return False
    assert_same(rows_of(collected.result()), expected, ordered=True)
    return True


@pytest.mark.parametrize("seed", range(6))
def test_owners_with_little_room(monkeypatch, seed):
    assert gathered(monkeypatch, seed), "it does not end"


def test_an_owner_that_starves_in_silence_is_found(monkeypatch):
    """All wait for it until every port is full."""
    bug = planted(begin_input, "if unit.place > unit.told:", "if unit.place < unit.told:")
    assert not all(gathered(monkeypatch, seed, 5.0, begin_input=bug) for seed in range(6))


def test_telling_progress_before_the_rows_is_found(monkeypatch):
    bug = planted(
        begin_input,
        "    most = worker.left\n",
        "    if unit.place_column >= 0:\n"
        "        slice = run.slice\n"
        "        places = NodeBlock(slice.block).block.columns[unit.place_column]\n"
        "        place = i64s(places.data)[slice.last - 1]\n"
        "        if place > unit.told:\n"
        "            unit.told, run.phase = place, MARKING\n"
        "            run.mark.kind, run.mark.value = PROGRESS, place\n"
        "            return GO_ON\n"
        "    most = worker.left\n",
    )
    with pytest.raises(AssertionError):
        for seed in range(12):
            gathered(monkeypatch, seed, begin_input=bug)
