"""The end of a query over all interleavings: its memory stays while one of its units is claimed.

`NodeEngine._are_home` is run as it is, twice, as `tidy` does.
"""

from types import SimpleNamespace

from tests.node.explore import planted
from tests.node.small import Atomic

from headrace.node.claims import RUNNING, UnitState, announce, claim, release
from headrace.node.engine import NodeEngine
from headrace.stage.memory.atomics import load_acquire, load_relaxed, pause, store_release
from headrace.stage.memory.records import compiled, i64, interpreted, line, record


@record
class Memory:
    """What the units of a query use: is it unmapped?"""

    closed: i64 = line()
    list: i64 = line()  # 1: the second unit is listed, in a scheduler of one place


class States:
    """The claims on units, as the host sees them."""

    def __init__(self, states):
        self.all = [Atomic(states[k]) for k in range(2)]

    def __getitem__(self, number):
        return self.all[number]


@compiled
def use(memory):
    closed = load_relaxed(memory, "closed")
    if closed != 0:
        raise ValueError("the memory is gone while a unit runs")


@compiled
def run_first(states, memory):
    """The first unit makes the second one ready before its run ends."""
    use(memory)
    listed = announce(states[1])
    if listed:
        store_release(memory, "list", 1)
    use(memory)
    release(states[0])


def run_second(states, memory):
    """Another worker, which takes what is listed."""
    listed = load_acquire(memory, "list")
    while listed == 0:
        pause()
        listed = load_acquire(memory, "list")
    ours = claim(states[1])
    if ours:
        use(memory)
        release(states[1])


def tidy(engine, memory, numbers, looks):
    """The control thread, until the units are home."""
    home = False
    while not home:
        home = True
        for _ in range(looks):
            if home:
                home = engine.are_home(engine, numbers)
        if not home:
            pause()
    store_release(memory, "closed", 1)


def ending(looks=2, are_home=NodeEngine._are_home, **bugs):
    states, memory = UnitState.allocate(2), Memory.allocate()
    states[0].state = RUNNING
    alive, running = SimpleNamespace(is_alive=lambda: True), SimpleNamespace(are_alive=True)
    engine = SimpleNamespace(
        _threads=[alive],
        _closed=False,
        hosts=running,
        table=[SimpleNamespace(hosted=0)] * 2,
        _states=States(states),
        are_home=interpreted(are_home),
    )
    first, second = interpreted(run_first, **bugs), interpreted(run_second, **bugs)
    numbers = (1, 0)  # the second one is looked at before the first one makes it ready
    tidying = interpreted(tidy)
    bodies = [
        lambda: first(states, memory),
        lambda: second(states, memory),
        lambda: tidying(engine, memory, numbers, looks),
    ]

    def check(results):
        assert memory.closed == 1

    return bodies, check


def test_memory_stays_while_a_unit_is_claimed(explored):
    explored("the end of a query", *ending(), models=("tso", "sc"))


def test_looking_once_is_found(found):
    failures = found(*ending(looks=1), models=("tso", "sc"))
    assert set(failures) == {"sc", "tso"} and "gone" in failures["sc"]


def test_a_look_that_forgets_listed_units_is_found(found):
    bug = planted(
        NodeEngine._are_home,
        "self._states[number].state == IDLE\n",
        "not self._states[number].state & RUNNING\n",
        RUNNING=RUNNING,
    )
    failures = found(*ending(are_home=bug), models=("tso", "sc"))
    assert set(failures) == {"sc", "tso"} and "gone" in failures["sc"]
