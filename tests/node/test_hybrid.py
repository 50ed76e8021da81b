"""The hybrid queue: over all interleavings, and whole pipelines row by row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.choices import Seeded, choices
from tests.node.explore import planted
from tests.node.sizes import any_sizes

import headrace as hr
from headrace.node import engine
from headrace.node.assembling import Assembly, is_open, pick_in_order
from headrace.node.emit import finish_mark
from headrace.node.gathering import AT_MARK, EMPTY, HAS_ROWS, GatherRecord, Stand
from headrace.node.hybrid import (
    BUSY,
    NO_PART,
    HybridQueue,
    Part,
    SortedSlice,
    done,
    next_item,
    put_in,
    put_slice,
    resume,
    sort_rows,
    take,
    take_locked,
)
from headrace.node.parting import have, leave, put_down
from headrace.node.port import DONE, Port, Slice, has_room, new_port, peek, push_mark, want_room
from headrace.node.unit import Unit
from headrace.stage.blocks.layout import BlockRecord
from headrace.stage.clock import NEVER
from headrace.stage.memory.atomics import (
    exchange,
    fetch_add,
    load_acquire,
    pause,
    store_release,
)
from headrace.stage.memory.records import array, compiled, i64, interpreted, line, record
from headrace.stage.store import GROUP_SHIFT

ALL = {"sc", "tso", "weak"}

# ---- the queue -------------------------------------------------------------------------------

MOST = 4  # slices
NOTHING = -1  # in a queue where nobody has put a serial


@record
class Log:
    """The serials that a part was worked on for; without atomics: one at a time has it."""

    count: i64 = line()
    serials: array(i64, MOST)


@compiled
def work(queue, log, number):
    """An item."""
    part, made = Part(queue.parts)[number], Log(log)[number]
    made.serials[made.count] = next_item(queue, part)
    made.count += 1


@compiled
def consume(queue, log):
    """Figure 7: work until nobody has anything left."""
    while True:
        number = take(queue)
        if number == NO_PART:
            return
        while True:
            work(queue, log, number)
            if not done(Part(queue.parts)[number]):
                break


@compiled
def add(queue, log, serial):
    """One who has sorted a slice."""
    put_in(queue, serial)
    consume(queue, log)


class Setting:
    """A queue; slices are given as the parts that they have rows of, in order."""

    def __init__(self, slices, parts):
        self.queue, self.log = HybridQueue.allocate(), Log.allocate(parts)
        self.parts, self.slices = Part.allocate(parts), SortedSlice.allocate(MOST)
        self.rings = np.full((parts, MOST), NOTHING, np.int64)
        self.master, order = np.zeros(MOST * parts, np.int64), np.zeros((MOST, parts), np.uint8)
        queue = self.queue
        queue.master, queue.mask = self.master.ctypes.data, MOST * parts - 1
        queue.parts, queue.part_count = self.parts.address, parts
        queue.slices, queue.window = self.slices.address, MOST - 1
        for number in range(parts):
            self.parts[number].serials = self.rings[number].ctypes.data
        for serial, present in enumerate(slices):
            order[serial, : len(present)] = present
            self.slices[serial].present = len(present)
        for serial in range(MOST):
            self.slices[serial].order = order[serial].ctypes.data
        self._order = order

    @property
    def worked_on(self):
        logs = [self.log[number] for number in range(len(self.rings))]
        return [[log.serials[k] for k in range(log.count)] for log in logs]


def consumers(slices, parts=2, idle=0, **bugs):
    """A thread for each slice, which has sorted it, and some that only work."""
    made = Setting(slices, parts)
    body, alone = interpreted(add, **bugs), interpreted(consume, **bugs)
    log = made.log.address
    bodies = [lambda k=k: body(made.queue, log, k) for k in range(len(slices))]
    bodies += [lambda: alone(made.queue, log)] * idle
    expected = [[s for s, has in enumerate(slices) if number in has] for number in range(parts)]

    def check(results):
        assert made.worked_on == expected, f"worked on: {made.worked_on}"
        assert all(made.parts[number].count == 0 for number in range(parts))

    return bodies, check


def test_items_of_a_part_are_worked_on_once_and_in_order(explored):
    explored("two slices of a part", *consumers([(0,), (0,)], 1))
    explored("two slices, two parts", *consumers([(0, 1), (0,)]), models=("tso", "sc"))
    explored("three workers", *consumers([(0,), (0,)], 1, idle=1), models=("sc",))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_items_of_a_part_with_more_workers_and_slices(explored):
    explored("two slices, two parts", *consumers([(0, 1), (0,)]))
    explored("three workers", *consumers([(0,), (0,)], 1, idle=1))
    explored("a mark between", *consumers([(0,), (), (0,)], 1), models=("tso", "sc"))


def test_a_count_that_goes_down_early_is_found(found):
    """Before the item is worked on: then two workers have the part."""
    early = planted(
        consume,
        "work(queue, log, number)\n            if not done(Part(queue.parts)[number]):",
        "more = done(Part(queue.parts)[number])\n            work(queue, log, number)\n"
        "            if not more:",
    )
    assert "races" in found(*consumers([(0,), (0,)], 1, consume=early))["weak"]


def test_a_part_that_everybody_has_is_found(found):
    bug = planted(take, "if before == 0:", "if True:")
    assert "races" in found(*consumers([(0,), (0,)], 1, take=bug))["weak"]


def test_a_number_before_its_item_is_found(found):
    """In the master queue before the queue of its part."""
    bug = planted(
        put_slice,
        """        put_item(queue, Part(queue.parts)[number], serial)
        store_relaxed(i64s(queue.master), tail & queue.mask, number)
        tail += 1
        store_release(queue, "tail", tail)
""",
        """        store_relaxed(i64s(queue.master), tail & queue.mask, number)
        tail += 1
        store_release(queue, "tail", tail)
        put_item(queue, Part(queue.parts)[number], serial)
""",
    )
    failures = found(*consumers([(0,)], 1, idle=1, put_slice=bug))
    assert set(failures) == ALL and "races" in failures["weak"]


def test_a_relaxed_tail_is_found(found):
    bug = planted(
        put_slice, 'store_release(queue, "tail", tail)', 'store_relaxed(queue, "tail", tail)'
    )
    assert set(found(*consumers([(0,)], 1, idle=1, put_slice=bug))) == {"weak"}


def test_putting_in_without_a_second_look_is_found(found):
    bug = planted(put_in, "if not is_sorted(slice_of(queue, serial), serial):", "if True:")
    failures = found(*consumers([(0,), (0,)], 1, put_in=bug))
    assert set(failures) == ALL and "worked on: [[0]]" in failures["sc"]


def test_clearing_the_flag_with_a_store_is_found(found):
    bug = planted(
        put_in,
        'exchange(queue, "putting", 0)',
        'store_release(queue, "putting", 0)',
        store_release=store_release,
    )
    assert set(found(*consumers([(0,), (0,)], 1, put_in=bug))) == {"tso", "weak"}


# ---- the shared queue ------------------------------------------------------------------------


@compiled
def consume_locked(queue, log):
    """§4.1: one item after the other, together with its part."""
    while True:
        number = take_locked(queue)
        if number == NO_PART:
            return
        if number == BUSY:
            pause()
            continue
        work(queue, log, number)
        done(Part(queue.parts)[number])


def test_items_of_a_shared_queue_are_worked_on_once_and_in_order(explored):
    swap = {"consume": consume_locked}
    explored("two slices of a part", *consumers([(0,), (0,)], 1, **swap), models=("sc",))
    explored("two parts", *consumers([(0, 1)], 2, idle=1, **swap))


def test_a_part_of_a_shared_queue_that_two_have_is_found(found):
    bug = planted(take_locked, "if held != 0:", "if False:")
    swap = {"consume": consume_locked, "take_locked": bug}
    assert "races" in found(*consumers([(0,), (0,)], 1, **swap))["weak"]


# ---- parts that are put down -----------------------------------------------------------------


@record
class Bell:
    """By unit: it was told that it may go on."""

    rung: i64 = line()


@record
class Given:
    """What the part has given."""

    count: i64 = line()


@compiled
def ring(bells, unit):
    """For `hooks.ready`."""
    exchange(Bell(bells)[unit], "rung", 1)


@compiled
def run_once(unit, queue, given):
    """A run: a part that was put down, or the next one, gives a mark where there is room."""
    number = resume(queue, 0)
    if number == NO_PART:
        number = take(queue)
    if number == NO_PART:
        return
    have(unit, queue, number)
    part = Part(queue.parts)[number]
    port = Port(part.port)
    if not has_room(port) and not want_room(port):
        put_down(unit, queue)
        return
    push_mark(port, DONE, 0, 1, 0, 0, 0)
    leave(unit)
    done(part)
    fetch_add(given, "count", 1)


@compiled
def run_when_told(bells, unit, queue, given):
    """A unit: it runs once, for whatever reason, and whenever it is told, until all is given."""
    while True:
        run_once(unit, queue, given)
        while True:
            if load_acquire(given, "count") == 1:
                return
            rung = exchange(Bell(bells)[unit.number], "rung", 0)
            if rung != 0:
                break
            pause()


@compiled
def make_room(bells, port, slice):
    """Who sends takes out what is in the way."""
    peek(port, slice)
    finish_mark(bells, port, slice)


def full_part(units, **bugs):
    """A part whose port is full, and units that want to go on with it."""
    made, bells, given = Setting([(0,)], 1), Bell.allocate(units), Given.allocate()
    crew, port, slice = Unit.allocate(units), new_port(1), Slice.allocate()
    push_mark(port, DONE, 0, 0, 0, 0, 0)
    put_in(made.queue, 0)
    made.parts[0].port = port.address
    for k in range(units):
        crew[k].number, crew[k].part = k, NO_PART
    swap = {"ready": ring, **bugs}
    run, room = interpreted(run_when_told, **swap), interpreted(make_room, **swap)
    bodies = [lambda k=k: run(bells.address, crew[k], made.queue, given) for k in range(units)]
    bodies.append(lambda: room(bells.address, port, slice))

    def check(results):
        assert given.count == 1 and made.parts[0].count == made.queue.parked == 0

    return bodies, check


def test_a_part_that_was_put_down_is_gone_on_with(explored):
    explored("one unit", *full_part(1))
    explored("two units", *full_part(2), models=("tso", "sc"))


def test_who_goes_on_with_a_part_and_is_not_told_is_found(found):
    """Another one is, which had the part before, and finds nothing that was put down."""
    bug = planted(have, 'store_relaxed(Port(part.port), "producer", unit.number)', "pass")
    failures = found(*full_part(2, have=bug), models=("tso", "sc"))
    assert set(failures) == {"tso", "sc"} and failures["sc"].startswith("deadlock")


def test_a_part_that_two_go_on_with_is_found(found):
    bug = planted(resume, 'taken = cas(part, "parked", 1, 0)', "taken = True")
    assert found(*full_part(2, resume=bug), models=("tso", "sc"))


# ---- putting slices together -----------------------------------------------------------------


def sorted_rows(hashes, parts):
    """A slice that was sorted: the numbers of its rows, by part, and the order of these."""
    slice, count = SortedSlice.allocate(), len(hashes)
    kept = np.array(hashes, np.uint64).view(np.int64)
    made = {"order": "u1", "parts": "u1", "rows": "i4", "starts": "i4", "ends": "i4"}
    arrays = {name: np.zeros(max(count, parts) + 1, kind) for name, kind in made.items()}
    for name, array_of in arrays.items():
        setattr(slice, name, array_of.ctypes.data)
    slice.hashes, slice.count, slice.part_count = kept.ctypes.data, count, parts
    interpreted(sort_rows)(slice.address)
    starts, rows = arrays["starts"], arrays["rows"]
    by_part = [rows[starts[k] : starts[k + 1]].tolist() for k in range(parts)]
    return by_part, arrays["order"][: slice.present].tolist(), slice.left


@given(st.lists(st.integers(0, 127)), st.sampled_from([1, 4, 128]))
def test_rows_of_a_slice_are_sorted_by_part(groups, parts):
    by_part, order, left = sorted_rows([group << GROUP_SHIFT for group in groups], parts)
    of_rows = [group * parts // 128 for group in groups]
    assert by_part == [[r for r, of in enumerate(of_rows) if of == k] for k in range(parts)]
    assert order == list(dict.fromkeys(of_rows)) and left == len(order)


def put_together(choose, **bugs):
    """A slice whose parts come further step by step: what rows have become, as it was picked."""
    parts, fan_out = choose.number(1, 3), [choose.number(0, 3) for _ in range(choose.number(1, 8))]
    of_rows = np.array([choose.number(0, parts - 1) for _ in fan_out], np.uint8)
    places = np.arange(len(fan_out)) * 2 + 1
    made = [np.repeat(places[of_rows == k], np.array(fan_out)[of_rows == k]) for k in range(parts)]
    assembly, gather, slice = Assembly.allocate(), GatherRecord.allocate(), SortedSlice.allocate()
    stands, block, room = Stand.allocate(parts), BlockRecord.allocate(), 4
    picked = np.zeros((2, room), np.int32)
    gather.edges, gather.rows = (part.ctypes.data for part in picked)
    gather.stands, block.capacity = stands.address, room
    slice.parts, slice.places = of_rows.ctypes.data, places.ctypes.data
    slice.count = len(fan_out)
    pick, given = interpreted(pick_in_order, **bugs), []
    come, taken, over = [0] * parts, [0] * parts, [False] * parts
    while not all(over) or assembly.row < slice.count:
        k = choose.number(0, parts - 1)
        over[k] = over[k] or come[k] == len(made[k])
        come[k] = min(come[k] + choose.number(0, 2), len(made[k]))
        for at, stand in enumerate(stands[each] for each in range(parts)):
            stand.next, stand.slice.last = taken[at], come[at]
            stand.places, stand.head = made[at].ctypes.data, NEVER
            stand.state = AT_MARK if over[at] and taken[at] == len(made[at]) else EMPTY
            if taken[at] < come[at]:
                stand.state, stand.head = HAS_ROWS, made[at][taken[at]]
        for edge, row in picked[:, : pick(assembly, gather, slice, block)].T.tolist():
            given.append(int(made[edge][row]))
            taken[edge] += 1
    return given, np.repeat(places, fan_out).tolist()


@given(choices())
def test_what_rows_become_is_picked_in_their_order(choose):
    found, expected = put_together(choose)
    assert found == expected


def test_picking_as_parts_come_is_found():
    """And not in the order of the input."""
    bug = planted(is_open, "return place >= stand.passed", "return False")
    found = (put_together(Seeded(seed), is_open=bug) for seed in range(20))
    assert any(made != expected for made, expected in found)


# ---- whole pipelines -------------------------------------------------------------------------

SECONDS = 120.0
pytestmark = pytest.mark.usefixtures("no_thread_is_left")


def uneven(state, n):
    """None, one or many rows for a row, by the order of those of its key."""
    state.last, before = n, state.last
    if n % 5 == 0:
        for k in range(120):
            yield n * 1000 + k
    elif n % 3:
        yield n - before


def keyed(rows, keys=7):
    return hr.read.memory({"n": list(range(rows)), "k": [n * n % keys for n in range(rows)]})


def processed(rows, function=uneven, keys=7):
    stream = keyed(rows, keys).key_by("k")
    return stream.process(function, state={"last": int}, output={"m": hr.int64}, columns=["n"])


def run_hybrid(*outputs, **options):
    given = {"workers": 3, "compiled": False, "capacity": 16, **options}
    job = hr.start(*outputs, engine="node", partitioning="hybrid", **given)
    assert job.await_termination(SECONDS), "it does not end"
    return job


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_become_many_stay_in_their_place(seed, monkeypatch):
    """Parts lack room in the middle of a row, are put down, and others go on with them."""
    output = processed(60).write.collect()
    hr.run(output, engine="thread", compiled=False)
    expected = output.result()
    with any_sizes(Seeded(seed)), pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "OWNERS", 0)
        run_hybrid(output)
    assert output.result().equals(expected)


@pytest.mark.compiled
def test_they_do_so_compiled():
    output = processed(3_000, keys=500).filter(hr.col("m") % 7 != 3).write.collect()
    hr.run(output, engine="thread", compiled=False)
    expected = output.result()
    run_hybrid(output, workers=2, compiled=True, capacity=256)
    assert output.result().equals(expected)


@pytest.mark.parametrize("seed", range(4))
def test_the_first_error_in_order_is_the_one_that_is_reported(seed):
    """Rows of one slice and of others fail, in several parts."""

    def fails(state, n):
        state.last = n
        yield 1 // ((n - 23) * (n - 24) * (n - 25) * (n - 57))

    output = processed(80, fails).write.collect()
    with any_sizes(Seeded(seed)), pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "OWNERS", 0)
        with pytest.raises(ArithmeticError, match=r"(?s)n.*23\b"):
            hr.run(
                output, engine="node", workers=4, compiled=False, capacity=64,
                partitioning="hybrid",
            )  # fmt: skip


@pytest.mark.parametrize("on_error", ["skip", "dead_letter"])
def test_rows_that_fail_are_left_out(on_error):
    """Letters leave by an output of their own, so who gives them has owners."""

    def fails(state, n):
        state.last += n
        yield state.last // (n % 5)

    stream = keyed(40).key_by("k")
    given = {"state": {"last": int}, "output": {"m": hr.int64}, "columns": ["n"]}
    made = stream.process(fails, on_error=on_error, **given)
    outputs = [made.filter(hr.col("m") > 3).write.collect()]
    if on_error == "dead_letter":
        outputs.append(made.dead_letters().select("n").write.collect())
    hr.run(*outputs, engine="thread", compiled=False)
    expected = [output.result() for output in outputs]
    said = hr.explain(*outputs, engine="node", partitioning="hybrid")
    assert ("by a hybrid queue" in said) == (on_error == "skip")
    run_hybrid(*outputs)
    assert [output.result() for output in outputs] == expected


def test_metrics_say_how_skewed_key_groups_are():
    one, many = keyed(64, keys=1), keyed(64, keys=61)
    found = [
        run_hybrid(stream.key_by("k").running(c=hr.count()).write.collect()).metrics()["running_1"]
        for stream in (one, many)
    ]
    assert found[0]["skew"] == 64 > found[1]["skew"] > 1  # of 64 parts, one has all rows
    assert found[0]["reordering"] == 0 and found[0]["reordering_most"] >= 1
    owned = hr.start(
        keyed(64, keys=1).key_by("k").running(c=hr.count()).write.collect(),
        engine="node", workers=3, compiled=False,
    )  # fmt: skip
    assert owned.await_termination(SECONDS)
    assert owned.metrics()["running_1"]["skew"] == 3


def test_explain_says_which_stages_have_a_hybrid_queue():
    def said(stream, **options):
        return hr.explain(stream.write.collect(), engine="node", **options)

    stream = processed(3)
    assert "by a hybrid queue" in said(stream, partitioning="hybrid")
    assert "hybrid queue" not in said(stream) and "owned" in said(stream)
    windows = keyed(3).with_watermark("n", 0).key_by("k").window(hr.tumbling(2))
    why = "no hybrid queue: windows give results by watermarks and keys, not by rows"
    assert why in said(windows.agg(c=hr.count()), partitioning="hybrid")
    assert "owned" in said(windows.agg(c=hr.count())) and "no hybrid" not in said(stream)
    both = stream.key_by("k").running(c=hr.count())
    assert "no hybrid queue: it has several kernels" in said(both, partitioning="hybrid")


def test_a_partitioning_that_does_not_exist_is_an_error():
    with pytest.raises(ValueError, match="partitioning='some': there is no such partitioning"):
        hr.explain(processed(3).write.null(), engine="node", partitioning="some")
    with pytest.raises(ValueError, match="does not know this option"):
        hr.run(processed(3).write.null(), engine="thread", partitioning="hybrid")
