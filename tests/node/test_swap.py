"""Schedulers that are swapped, and workers that are suspended, over all interleavings.

`NodeEngine.use` is run as it is, on a stand-in for the engine whose records are read atomically, as
the host does it; workers are those of `small`.
"""

from contextlib import nullcontext
from types import SimpleNamespace

from tests.node.endless import SECONDS, Endless, await_that, engine_of
from tests.node.explore import planted
from tests.node.small import AWAKE, CONTROL, Atomic, SmallEngine

from headrace.node.claims import LISTED
from headrace.node.engine import MOST_UNITS, NodeEngine
from headrace.node.free_list import put
from headrace.node.schedulers.hooks import adopt, list_unit, put_in_force, worth_a_look
from headrace.node.schedulers.near import Near
from headrace.node.worker import ask_hook, let_work, sit_out, stop_all, wake_everybody
from headrace.stage.memory.atomics import pause, store_release
from headrace.stage.memory.records import interpreted

SLEEPING = SimpleNamespace(sleep=lambda seconds: pause())


class StandIn(SimpleNamespace):
    """What `use` needs of an engine."""

    @property
    def _closed(self):
        return self._record.workers.stop != 0


def swapping(small, until_adopted=NodeEngine._move_until_adopted):
    """The body of a thread that puts another scheduler in force."""
    mode, scheduler = small.mode, Near(small.count, len(small.workers))
    new, mover = small.new_hooks(scheduler), small.new_worker(CONTROL)
    waking, changing = mode.of(wake_everybody), mode.of(put_in_force)
    use, move = interpreted(NodeEngine.use), interpreted(NodeEngine._move)
    until = interpreted(until_adopted, time=SLEEPING)
    engine = StandIn(
        _lock=nullcontext(),
        _swapping=nullcontext(),
        _control_lock=nullcontext(),
        check=lambda: None,
        _record=Atomic(small.record, "workers"),
        _sets=SimpleNamespace(add=lambda scheduler: new.address, retire=lambda hooks: None),
        _worker=lambda number: mover,
        _made=SimpleNamespace(remove=lambda worker: None),
        _workers=[Atomic(worker) for worker in small.workers],
        _control=small.new_worker(CONTROL),
        _threads=[1],
        hosts=SimpleNamespace(engine_entered=nullcontext),
        mode=SimpleNamespace(
            put_in_force=lambda desk, hooks: changing(small.record.workers, hooks),
            adopt=mode.of(adopt),
            proposed=mode.of(ask_hook),
            list_unit=mode.of(list_unit),
            wake_all=lambda record: waking(small.record),
        ),
    )
    engine._move_until_adopted = lambda old, new: until(engine, old, new)
    engine._move = lambda mover, new: move(engine, mover, new)
    return lambda: use(engine, scheduler)


def begun(letters=2, workers=1, **bugs):
    """A unit that is listed and takes a letter a run, and its workers."""
    small = SmallEngine(workers=workers, letters=letters, step=1, **bugs)
    small.boxes[0].letters, small.states[0].state = letters, LISTED
    put(small.scheduler._list, 0)
    return small, [small.worker(number) for number in range(workers)]


def from_host(small):
    """The body of a sender on a thread of the host, which finds its own units elsewhere."""
    host = small.new_worker(CONTROL - 1)
    host.desk, host.hooks = small.record.hosts.address, 0
    return lambda: small.send(host, small.boxes[0], 0, small.letters)


# ---- swapping ------------------------------------------------------------------------------


def test_what_a_worker_has_begun_goes_to_the_new_scheduler(explored):
    small, workers = begun()
    explored("a swap during a run", [*workers, swapping(small)], small.check)


def test_two_workers_adopt_a_scheduler(explored):
    small, workers = begun(letters=1, workers=2, **AWAKE)
    explored("a swap with 2 workers", [*workers, swapping(small)], small.check, models=("sc",))


def listed_by_the_host(**bugs):
    small = SmallEngine(**AWAKE, **bugs)
    return [small.worker(0), from_host(small), swapping(small)], small.check


def test_what_the_host_lists_meanwhile_is_not_lost(explored):
    explored("a swap while the host lists", *listed_by_the_host(), models=("tso", "sc"))


def asleep(**bugs):
    """A worker that may sleep when there is another scheduler, which nobody tells it."""
    small = SmallEngine(**bugs)
    new, change = small.new_hooks(Near(1, 1)), small.mode.of(put_in_force)
    sending = from_host(small)

    def change_and_send():
        change(small.record.workers, new.address)
        sending()

    return [small.worker(0), change_and_send], small.check


def test_a_sleeper_sees_a_new_scheduler(explored):
    explored("a unit in a new scheduler", *asleep())


def lost(failures, *models):
    assert set(failures) == set(models)
    return all(failure.startswith("deadlock") for failure in failures.values())


def test_not_moving_once_more_is_found(found):
    bug = planted(
        NodeEngine._move_until_adopted,
        "        with self.hosts",
        "        if adopted:\n            return\n        with self.hosts",
    )
    small, workers = begun()
    bodies = [*workers, swapping(small, until_adopted=bug)]
    assert lost(found(bodies, small.check, models=("tso", "sc")), "tso", "sc")


def test_adopting_without_giving_back_is_found(found):
    bug = planted(adopt, "call(old.give_back, asked(worker, old).address)", "asked(worker, old)")
    small, workers = begun(adopt=bug)
    failures = found([*workers, swapping(small)], small.check, models=("tso", "sc"))
    assert lost(failures, "tso", "sc")


def test_a_last_scan_that_ignores_the_new_scheduler_is_found(found):
    bug = planted(worth_a_look, "if current != worker.hooks:", "if current == 0:")
    assert lost(found(*asleep(worth_a_look=bug)), "sc", "tso", "weak")


def test_a_host_that_does_not_look_again_is_found(found):
    bug = planted(list_unit, "        if hooks == known:\n", "        if hooks != 0:\n")
    failures = found(*listed_by_the_host(list_unit=bug), models=("tso", "sc"))
    assert lost(failures, "tso", "sc")


def test_a_look_without_an_update_is_found(found):
    """The unit is still in the store buffer of the host when it looks."""
    bug = planted(list_unit, '        fetch_add(desk, "changes", 0)\n', "")
    assert lost(found(*listed_by_the_host(list_unit=bug), models=("tso", "sc")), "tso")


# ---- suspension ----------------------------------------------------------------------------


def suspending(small, workers):
    """The body of a thread that lets only some workers run."""
    let = small.mode.of(let_work)
    return lambda: let(small.record, workers)


def suspended(**bugs):
    """Two workers, the second of which has begun a unit when it is suspended."""
    small, workers = begun(workers=2, **bugs)
    return [*workers, suspending(small, 1)], small.check


def test_what_a_suspended_worker_has_begun_is_taken_by_another(explored):
    explored("a worker is suspended", *suspended(), models=("sc",))


NOT_RINGING = planted(sit_out, "    ring(Desk(worker.desk).lot, 1)\n", "")


def stopped(**bugs):
    """A worker that is suspended, and a stop. It does not ring: nobody is there, and a bell that
    changes with each turn would make as many states."""
    small = SmallEngine(workers=2, **{"sit_out": NOT_RINGING, **bugs})
    small.record.active = 1
    stop = small.mode.of(stop_all)

    def check(results):
        assert small.record.bench.sleepers == 0

    return [small.worker(1), lambda: stop(small.record)], check


def resumed(**bugs):
    """A worker that is suspended, has a unit, and may go on."""
    small, _ = begun(letters=1, workers=2, **{"sit_out": NOT_RINGING, **bugs})
    small.record.active = 1
    return [small.worker(1), suspending(small, 2)], small.check


def test_a_suspended_worker_hears_of_the_stop(explored):
    explored("stopping a suspended worker", *stopped())


def test_a_suspended_worker_goes_on(explored):
    explored("a worker that goes on", *resumed())


def test_suspending_without_a_barrier_is_found(found):
    bug = planted(let_work, "store_sc", "store_release", store_release=store_release)
    assert lost(found(*resumed(let_work=bug)), "tso", "weak")


def test_a_relaxed_look_at_the_stop_is_found(found):
    old, new = 'load_sc(Desk(worker.desk), "stop")', 'load_acquire(Desk(worker.desk), "stop")'
    bug = planted(NOT_RINGING, old, new)
    assert lost(found(*stopped(sit_out=bug)), "weak")


def test_a_suspended_worker_that_keeps_what_it_has_begun_is_found(found):
    old = "call(hooks.give_back, asked(worker, hooks).address)"
    bug = planted(sit_out, old, "asked(worker, hooks)")
    assert lost(found(*suspended(sit_out=bug), models=("sc",)), "sc")


def test_giving_back_without_ringing_is_found(found):
    assert lost(found(*suspended(sit_out=NOT_RINGING), models=("sc",)), "sc")


# ---- what is kept of schedulers that were replaced ---------------------------------------------


def test_a_scheduler_is_forgotten_when_nobody_can_be_inside():
    with engine_of(workers=2) as engine:
        query, inner = Endless(), engine._engine
        job = engine.submit(query.output)
        await_that(query.has_rows())
        there = len(inner._sets)
        with inner.hosts.engine_entered():  # as a thread of the host that lists a unit
            for _ in range(3):
                inner.use(Near(MOST_UNITS, 2))
            assert len(inner._sets) == there + 3

        def use_one_more():
            inner.use(Near(MOST_UNITS, 2))
            return len(inner._sets) <= there + 1  # some of the host may be inside right now

        await_that(use_one_more)
        await_that(query.has_rows())
        assert job.stop(timeout=SECONDS)
    query.check(job)
