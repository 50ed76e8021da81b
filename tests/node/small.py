"""A small engine for explorations: the records of a real one, its loop interpreted, toy units.

A unit is a mailbox: who puts a letter in announces the unit, and a run takes all letters out. The
run that has taken the last one tells all workers to stop, so that a forgotten unit is a deadlock.
What workers do around it is the loop itself, `worker.work_on`, with the hooks of a scheduler.
"""

from tests.node.explore import planted

from headrace.node.claims import UnitState
from headrace.node.free_list import NO_UNIT, put
from headrace.node.mode import Mode
from headrace.node.schedulers.hooks import EngineRecord, Worker, ready
from headrace.node.schedulers.near import Near
from headrace.node.unit import AGAIN, STARVED, Run, Unit
from headrace.node.worker import LONGEST_SLEEP, stop_all, work_on
from headrace.stage.memory.atomics import fetch_add, load_acquire, pause, store_release
from headrace.stage.memory.records import compiled, i64, line, record

CONTROL = -1


@record
class Mailbox:
    """The task of a toy unit."""

    letters: i64 = line()  # written by its one sender
    read: i64 = line()  # written by who runs the unit, without atomics: runs do not overlap
    step: i64  # how many letters a run takes; 0: all
    office: i64


@record
class Office:
    """What all mailboxes share."""

    read: i64 = line()  # letters, of all
    total: i64 = line()  # fixed: letters that there will be
    engine: i64


@compiled
def take_letters(worker, unit):
    """A run of a toy unit, in the place of `worker.run_once`."""
    box = Mailbox(Run(unit.run).task)
    letters = load_acquire(box, "letters")
    taken = letters - box.read
    if box.step != 0:
        taken = min(taken, box.step)
    box.read += taken
    left = letters - box.read
    office = Office(box.office)
    if taken > 0:
        before = fetch_add(office, "read", taken)
        if before + taken == office.total:
            stop_all(EngineRecord(office.engine))
    return AGAIN if left > 0 else STARVED


def no_timed_units(worker, engine, moment):
    """In the place of `worker.wake_timed`."""
    return LONGEST_SLEEP


def no_clock():
    """In the place of `ticks.now`."""
    return 0


@compiled
def send(worker, box, unit, letters):
    """Put letters into a mailbox, one by one."""
    for i in range(letters):
        store_release(box, "letters", i + 1)
        ready(worker, unit)


@compiled
def pause_instead(worker, spins, ns):
    """In the place of `worker.await_work`, where sleeping is not what is explored."""
    pause()


def wake_nobody(lot):
    """In the place of `parking.wake_one` and `wake_all`."""
    return False


AWAKE = {"await_work": pause_instead, "wake_one": wake_nobody, "wake_all": wake_nobody}

# A nap ends by itself; explored, it ends with the next store of another thread. A pause inside
# `put` would use that store up, and the nap would be without end.
NAPS = {**AWAKE, "put": planted(put, "        pause()\n", "")}


class Atomic:
    """A record whose fields the host reads and writes one by one, as x86 and the GIL let it."""

    def __init__(self, record, *nested):
        object.__setattr__(self, "_record", record)
        object.__setattr__(self, "_nested", nested)

    def __getattr__(self, name):
        if name in self._nested:
            return Atomic(getattr(self._record, name))
        return load_acquire(self._record, name)

    def __setattr__(self, name, value):
        store_release(self._record, name, value)


class SmallEngine:
    """Records for units and workers. bugs: functions that replace others of the same name."""

    def __init__(self, units=1, workers=1, letters=1, step=0, scheduler=None, **bugs):
        given = {"TRIES": 2, "SPINS": 0, "MOST_KEPT": 2, **bugs}
        self.mode = Mode(
            False, run_once=take_letters, wake_timed=no_timed_units, now=no_clock, **given
        )
        self.states, self.units = UnitState.allocate(units), Unit.allocate(units)
        self.record, self.office = EngineRecord.allocate(), Office.allocate()
        record, office = self.record, self.office
        record.states, record.units = self.states.address, self.units.address
        record.active = workers
        office.total, office.engine = units * letters, record.address
        self.boxes, self.kept = Mailbox.allocate(units), []
        for number in range(units):
            unit, box = self.units[number], self.boxes[number]
            run = Run.allocate()
            self.kept.append(run)
            unit.number, unit.run, run.task = number, run.address, box.address
            box.step, box.office = step, office.address
        self.scheduler = scheduler or Near(units, workers)
        self.hooks = self.new_hooks(self.scheduler)
        record.workers.hooks = self.hooks.address
        self.workers = [self.new_worker(number) for number in range(workers)]
        self.count, self.letters = units, letters
        self.work, self.send = self.mode.of(work_on), self.mode.of(send)

    def new_hooks(self, scheduler):
        hooks = self.mode.hooks_of(scheduler)
        self.kept += [scheduler, hooks]
        return hooks

    def new_worker(self, number):
        made, desk = Worker.allocate(), self.record.workers
        made.number, made.engine, made.held = number, self.record.address, NO_UNIT
        made.desk, made.turn.worker, made.hooks = desk.address, number, desk.hooks
        made.lot = desk.lot.address
        return made

    def sender(self, unit):
        """The body of a thread that sends all letters of a unit."""
        control = self.new_worker(CONTROL)
        return lambda: self.send(control, self.boxes[unit], unit, self.letters)

    def worker(self, number):
        """The body of a worker."""
        return lambda: self.work(self.workers[number])

    def bodies(self):
        """All senders and all workers."""
        senders = [self.sender(unit) for unit in range(self.count)]
        return senders + [self.worker(number) for number in range(len(self.workers))]

    def check(self, results):
        """At the end: all was read, and everybody has left."""
        assert [self.boxes[unit].read for unit in range(self.count)] == [self.letters] * self.count
        assert self.record.workers.lot.sleepers == self.record.bench.sleepers == 0
