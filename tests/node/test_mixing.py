"""Rows in any order: each is handed on once, and marks behind what they close.

`passing.run_merge`, of a MIX, and `collecting.run_collect` as they are, over all orders in which
things may arrive, and all choices of when the unit runs in between; then over all interleavings
with those who push. A log stands for the readers behind.
"""

from itertools import permutations, product

import pytest
from tests.node.explore import planted

from headrace.node.collecting import run_collect, take_mark_of_owner
from headrace.node.passing import MergeRecord, edge_that_may_go, run_merge
from headrace.node.port import (
    PROGRESS,
    ROWS,
    SETTLED,
    SPLIT,
    WATERMARK,
    new_port,
    open_rows,
    push_mark,
)
from headrace.node.unit import MIX, Edge, Output, Run, Unit
from headrace.stage.clock import NEVER
from headrace.stage.memory.atomics import pause
from headrace.stage.memory.records import array, compiled, i64, interpreted, line, record

MOST = 12
MARK = 1000  # that a log says of a mark: times its kind, and its value added


@record
class Log:
    """What was handed on."""

    count: i64 = line()
    things: array(i64, MOST)


@record
class Watermark:
    """Of the one channel."""

    value: i64 = line()


@compiled
def note(log, thing):
    log.things[log.count] = thing
    log.count += 1


@compiled
def note_rows(log, output, block, first, last, limit, serial, due):
    """For `emit.hand_on`."""
    note(log, first)


@compiled
def note_mark(log, output, mark):
    """For `emit.give_mark`."""
    note(log, MARK * mark.kind + mark.value)


@compiled
def push(port, kind, serial, value):
    """Rows, or a mark."""
    if kind == ROWS:
        return open_rows(port, 0, value, value + 1, value + 1, serial, 0)
    return push_mark(port, kind, serial, value, 0, 0, 0)


def nothing(*_):
    """For `emit.let_go` and `hooks.ready`."""


def always(worker, output):
    """For `emit.has_places`."""
    return True


def never(unit):
    """For `unit.is_cancelled`."""
    return False


TOYS = {
    "hand_on": note_rows, "give_mark": note_mark, "let_go": nothing, "ready": nothing,
    "has_places": always, "is_cancelled": never,
}  # fmt: skip


class Mixing:
    """A unit with an edge for each sender, and a log."""

    def __init__(self, run, senders, bugs):
        kinds = Log, Unit, Run, MergeRecord, Output, Watermark
        self.log, self.unit, state, merge, output, watermark = (kind.allocate() for kind in kinds)
        self.ports, edges = [new_port(4) for _ in senders], Edge.allocate(len(senders))
        self.kept = [state, merge, output, watermark, edges]
        for k, port in enumerate(self.ports):
            edges[k].port = port.address
        unit = self.unit
        unit.kind = MIX  # `run_merge` asks
        unit.edges, unit.edge_count, unit.run = edges.address, len(senders), state.address
        unit.output_count, state.outputs, state.task = 1, output.address, merge.address
        merge.channels = merge.open = 1
        merge.watermarks, merge.sent, watermark.value = watermark.address, NEVER, NEVER
        self.step = interpreted(run, **{**TOYS, **bugs})

    @property
    def things(self):
        return [self.log.things[k] for k in range(self.log.count)]


def arrivals(senders):
    """All orders in which what senders push may come, each with all choices of when the unit runs
    in between: (sender, whether it runs then)."""
    turns = [k for k, sender in enumerate(senders) for _ in sender]
    for order in sorted(set(permutations(turns))):
        for runs in product((False, True), repeat=len(turns) - 1):
            yield tuple(zip(order, (*runs, True), strict=True))


def wrong(run, expected, senders, **bugs):
    """The first order of arrivals after which something wrong was handed on, and what. expected:
    of each thing, all that comes before it."""
    for arrival in arrivals(senders):
        mixing, steps = Mixing(run, senders, bugs), [iter(sender) for sender in senders]
        for sender, runs in arrival:
            assert push(mixing.ports[sender], *next(steps[sender]))
            if runs:
                mixing.step(mixing.log, mixing.unit)
        things = mixing.things
        kept = (expected[thing] <= set(things[:k]) for k, thing in enumerate(things))
        if sorted(things) != sorted(expected) or not all(kept):
            return arrival, things
    return None


def mark(kind, value):
    return MARK * kind + value


# The rows of split 1 may come first.
REPLICAS = (
    ((ROWS, 0, 1), (ROWS, 0, 2), (SPLIT, 0, 10)),
    ((ROWS, 1, 3), (SPLIT, 1, 20)),
)
MIXED = {
    1: set(),
    2: {1},
    3: set(),
    mark(WATERMARK, 10): {1, 2},
    mark(SETTLED, 10): {1, 2, mark(WATERMARK, 10)},
    mark(WATERMARK, 20): {1, 2, 3, mark(SETTLED, 10)},
    mark(SETTLED, 20): {mark(WATERMARK, 20)},
}
OWNERS = (
    ((ROWS, 0, 1), (WATERMARK, 0, 10), (ROWS, 0, 3)),
    ((ROWS, 0, 2), (PROGRESS, 0, 7), (WATERMARK, 0, 10)),
)
COLLECTED = {1: set(), 2: set(), mark(WATERMARK, 10): {1, 2}, 3: {1, mark(WATERMARK, 10)}}


def test_marks_of_splits_follow_the_rows_of_all_splits_before():
    assert wrong(run_merge, MIXED, REPLICAS) is None


def test_a_mark_follows_the_rows_of_all_owners():
    assert wrong(run_collect, COLLECTED, OWNERS) is None


def test_a_split_that_ends_before_its_turn_is_found():
    bug = planted(
        edge_that_may_go, "if run.slice.kind != SPLIT or run.slice.serial == serial:", "if True:"
    )
    assert wrong(run_merge, MIXED, REPLICAS, edge_that_may_go=bug)


def test_a_mark_of_one_owner_is_found():
    bug = planted(run_collect, "elif unit.arrived == unit.edge_count:", "elif unit.arrived > 0:")
    assert wrong(run_collect, COLLECTED, OWNERS, run_collect=bug)


def test_rows_behind_a_mark_that_do_not_wait_are_found():
    bug = planted(take_mark_of_owner, "edge.waiting = 1", "edge.waiting = 0")
    assert wrong(run_collect, COLLECTED, OWNERS, take_mark_of_owner=bug)


# ---- over all interleavings ------------------------------------------------------------------


def send(port, steps):
    """A replica, or an owner."""
    for i in range(len(steps)):
        kind, serial, value = steps[i]
        while not push(port, kind, serial, value):
            pause()


def take_mixed(log, unit, count):
    while log.count < count:
        run_merge(log, unit)
        if log.count < count:
            pause()
    return log.count


def take_collected(log, unit, count):
    while log.count < count:
        run_collect(log, unit)
        if log.count < count:
            pause()
    return log.count


def together(take, expected, senders, **bugs):
    """The unit runs while its senders push."""
    mixing, given = Mixing(run_merge, senders, {}), {**TOYS, **bugs}
    sending, taking = interpreted(send, **given), interpreted(take, **given)
    bodies = [lambda p=p, s=s: sending(p, s) for p, s in zip(mixing.ports, senders, strict=True)]
    bodies.append(lambda: taking(mixing.log, mixing.unit, len(expected)))

    def check(results):
        things = mixing.things
        assert sorted(things) == sorted(expected), things
        assert all(expected[thing] <= set(things[:k]) for k, thing in enumerate(things)), things

    return bodies, check


CASES = pytest.mark.parametrize(
    ("take", "expected", "senders"),
    [(take_mixed, MIXED, REPLICAS), (take_collected, COLLECTED, OWNERS)],
    ids=["mix", "collect"],
)


@CASES
def test_rows_that_come_meanwhile_are_handed_on(explored, take, expected, senders):
    explored("two senders", *together(take, expected, senders), models=("sc",))


@pytest.mark.soak
@CASES
def test_rows_that_come_meanwhile_with_store_buffers(explored, take, expected, senders):
    explored("two senders", *together(take, expected, senders))


def test_marks_that_go_by_meanwhile_are_found(found):
    split = planted(
        edge_that_may_go, "if run.slice.kind != SPLIT or run.slice.serial == serial:", "if True:"
    )
    assert "sc" in found(*together(take_mixed, MIXED, REPLICAS, edge_that_may_go=split))
    mark = planted(take_mark_of_owner, "edge.waiting = 1", "edge.waiting = 0")
    assert "sc" in found(*together(take_collected, COLLECTED, OWNERS, take_mark_of_owner=mark))
