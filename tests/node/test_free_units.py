"""The scheduler `free_list`: Streams figs. 4 to 6, over all interleavings of lists and looks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.explore import planted
from tests.node.small import NAPS, SmallEngine

import headrace as hr
from headrace.node.free_list import NO_UNIT
from headrace.node.port import new_port, push_mark
from headrace.node.schedulers.free_list import (
    LONGEST_NAP,
    FreeUnits,
    find_work,
    give_back,
    next_task,
    offer,
    on_done,
    on_ready,
    push_back,
    take,
    take_out,
)
from headrace.node.schedulers.hooks import AGAIN, ARRIVED, Turn
from headrace.node.unit import AGAIN as GOES_ON
from headrace.node.unit import BLOCKED, FINISHED, MORE, STARVED, Output, Run, Unit
from headrace.stage.memory.atomics import store_relaxed
from headrace.stage.memory.records import interpreted

UNITS = 6


# ---- one thread ----------------------------------------------------------------------------


class Asked:
    """A scheduler and the turns of its workers, interpreted."""

    def __init__(self, units=UNITS, workers=2):
        self.scheduler = FreeUnits(units, workers)
        self.units = Unit.allocate(units)
        self.turns = {}
        for worker in range(-1, workers):
            turn = self.turns[worker] = Turn.allocate()
            turn.scheduler, turn.worker = self.scheduler.memory, worker
            turn.units = self.units.address

    def ready(self, unit, how=ARRIVED, worker=-1):
        turn = self.turns[worker]
        turn.unit, turn.how = unit, how
        return interpreted(on_ready)(turn.address)

    def next(self, worker=0):
        self.turns[worker].limit = 0
        return interpreted(next_task)(self.turns[worker].address)

    def done(self, unit, answer, worker=0):
        turn = self.turns[worker]
        turn.unit, turn.answer = unit, answer
        interpreted(on_done)(turn.address)

    def give_back(self, worker=0):
        interpreted(give_back)(self.turns[worker].address)


@given(st.lists(st.tuples(st.integers(0, UNITS - 1), st.booleans()), max_size=40))
def test_the_least_recently_run_comes_first(steps):
    """Against a list of all units: those that have nothing to do go round, too (fig. 5)."""
    asked, order, ready = Asked(), [], set()
    for unit, looks in steps:
        asked.ready(unit)
        ready.add(unit)
        if unit not in order:
            order.append(unit)
        if looks:
            place = next(k for k, each in enumerate(order) if each in ready)
            found = order[place]
            assert asked.next() == found
            asked.done(found, STARVED)
            order = [*order[place + 1 :], *order[:place], found]
            ready.remove(found)
    assert {asked.next(-1) for _ in range(len(ready) + 1)} == ready | {NO_UNIT}


def test_who_finds_nothing_sleeps_ten_times_as_long():
    asked = Asked()
    naps = []
    for _ in range(7):
        assert asked.next() == NO_UNIT
        naps.append(asked.turns[0].nap)
    assert naps == [1_000, 10_000, 100_000, 1_000_000, LONGEST_NAP, LONGEST_NAP, LONGEST_NAP]
    asked.ready(3)
    assert asked.next() == 3 and asked.turns[0].nap < 1_000
    assert asked.next() == NO_UNIT and asked.turns[0].nap == 1_000


def test_a_worker_stays_with_a_unit_until_it_has_nothing_to_do():
    """Fig. 4: others come after it; one that has used up its time goes to the back."""
    asked = Asked()
    asked.ready(1)
    asked.ready(2)
    for _ in range(3):
        assert asked.next() == 1
        asked.done(1, GOES_ON)
        asked.ready(1, AGAIN, worker=0)
    assert asked.next() == 1
    asked.done(1, MORE)
    asked.ready(1, ARRIVED, worker=0)
    assert [asked.next(), asked.next(), asked.next()] == [2, 1, NO_UNIT]


def test_what_a_worker_stays_with_is_given_back():
    asked = Asked()
    asked.ready(1)
    assert asked.next() == 1
    asked.done(1, GOES_ON)
    asked.ready(1, AGAIN, worker=0)
    assert asked.next(1) == NO_UNIT
    asked.give_back()
    assert asked.next(1) == 1 and asked.turns[0].nap == 0


def test_a_finished_unit_leaves_the_queue():
    asked = Asked()
    asked.ready(1)
    asked.done(asked.next(), FINISHED)
    assert asked.scheduler._list.tail == asked.scheduler._list.head
    asked.ready(1)  # another query has got its number
    assert asked.next() == 1


def full(asked, unit, *lying):
    """Ports behind a unit, with so many marks before each reader."""
    ports = [new_port(32, unit, reader) for reader, _ in lying]
    for port, (_, count) in zip(ports, lying, strict=True):
        for _ in range(count):
            push_mark(port, 1, 0, 0, 0, 0, 0)
    table = np.array([port.address for port in ports], np.int64)
    output, run = Output.allocate(), Run.allocate()
    output.count, output.ports, run.outputs = len(ports), table.ctypes.data, output.address
    asked.units[unit].number, asked.units[unit].run = unit, run.address
    asked.units[unit].output_count = 1
    return ports, table, output, run


def test_the_reader_of_a_full_port_comes_next_then_the_unit():
    """Fig. 6: a quarter of what lies in the fullest port, then the unit, before all others."""
    asked = Asked()
    kept = full(asked, 1, (2, 5), (3, 16))
    for unit in (4, 1):
        asked.ready(unit)
    assert asked.next(1) == 4 and asked.next() == 1
    asked.ready(5)  # it is before them in the queue
    asked.ready(3)
    asked.done(1, BLOCKED)
    assert asked.next() == 3 and asked.turns[0].limit == 4
    asked.done(3, MORE)
    asked.ready(1, worker=0)  # there is room
    assert asked.next() == 1 and asked.turns[0].limit == 0
    assert kept


def test_a_reader_that_another_worker_has_is_left_to_it():
    """The figure tries again and again; here the worker looks for other work."""
    asked = Asked()
    kept = full(asked, 1, (3, 16))
    asked.ready(3)
    asked.ready(1)
    assert asked.next(1) == 3 and asked.next(0) == 1
    asked.done(1, BLOCKED)
    asked.ready(5)
    assert asked.next(0) == 5 and kept


# ---- all interleavings ---------------------------------------------------------------------


def small(units=1, letters=1, step=0, **bugs):
    made = SmallEngine(units, 1, letters, step, scheduler=FreeUnits(units, 1), **{**NAPS, **bugs})
    return made.bodies(), made.check


def test_a_worker_forgets_nothing(explored):
    explored("free_list, 1 unit", *small())
    explored(
        "free_list, 1 unit that takes a letter a run", *small(letters=2, step=1), models=("tso",)
    )


def looks(workers=2, units=1, **bugs):
    """Somebody offers a unit that is in the queue, while workers look for work, once each. Who has
    taken it tells that it is done."""
    scheduler = FreeUnits(units, workers)
    record = scheduler._record
    for unit in reversed(range(units)):
        interpreted(push_back)(record, unit)
    offering, finding = interpreted(offer, **bugs), interpreted(find_work, **bugs)
    pushing = interpreted(push_back, **bugs)

    def look():
        unit = finding(record)
        if unit != NO_UNIT:
            pushing(record, unit)
        return unit

    def check(results):
        queue = scheduler._list
        assert queue.tail - queue.head == units, "each is in the queue once"
        taken = sum(unit == 0 for unit in results[1:])
        assert taken + scheduler._standings[0].ready == 1, "it is there, or somebody had it"

    return [lambda: offering(record, 0), *[look] * workers], check


def test_two_workers_look_for_one_unit(explored):
    explored("free_list, 2 looks", *looks(), models=("tso", "sc"))
    explored("free_list, 1 look", *looks(workers=1))
    explored("free_list, a look at 2 units", *looks(workers=1, units=2))


def test_a_unit_that_is_not_pushed_back_is_found(found):
    """Where stores are seen at once, who offers it pushes it; else it may be lost."""
    bug = planted(take_out, "        push_back(record, unit)\n", "        pass\n")
    assert set(found(*looks(workers=1, take_out=bug))) == {"tso", "weak"}


def test_taking_without_an_update_is_found(found):
    """Both workers see that it is ready."""
    bug = planted(
        take,
        'return cas(standing, "ready", 1, 0)',
        'store_relaxed(standing, "ready", 0)\n    return True',
        store_relaxed=store_relaxed,
    )
    failures = found(*aside(take=bug), models=("tso", "sc"))
    assert set(failures) == {"tso", "sc"}


def aside(**bugs):
    """A unit that is ready: a worker comes to it in the queue, another one runs it as a reader."""
    scheduler = FreeUnits(1, 2)
    record = scheduler._record
    interpreted(offer)(record, 0)
    finding, taking = interpreted(find_work, **bugs), interpreted(take, **bugs)

    def check(results):
        assert [results[0] == 0, bool(results[1])].count(True) == 1

    return [lambda: finding(record), lambda: taking(record, 0)], check


def test_a_reader_is_taken_once(explored):
    explored("free_list, a reader of a full port", *aside())


def test_pushing_what_is_in_the_queue_is_found(found):
    bug = planted(push_back, "    if outside:\n", "    if outside or True:\n")
    failures = found(*looks(workers=1, push_back=bug), models=("tso", "sc"))
    assert all("in the queue once" in failure for failure in failures.values()) and failures


def test_offering_without_pushing_is_found(found):
    """A unit that was taken and could not be run is offered again, and nobody comes to it."""
    bug = planted(offer, "    push_back(record, unit)\n", "")
    failures = found(*small(offer=bug), models=("sc",))
    assert failures["sc"].startswith("deadlock")


# ---- an engine -----------------------------------------------------------------------------


@pytest.mark.usefixtures("no_thread_is_left")
def test_an_engine_that_has_it_takes_policies_later():
    with hr.Engine(workers=2, scheduler="free_list") as engine:
        assert engine.scheduling() == "scheduler 'free_list'"
        engine.use("fcfs")
        assert engine.scheduling().startswith("policy 'fcfs'")


@pytest.mark.compiled
def test_the_hooks_are_compiled():
    assert [hook.load(int).result for hook in FreeUnits.hooks] == ["integer"] * 5
