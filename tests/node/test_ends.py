"""How jobs end: soon, whatever a kernel or a call into Python does, and nothing is left."""

import _thread
import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from tests.choices import Seeded
from tests.counts import count
from tests.node.fed import SECONDS, Fed, reached

import headrace as hr
from headrace import col
from headrace.connect.delivery import Delivery
from headrace.node.engine import EngineError
from headrace.plan.connector import Batch

pytestmark = [
    pytest.mark.usefixtures("no_thread_is_left"),
    pytest.mark.compiled,
    pytest.mark.filterwarnings("ignore::headrace.plan.build.PlainPythonWarning"),
]

BLOCKED = 120.0  # seconds that a call blocks, or until the test lets it go
SOON = 20.0  # of a job that is over in two seconds where there is nothing else to do
ROWS = 5000
SEQUENCES, SIDES = 300, 6
WORDS = pa.table(
    {
        "t": np.arange(ROWS),
        "k": [f"a key that is too long to be short: {n % 5}" for n in range(ROWS)],
        "n": np.arange(ROWS),
    }
)


@pytest.fixture
def gate():
    """Blocks who waits for it until the end of the test."""
    made = Gate()
    yield made
    made.opened.set()


class Gate:
    """Calls that block: `entered` says that one does."""

    def __init__(self):
        self.entered, self.opened = threading.Event(), threading.Event()

    def wait(self, *_):
        self.entered.set()
        self.opened.wait(BLOCKED)

    def batch(self, batch):
        self.wait()
        return batch

    def source(self):
        return Blocking(self)


class Blocking(Fed):
    """A source whose poll blocks."""

    def __init__(self, gate):
        super().__init__("0")
        self._gate = gate

    def open(self, channel, start=None, stop=None, columns=None, predicate=None):
        return self

    def poll(self, max_rows, timeout):
        self._gate.wait()
        return Batch(None, None)


def busy(n: int) -> int:
    """About ten milliseconds."""
    total = n
    for k in range(2_000_000):
        total = (total * 31 + k) % 1_000_003
    return total


slow = hr.udf(busy)


def slowly():
    """A kernel of ten milliseconds a row, without end."""
    return hr.read.replay(WORDS, time="t").with_columns(m=slow(col("n")), k=col("k"))


def words(rows=None):
    """Windows by a string."""
    events = hr.read.replay(WORDS, time="t", rows=rows).with_watermark("t", 0)
    counts = events.filter(col("n") % 2 == 0).key_by("k").window(hr.tumbling(1000))
    return counts.agg(n=hr.count(), total=hr.sum("n"))


def numbers(rate=None):
    return hr.read.index(rate=rate)


def blocked(where, gate):
    """A pipeline that blocks in Python."""
    if where == "poll":
        return hr.read.source(gate.source()).write.null()
    if where == "write":
        return numbers().write.callback(gate.wait)
    if where == "map_batches":
        return numbers().map_batches(gate.batch, schema={"index": int}).write.null()
    return slowly().write.null()


KINDS = ["poll", "write", "map_batches", "kernel"]


def begun(job, where, gate):
    """Wait until it is in the middle of it."""
    if where == "kernel":
        assert reached(lambda: job.progress().rows_in > 0)
    else:
        assert gate.entered.wait(SECONDS)


@pytest.mark.parametrize("where", KINDS)
@pytest.mark.parametrize("engine", ["node", "thread"])
def test_cancel(engine, where, gate):
    job = hr.start(blocked(where, gate), engine=engine)
    begun(job, where, gate)
    started = time.monotonic()
    assert job.cancel(SOON)
    assert time.monotonic() - started < SOON
    assert job.status == "cancelled" and job.is_over and job.error is None
    assert job.await_termination(0)


@pytest.mark.parametrize("where", KINDS)
def test_close(where, gate):
    engine = hr.Engine(workers=2)
    job = engine.submit(blocked(where, gate))
    begun(job, where, gate)
    started = time.monotonic()
    engine.close()
    assert time.monotonic() - started < SOON
    assert job.is_over and job.status == "cancelled"


@pytest.mark.parametrize("where", KINDS)
def test_an_error_beside_it(where, gate):
    """One output fails while the other one is in the middle of something long."""

    def refuse(batch):
        if where != "kernel":
            assert gate.entered.wait(SECONDS)
        raise OSError("no room")

    failing = hr.read.index(100).write.callback(refuse)
    job = hr.start(blocked(where, gate), failing, engine="node", workers=2)
    with pytest.raises(OSError, match="no room"):
        assert job.await_termination(SECONDS)
    assert job.status == "failed"


def test_what_is_not_read_yet_holds_up_no_drain(gate):
    job = hr.start(blocked("poll", gate), engine="node")
    assert gate.entered.wait(SECONDS)
    assert job.stop(timeout=SOON) and job.status == "stopped"


@pytest.mark.parametrize("where", ["write", "map_batches", "kernel"])
def test_the_second_ctrl_c(where, gate):
    """The first one drains, which takes too long; the second one is raised."""
    jobs, interrupted = [], []

    def watch(job):
        jobs[:] = [job]
        ready = gate.entered.is_set() or (where == "kernel" and job.progress().rows_in > 0)
        if ready and len(interrupted) < 2:
            interrupted.append(time.monotonic())
            _thread.interrupt_main()

    with pytest.raises(KeyboardInterrupt):
        hr.run(blocked(where, gate), engine="node", workers=2, watch=watch)
    assert time.monotonic() - interrupted[1] < SOON
    assert jobs[0].status == "cancelled"


@pytest.mark.parametrize("where", ["write", "map_batches"])
def test_memory_stays_until_the_unit_is_home(where, gate):
    """What the job has used is freed when the call has come back, and not before."""
    seen = []

    def look(batch):
        gate.wait()
        seen.append(sum(batch.column("n").to_pylist()))
        return batch

    with hr.Engine(workers=2) as engine:
        rows = hr.read.replay(WORDS, rows=ROWS)
        if where == "write":
            job = engine.submit(rows.write.callback(look), capacity=ROWS)
        else:
            mapped = rows.map_batches(look, schema=hr.Schema.of({"t": int, "k": str, "n": int}))
            job = engine.submit(mapped.write.null(), capacity=ROWS)
        assert gate.entered.wait(SECONDS)
        assert job.cancel(SOON)
        inside = engine._engine
        (remains,) = inside._graveyard.remains
        assert not remains.memory.closed and remains.memory.bytes > 0
        assert engine.submit(words(ROWS).write.null()).await_termination(SECONDS)
        gate.opened.set()
        assert reached(lambda: not inside._graveyard.remains)
        assert remains.memory.closed and seen and seen[0] > 0


def test_a_kernel_in_a_long_run_keeps_its_memory():
    with hr.Engine(workers=2) as engine:
        jobs = [engine.submit(slowly().write.null(), capacity=64)]
        assert reached(lambda: jobs[0].progress().rows_in > 0)
        assert jobs.pop().cancel(SOON)
        gc.collect()
        light = words(ROWS).write.collect()
        assert engine.submit(light).await_termination(SECONDS)
        assert sum(light.result()["n"].to_pylist()) == ROWS // 2
        assert reached(lambda: not engine._engine._graveyard.remains)


# ---- close -------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["watch", "write", "map_batches"])
def test_close_from_a_callback(where):
    engine, closed = hr.Engine(workers=2), threading.Event()

    def close(*given):
        if job_is_there.wait(SECONDS) and not closed.is_set():
            engine.close()
            closed.set()
        return given[0]

    job_is_there = threading.Event()
    if where == "write":
        job = engine.submit(numbers(1000).write.callback(close))
    elif where == "map_batches":
        mapped = numbers(1000).map_batches(close, schema={"index": int})
        job = engine.submit(mapped.write.null())
    else:
        job = engine.submit(numbers(1000).write.null(), watch=close)
    job_is_there.set()
    assert closed.wait(SECONDS)
    assert reached(lambda: job.is_over) and job.status == "cancelled"


def test_submit_races_with_close():
    """A job is refused, or it is cancelled; none is forgotten."""
    random = Seeded(11)
    for _ in range(20):
        engine, jobs, refused = hr.Engine(workers=1), [], []

        def submit(engine=engine, jobs=jobs, refused=refused):
            while not refused:
                try:
                    jobs.append(engine.submit(words().write.null(), capacity=512))
                except EngineError:
                    refused.append(True)

        threads = [threading.Thread(target=submit) for _ in range(2)]
        for thread in threads:
            thread.start()
        time.sleep(random.number(0, 20) / 1000)
        engine.close()
        for thread in threads:
            thread.join(SECONDS)
            assert not thread.is_alive()
        assert refused
        for job in jobs:
            assert job.await_termination(SECONDS) and job.status == "cancelled"


def test_an_engine_that_nobody_has_any_more_ends():
    def names():
        gc.collect()
        return {t.name for t in threading.enumerate() if t.name.startswith("headrace")}

    before = names()
    engine = hr.Engine(workers=2)
    collected = words(ROWS).write.collect()
    assert engine.submit(collected).await_termination(SECONDS)
    running = engine.submit(words().write.null())
    alive = weakref.ref(engine)
    del engine
    gc.collect()
    time.sleep(0.3)
    assert alive() is not None and not running.is_over  # a job that runs keeps it
    assert "headrace-0" in names()
    assert running.stop(timeout=SECONDS) and running.status == "stopped"
    assert reached(lambda: names() <= before)
    assert alive() is None and not running.error


def test_an_engine_that_has_run_nothing_is_dropped():
    hr.Engine(workers=2)
    gc.collect()


# ---- before the first row ----------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["node", "thread"])
def test_cancel_while_it_opens(engine, gate):
    """The thread of the job is held up, as in a long first compile, and nothing is read later."""
    polled = []

    class Slow(Fed):
        def open(self, *given):
            gate.wait()
            return super().open(*given)

    source = Slow("0")
    source.give("0", 1)
    source.end()
    output = hr.read.source(source).write.callback(polled.append)
    job = hr.start(output, engine=engine, compiled=False)
    assert gate.entered.wait(SECONDS)
    assert job.cancel(SOON) and job.status == "cancelled"
    gate.opened.set()
    job._thread.join(SECONDS)
    assert not job._thread.is_alive() and not polled and job.status == "cancelled"


def test_cancel_while_it_compiles():
    """A function that no cache knows."""
    namespace = {}
    body = f"def fresh(n: int) -> int:\n    return n * {time.time_ns() % 1_000_003} + 1\n"
    exec(body, namespace)
    stream = hr.read.index(rate=1000).with_columns(m=hr.udf(namespace["fresh"])(col("index")))
    job = hr.start(stream.write.null(), engine="node", workers=1)
    assert job.cancel(SOON) and job.status == "cancelled"
    job._thread.join(SECONDS)
    assert not job._thread.is_alive()


# ---- sinks -------------------------------------------------------------------------------------


class Noted:
    """A sink that notes what is asked of it, and blocks in a write if it has a gate."""

    def __init__(self, gate=None):
        self.calls, self._gate = [], gate

    def __str__(self):
        return "noted"

    def open(self, schema):
        self.calls.append("open")

    def write(self, rows, batch, attempt):
        if self._gate is not None:
            self._gate.wait()
        self.calls.append("write")
        return rows.num_rows

    def commit(self, batch, messages):
        self.calls.append(("commit", sum(messages)))

    def abort(self, batch, attempt):
        self.calls.append("abort")

    def close(self):
        self.calls.append("close")


def test_a_sink_is_closed_behind_its_write(gate):
    sink = Noted(gate)
    output = hr.read.index(100).write.to(sink, name="noted")
    delivery, rows = Delivery({"noted": output.node}), pa.record_batch({"index": [1, 2]})
    delivery.open()
    writer = threading.Thread(target=delivery.write, args=("noted", rows))
    writer.start()
    assert gate.entered.wait(SECONDS)
    delivery._sinks["noted"]._since -= 100.0
    delivery.commit_if_due()  # these return at once
    delivery.abort()
    delivery.close()
    assert sink.calls == ["open"]
    gate.opened.set()
    writer.join(SECONDS)
    assert sink.calls == ["open", "write", "abort", "close"]
    delivery.write("noted", rows)
    assert sink.calls == ["open", "write", "abort", "close"]


def test_a_write_commits_what_is_due():
    sink = Noted()
    output = hr.read.index(100).write.to(sink, name="noted")
    delivery, rows = Delivery({"noted": output.node}), pa.record_batch({"index": [1, 2]})
    delivery.open()
    delivery.write("noted", rows)
    delivery._sinks["noted"]._since -= 100.0
    delivery.write("noted", rows)
    delivery.commit_if_due()
    delivery.close()
    assert sink.calls == ["open", "write", "write", ("commit", 4), "close"]


# ---- many of them ------------------------------------------------------------------------------


@pytest.mark.timeout(900)
def test_many_ends():
    """300 random sequences on engines that come and go, side by side: most of them wait."""
    with ThreadPoolExecutor(SIDES) as pool:
        for done in [pool.submit(_sequences, seed) for seed in range(SIDES)]:
            done.result()
    gc.collect()


def _sequences(seed):
    random, gates = Seeded(seed), []
    engine = hr.Engine(workers=2)
    try:
        for _ in range(SEQUENCES // SIDES):
            count("sequences of submit, cancel, drain, stop and close")
            if random.chance(3):
                engine = hr.Engine(workers=random.number(1, 2))  # the other one is dropped
            if _sequence(engine, random, gates):
                engine = hr.Engine(workers=random.number(1, 2))
    finally:
        for gate in gates:
            gate.opened.set()
        engine.close()


def _sequence(engine, random, gates):
    """Has it closed the engine?"""
    jobs, closes = [], random.chance(8)
    for _ in range(random.number(1, 3)):
        kind = random.pick(["words", "words", "bounded", *KINDS])
        gates.append(Gate())
        if kind == "bounded":
            output = words(random.pick([1, ROWS, 3 * ROWS + 17])).write.collect()
        elif kind == "words":
            output = words().write.collect()
        else:
            output = blocked(kind, gates[-1])
        how = {"capacity": 512, "fuse": random.pick(["auto", "none"])}
        jobs.append((engine.submit(output, **how), kind, gates[-1]))
        if random.chance(30):
            time.sleep(random.number(0, 3) / 1000)
    if closes:
        engine.close()
    for job, kind, gate in jobs:
        ends = ["cancel", "stop at once"]
        ends += {"bounded": ["wait", "drain"], "words": ["drain"]}.get(kind, [])
        _end(job, random.pick(ends), closes)
        if random.chance(50):
            gate.opened.set()
    return closes


def _end(job, how, closed):
    if how == "wait":
        assert job.await_termination(SECONDS)
        statuses = {"finished"}
    elif how == "drain":
        assert job.stop(timeout=SECONDS)
        statuses = {"stopped", "finished"}
    else:
        assert job.cancel(SOON) if how == "cancel" else job.stop(drain=False, timeout=SOON)
        statuses = {"cancelled", "finished"}
    assert job.status in statuses | ({"cancelled", "finished"} if closed else set())
