"""The worklist of an operator: claims over all interleavings, and whole pipelines row by row."""

import time

import pytest
from hypothesis import given
from tests.choices import Seeded, choices, fewer
from tests.counts import count
from tests.node.explore import planted
from tests.node.schedulers import scheduled
from tests.node.sizes import any_sizes

import headrace as hr
from headrace.node import building, engine
from headrace.node.memory import Memory
from headrace.node.mode import Mode
from headrace.node.unit import GO_ON, Run, Unit
from headrace.node.worklist import Worklist, claim_slice, next_serial
from headrace.stage.memory.atomics import (
    exchange,
    fetch_add,
    load_acquire,
    pause,
    store_release,
)
from headrace.stage.memory.calls import call
from headrace.stage.memory.records import array, compiled, i64, interpreted, line, record

SECONDS = 120.0
ALL = {"sc", "tso", "weak"}

# ---- claims ----------------------------------------------------------------------------------

MOST = 4


@record
class Bell:
    """Rung when a unit may have something to do."""

    rung: i64 = line()


@record
class Desk:
    """What comes in, and who got it."""

    arrived: i64 = line()  # things so far; written by their sender
    taken: i64 = line()  # by who has the flag, without atomics: they do not overlap
    serials: array(i64, MOST)  # of each thing, plus 1; likewise
    all: i64 = line()  # things that were taken, for others to see


@record
class Hand:
    """A worker, as far as a claim asks."""

    left: i64 = line()
    desk: i64
    bells: i64


@compiled
def look(front):
    """For `running.next_input`."""
    desk = Desk(front.edges)
    arrived = load_acquire(desk, "arrived")
    return 0 if desk.taken < arrived else -1


def are_rows(worker, front):
    """For `running.at_rows`."""
    return True


def has_a_place(buffer, serial):
    """For `reorder.in_window`: the buffer is explored by itself."""
    return True


@compiled
def take(worker, unit, work):
    """For `seal_rows`."""
    desk = Desk(worker.desk)
    desk.serials[desk.taken] = next_serial(work) + 1
    desk.taken += 1
    fetch_add(desk, "all", 1)


@compiled
def left_over(work):
    """For `rows_left`."""
    desk = Desk(work.front.edges)
    taken = load_acquire(desk, "all")
    return load_acquire(desk, "arrived") - taken


@compiled
def is_left(work):
    """For `has_input`."""
    return left_over(work) > 0


@compiled
def ring(worker, unit):
    """For `hooks.ready`."""
    exchange(Bell(worker.bells)[unit], "rung", 1)


@compiled
def claim_all(worker, unit, work, desk, total):
    """A unit that claims until all is claimed; without anything to claim it waits to be told."""
    while True:
        worker.left = 1
        answer = claim_slice(worker, unit, work)
        while answer != GO_ON:
            claimed = load_acquire(desk, "all")
            if claimed == total:
                return
            rung = exchange(Bell(worker.bells)[unit.number], "rung", 0)
            if rung != 0:
                break
            pause()


@compiled
def send_things(worker, desk, total):
    """Who writes what comes in."""
    for k in range(total):
        store_release(desk, "arrived", k + 1)
        ring(worker, 0)


TOYS = {
    "next_input": look, "at_rows": are_rows, "in_window": has_a_place, "seal_rows": take,
    "rows_left": left_over, "has_input": is_left, "ready": ring,
}  # fmt: skip


def claims(units, things, sent=0, **bugs):
    """Units that claim things; the last `sent` of them come meanwhile."""
    desk, work, bells = Desk.allocate(), Worklist.allocate(), Bell.allocate(units)
    crew, hands = Unit.allocate(units), Hand.allocate(units + 1)
    ahead = Run.allocate()
    desk.arrived = things - sent
    work.front.edges, work.front.run = desk.address, ahead.address
    for k in range(units + 1):
        hands[k].desk, hands[k].bells = desk.address, bells.address
    for k in range(units):
        crew[k].number, crew[k].peer = k, (k + 1) % units
    claim = interpreted(claim_all, **{**TOYS, **bugs})
    bodies = [lambda k=k: claim(hands[k], crew[k], work, desk, things) for k in range(units)]
    if sent:
        give = interpreted(send_things, **{**TOYS, **bugs})
        bodies.append(lambda: give(hands[units], desk, things))

    def check(results):
        assert ahead.phase == 0
        serials = [desk.serials[k] - 1 for k in range(things)]
        assert serials == list(range(things)), f"serials: {serials}"

    return bodies, check


def test_serials_are_in_the_order_of_arrival(explored):
    explored("two claim two", *claims(2, 2))
    explored("two claim what comes", *claims(2, 1, sent=1))
    explored("three claim two", *claims(3, 2), models=("tso", "sc"))


def test_claiming_without_a_second_look_is_found(found):
    bug = planted(
        claim_slice, "if not has_input(work) or not in_window(work.buffer, serial):", "if True:"
    )
    failures = found(*claims(2, 1, sent=1, claim_slice=bug))
    assert set(failures) == ALL and failures["sc"].startswith("deadlock")


def test_two_claims_at_once_are_found(found):
    bug = planted(claim_slice, "if taken != 0:", "if False:")
    failures = found(*claims(2, 2, claim_slice=bug))
    assert "races" in failures["weak"]


def test_a_serial_that_is_taken_at_the_claim_is_found(found):
    """Before the flag, and so before it is known what it will be for."""
    early = planted(
        claim_slice,
        'taken = exchange(work, "sealing", 1)',
        'early = fetch_add(work, "serial", 1)\n        taken = exchange(work, "sealing", 1)\n'
        "        worker.left = early",
        fetch_add=fetch_add,
    )
    late = planted(take, "next_serial(work) + 1", "worker.left + 1")
    assert set(found(*claims(2, 2, claim_slice=early, seal_rows=late))) == ALL


def test_clearing_the_claim_with_a_store_is_found(found):
    bug = planted(
        claim_slice,
        'exchange(work, "sealing", 0)',
        'store_release(work, "sealing", 0)',
        store_release=store_release,
    )
    assert set(found(*claims(2, 1, sent=1, claim_slice=bug))) == {"tso", "weak"}


# ---- whole pipelines -------------------------------------------------------------------------


def many(n):
    """From no row to fifty for a row."""
    for k in range((n * 7) % 51):
        yield n * 100 + k


def ordered_rows(rows, window=10):
    """Rows behind an exchange, in the order of their windows and keys: each is its own."""
    numbers = list(range(rows))
    texts = [f"{n} " + "long enough for a heap " * (n % 3) for n in numbers]
    source = hr.read.memory({"n": numbers, "t": numbers, "s": texts}).with_watermark("t", 0)
    windows = source.key_by("n", "s").window(hr.tumbling(window)).agg(c=hr.count())
    return windows.select("n", "s", "c")


def _filtered(stream):
    return stream.filter(hr.col("n") % 3 != 1)


def _written(stream):
    return stream.with_columns(s=hr.concat(hr.col("s"), "!"), c=hr.col("c") + hr.col("n"))


def _multiplied(stream):
    return stream.flat_map(many, output={"n": hr.int64}, columns=["n"], carry=["s", "c"])


def _joined(stream):
    table = hr.table({"k": list(range(0, 40, 2)), "v": [k * 3 for k in range(20)]})
    renamed = stream.with_columns(k=hr.col("n") % 40)
    return renamed.join(table, on="k").with_columns(c=hr.col("c") + hr.col("v")).drop("v", "k")


def _called(stream):
    def passed(batch):
        return batch

    return stream.map_batches(passed, schema={"n": int, "s": str, "c": int})


def below_zero(n):
    """No row at all."""
    if n < 0:
        yield n


def _branches(stream):
    """Two ways that meet again: the order of each is kept, and only one of them has rows."""
    others = stream.flat_map(below_zero, output={"n": hr.int64}, columns=["n"], carry=["s", "c"])
    return stream.union(others)


STEPS = (_filtered, _written, _multiplied, _joined, _called, _branches)


def _random_steps(choose, stream):
    multiplied = False
    for _ in range(choose.number(1, 4)):
        step = choose.pick(STEPS)
        if step is not _multiplied or not multiplied:
            stream = step(stream)
        multiplied = multiplied or step is _multiplied
    return stream


def run_with(choose, output, *, compiled):
    """Run it with random sizes of everything."""
    with any_sizes(choose):
        job = hr.start(
            output,
            engine="node",
            workers=choose.number(1, 8),
            capacity=choose.pick([1, 3, 64, 1024]) if not compiled else choose.pick([16, 1024]),
            fuse=choose.pick(["auto", "none"]),
            compiled=compiled,
        )
        assert job.await_termination(SECONDS), "it does not end"
    return job


def sequential(output):
    """The rows of a run on one thread."""
    hr.run(output, engine="thread", compiled=False)
    return output.result()


def compare(choose, *, compiled, most_rows):
    output = _random_steps(choose, ordered_rows(choose.number(1, most_rows))).write.collect()
    expected = sequential(output)
    run_with(choose, output, compiled=compiled)
    assert output.result().equals(expected)


@pytest.mark.parametrize("workers", [2, 5])
def test_small_slices_are_copied_with_nulls_and_long_strings(workers):
    """Values of all widths, each null now and then."""
    n = hr.col("n")

    def sometimes(value, k, type):
        return hr.when(n % k != 0).then(value).otherwise(hr.lit(None, type))

    stream = ordered_rows(300).with_columns(
        text=sometimes(hr.col("s"), 2, hr.string),
        wide=sometimes(n * 1000, 3, hr.int64),
        narrow=sometimes((n % 100).cast(hr.int8), 5, hr.int8),
        middle=sometimes(n.cast(hr.int32), 7, hr.int32),
        real=sometimes(n / 7, 4, hr.float64),
        flag=sometimes(n > 50, 6, bool),
    )
    output = stream.write.collect()
    expected = sequential(output)
    hr.run(output, engine="node", workers=workers, compiled=False, capacity=32)
    assert output.result().equals(expected)


@pytest.mark.parametrize("seed", range(3))
def test_late_rows_stay_in_order(seed):
    """They leave by an output of their own; marks come behind the rows of both."""
    numbers = list(range(200))
    source = hr.read.memory({"n": numbers, "t": numbers}).with_watermark("t", 0)
    first = source.key_by("n").window(hr.tumbling(10)).agg(c=hr.count())
    second = first.filter(hr.col("n") % 3 != 0).key_by("n").window(hr.tumbling(5)).agg(d=hr.count())
    outputs = [second.write.collect(), second.late().write.collect()]
    hr.run(*outputs, engine="thread", compiled=False)
    expected = [output.result() for output in outputs]
    assert expected[1].num_rows > 0
    choose = Seeded(seed)
    with any_sizes(choose):
        options = {"workers": 3, "capacity": choose.pick([2, 16]), "fuse": "none"}
        job = hr.start(*outputs, engine="node", compiled=False, **options)
        assert job.await_termination(SECONDS), "it does not end"
    shared = [name for name, found in job.metrics().items() if "reorder_seconds" in found]
    assert any("on_time" in name for name in shared)
    assert [output.result() for output in outputs] == expected


@pytest.fixture
def stalls(monkeypatch):
    """Kernels wait at random, so others overtake them."""

    def begin(random):
        def stalling(address, argument):
            if random.chance(20):
                time.sleep(random.number(0, 3) / 1000)
            return call(address, argument)

        slow = Mode(False, call=stalling, MARKER_PERIOD=random.pick([100_000, 5_000_000]))
        monkeypatch.setattr(engine, "_mode", lambda compiled: slow)

    return begin


pytestmark = pytest.mark.usefixtures("no_thread_is_left")


@fewer
@given(choose=choices())
def test_random_operators_give_the_rows_of_one_worker_in_order(choose):
    compare(choose, compiled=False, most_rows=25)
    count("random operators without state behind an exchange")


@pytest.mark.parametrize("seed", range(12))
def test_operators_that_stall_give_the_rows_of_one_worker_in_order(seed, stalls):
    random = Seeded(seed)
    stalls(random)
    with scheduled(random.pick(["near", "random"])):
        compare(random, compiled=False, most_rows=60)
    count("random operators without state that stall")


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(6))
def test_random_operators_compiled(seed):
    compare(Seeded(seed), compiled=True, most_rows=4_000)
    count("random operators without state, compiled")


# ---- errors, fan-out, memory, ends -----------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_first_error_in_order_is_the_one_that_is_reported(seed, stalls):
    """Later ones may be found sooner, by other workers; they wait for their turn."""

    def fails(n):
        return 1 // ((n - 23) * (n - 24) * (n - 57))

    random = Seeded(seed)
    stalls(random)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "INTERPRETED_RUN_NS", 1)
        output = ordered_rows(80).map(fails, output="m", columns=["n"]).write.collect()
        with pytest.raises(ArithmeticError, match=r"(?s)n.*23\b"):
            hr.run(output, engine="node", workers=4, compiled=False, capacity=64)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
def test_a_row_that_becomes_many_blocks_stays_in_its_place(compiled):
    """The blocks of a slice whose turn it is pass through the buffer; those of others wait."""

    def counted(n):
        for k in range(500 if n % 5 == 0 else 1):
            yield n * 1000 + k

    output = ordered_rows(40).flat_map(counted, output="m", columns=["n"]).write.collect()
    hr.run(output, engine="node", workers=4, compiled=compiled, capacity=16)
    expected = [n * 1000 + k for n in range(40) for k in range(500 if n % 5 == 0 else 1)]
    assert output.result()["m"].to_pylist() == expected


def test_pools_of_few_blocks_are_enough(monkeypatch):
    """They do not grow: who lacks a block waits, and the one whose turn it is has its own."""
    monkeypatch.setattr(building, "BLOCKS", 2)
    monkeypatch.setattr(Memory, "grow", Memory._refuse)

    def counted(n):
        for k in range(50):
            yield n * 100 + k

    output = ordered_rows(300).flat_map(counted, output="m", columns=["n"]).write.collect()
    job = hr.start(output, engine="node", workers=4, capacity=16)
    assert job.await_termination(SECONDS), "it does not end"
    assert output.result()["m"].to_pylist() == [n * 100 + k for n in range(300) for k in range(50)]


def test_it_can_be_cancelled_while_slices_wait(stalls):
    stalls(Seeded(3))
    output = _written(ordered_rows(5_000)).write.collect()
    job = hr.start(output, engine="node", workers=4, compiled=False, capacity=16)
    time.sleep(0.3)
    job.cancel()
    assert job.await_termination(SECONDS)
    assert job.status in ("cancelled", "finished")


def test_a_sink_that_is_slow_holds_up_everything_and_loses_nothing(monkeypatch):
    monkeypatch.setattr(building, "RING", 1)
    found = []

    def take_slowly(batch):
        time.sleep(0.002)
        found.extend(batch["n"].to_pylist())

    output = _written(ordered_rows(2_000)).write.callback(take_slowly)
    job = hr.start(output, engine="node", workers=3, compiled=False, capacity=64)
    assert job.await_termination(SECONDS), "it does not end"
    assert found == list(range(2_000))


def test_metrics_and_explain_say_how_it_is_shared():
    output = _written(ordered_rows(500)).write.collect()
    job = hr.start(output, engine="node", workers=3, capacity=16, compiled=False)
    assert job.await_termination(SECONDS)
    (kernel,) = (m for m in job.metrics().values() if "reorder_seconds" in m)
    assert kernel["rows_in"] == kernel["rows_out"] == 500
    assert kernel["reorder_seconds"] > 0 and kernel["reordered"] > 1
    assert 1 <= kernel["reordering_most"] <= kernel["reordering_room"] and not kernel["reordering"]
    assert "on any number of workers at once, its rows in order" in job.explain()
    alone = hr.start(output, engine="node", workers=1, capacity=16, compiled=False)
    assert alone.await_termination(SECONDS)
    assert not any("reorder_seconds" in m for m in alone.metrics().values())


@pytest.mark.parametrize("policy", ["min_latency", "queue_size_throttling"])
def test_policies_see_the_units_of_an_operator_as_one(policy):
    output = _written(ordered_rows(500)).write.collect()
    job = hr.start(output, engine="node", workers=3, capacity=16, compiled=False, policy=policy)
    assert job.await_termination(SECONDS), "it does not end"
    assert output.result()["n"].to_pylist() == list(range(500))
