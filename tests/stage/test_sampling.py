"""Operators inside a kernel: counted exactly on samples, and their times add up to the kernel's."""

import threading
import time

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace import col
from headrace.asked import planned
from headrace.plan.nodes import WATERMARK
from headrace.stage import sampling
from headrace.stage.kernel import Kernel
from headrace.stage.sampling import OperatorSampler, Sample
from headrace.stage.stage import Stage
from headrace.stage.units import KernelUnit

SECONDS = 60.0
ROWS = 1000
SAMPLED = 0.05  # samples are slices of a bounded run, of any number of rows
EVENTS = pa.table({"t": np.arange(ROWS), "k": np.arange(ROWS) % 5, "n": np.arange(ROWS)})
NAMES = pa.table({"k": [0, 1, 2, 3], "c": [7, 8, 7, 8]})
UNIT = {"rows_in": 50_000, "rows_out": 12, "seconds": 0.006, "pending": 3, "starved": 1.0}


@hr.udf
def slowly(n: int) -> int:
    total = n
    for k in range(300):
        total = (total * 31 + k) % 1_000_003
    return total


def thrice(n):
    for _ in range(3):
        yield n


def twentyfold(n):
    for _ in range(20):
        yield n


def fused(stream, compiled):
    """The operators of a stream's kernel, and a sample of its rows."""
    whole = planned([stream.write.null()]).whole
    (unit,) = (u for u in Stage(whole, compiled=False).units if isinstance(u, KernelUnit))
    schema = unit.chain.input.to_arrow()
    rows = EVENTS.select([name for name in schema.names if name in EVENTS.column_names])
    if WATERMARK in schema.names:
        rows = rows.append_column(WATERMARK, pa.array(np.full(ROWS, -1)))
    (batch,) = rows.combine_chunks().to_batches()
    return unit.chain.nodes, Sample(batch, False, 0.0)


def events():
    return hr.read.memory(EVENTS, name="events").with_watermark("t", 0)


def counted(stream):
    return stream.key_by("c").window(hr.tumbling(100)).agg(n=hr.count())


class Clock:
    """Goes on by what each operator is said to take for a row."""

    def __init__(self, monkeypatch, **per_row):
        self.now, original = 0, Kernel.run

        def run(kernel):
            self.now += 50  # for the call: it is no operator's
            self.now += per_row[kernel.chain.last.name] * kernel.block.rows
            return original(kernel)

        monkeypatch.setattr(Kernel, "run", run)

    def __call__(self):
        return self.now


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.compiled)])
def test_rows_are_counted_and_times_shared_out(compiled, monkeypatch):
    kept = events().filter(col("n") % 2 == 0, name="even")
    joined = kept.join(hr.table(NAMES), on="k", name="names")
    nodes, sample = fused(joined.with_columns(m=col("n") * 2, name="double"), compiled)
    clock = Clock(monkeypatch, even=1, names=2, double=11)
    sampler = OperatorSampler(nodes, compiled, clock=clock)
    assert sampler.inside(UNIT) == {}
    for _ in range(2):
        sampler.measure(sample)
    inside = sampler.inside(UNIT)
    assert list(inside) == ["even", "names", "double"]
    found = [(each["rows_in"], each["rows_out"]) for each in inside.values()]
    assert found == [(50_000, 25_000), (25_000, 20_000), (20_000, 12)]  # the last one is exact
    # of 1000 rows: 1000 * 1, 500 * 2 and 400 * 11, of 6 ms in all
    assert [each["seconds"] for each in inside.values()] == pytest.approx(
        [0.006 * part / 6400 for part in (1000, 1000, 4400)], abs=2e-9
    )
    assert sum(each["seconds"] for each in inside.values()) == pytest.approx(0.006, abs=1e-12)
    assert inside["double"]["ns_per_row"] == pytest.approx(0.006 * 4400 / 6400 / 20_000 * 1e9)
    assert inside["names"]["selectivity"] == 0.8
    assert inside["even"]["line"].startswith("test_sampling.py:")
    assert [each["pending"] for each in inside.values()] == [3, 0, 0]
    assert all(each["starved"] == 1.0 for each in inside.values())
    assert all(each["sampled_rows"] == 2 * ROWS for each in inside.values())


@pytest.mark.parametrize(
    ("took", "share"),
    [([], 3 / 5), ([5.0], 3 / 5), ([8.0, 9.0, 50_000.0], 7 / 9)],
    ids=["not known", "as in the samples", "a large state, interrupted once"],
)
def test_state_gets_what_is_left_of_the_kernels_time(monkeypatch, took, share):
    nodes, sample = fused(
        events().select("t", "n", c=col("k"), name="rename").key_by("c").window(
            hr.tumbling(100)
        ).agg(n=hr.count(), name="views"), False,
    )  # fmt: skip
    names = [node.name for node in nodes]
    assert names[-1] == "views" and len(names) == 3
    clock = Clock(monkeypatch, **dict(zip(names, (1, 1, 3), strict=True)))
    sampler = OperatorSampler(nodes, False, clock=clock)
    for cost in took or [0.0]:
        sampler.measure(sample._replace(cost=cost))
    inside = sampler.inside({**UNIT, "seconds": 0.9})
    assert inside["views"]["seconds"] == pytest.approx(0.9 * share, abs=2e-9)
    assert sum(each["seconds"] for each in inside.values()) == pytest.approx(0.9, abs=1e-9)


@pytest.mark.compiled
def test_the_operator_that_works_most_gets_most():
    mapped = events().with_columns(a=col("n") + 1, name="little")
    nodes, sample = fused(mapped.with_columns(b=slowly(col("a")), name="much"), True)
    sampler = OperatorSampler(nodes)
    sampler.measure(sample)
    inside = sampler.inside(UNIT)
    assert inside["much"]["seconds"] > inside["little"]["seconds"]


def test_more_rows_come_out_than_go_in():
    expanded = events().flat_map(thrice, columns=["n"], output=["m"], name="thrice")
    nodes, sample = fused(expanded.filter(col("m") % 4 != 0, name="kept"), False)
    sampler = OperatorSampler(nodes, False)
    sampler.measure(sample)
    inside = sampler.inside({**UNIT, "rows_out": 112_500})
    assert [inside["thrice"][rows] for rows in ("rows_in", "rows_out")] == [50_000, 150_000]
    assert inside["kept"]["selectivity"] == 0.75


def test_samples_get_smaller_where_their_rows_become_too_many(monkeypatch):
    monkeypatch.setattr(sampling, "MOST_BLOCKS", 4)
    monkeypatch.setattr(sampling, "SAMPLE_ROWS", 16)
    expanded = events().flat_map(twentyfold, columns=["n"], output=["m"], name="twentyfold")
    nodes, sample = fused(expanded.filter(col("m") >= 0, name="kept"), False)
    sampler = OperatorSampler(nodes, False)
    for _ in range(4):  # of 16 rows, 4, and two of a single one
        sampler.measure(sample)
    assert sampler.samples == 2
    inside = sampler.inside(UNIT)
    assert inside["twentyfold"]["rows_out"] == 1_000_000
    assert inside["kept"]["sampled_rows"] == 2


ENOUGH = 1000  # rows: the first run of a kernel has one


def watched(job, name):
    """The operators inside a kernel of a job that runs, when they are known."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        inside = job.metrics().get(name, {}).get("inside")
        if inside and inside[name]["sampled_rows"] >= ENOUGH:
            return inside
        time.sleep(0.01)
    raise AssertionError("no samples came")


@pytest.mark.compiled
def test_a_compiled_job_tells_of_the_operators_inside_its_kernel(monkeypatch):
    monkeypatch.setattr(sampling, "BEGIN", 0.0)
    monkeypatch.setattr(sampling, "PERIOD", 0.01)
    kept = hr.read.replay(EVENTS, time="t").filter(col("n") % 2 == 0, name="even")
    doubled = kept.with_columns(m=col("n") * 2, name="double")
    job = hr.start(doubled.write.null(), engine="node", capacity=ROWS)
    watched(job, "double")
    assert job.stop(timeout=SECONDS) and job.status == "stopped"
    unit = job.metrics()["double"]
    inside = unit["inside"]
    assert list(inside) == ["even", "double"]
    assert inside["even"]["selectivity"] == pytest.approx(0.5, rel=SAMPLED)
    assert inside["double"]["selectivity"] == pytest.approx(1.0, rel=SAMPLED)
    assert sum(e["seconds"] for e in inside.values()) == pytest.approx(unit["seconds"], rel=1e-6)
    _no_thread_is_left()


@pytest.mark.parametrize("engine", ["thread", "node"])
def test_a_job_tells_of_the_operators_inside_its_kernels(engine, monkeypatch):
    monkeypatch.setattr(sampling, "BEGIN", 0.0)
    monkeypatch.setattr(sampling, "PERIOD", 0.01)
    replayed = hr.read.replay(EVENTS, time="t", name="events").with_watermark("t", 0)
    kept = replayed.filter(col("n") % 2 == 0, name="even").join(hr.table(NAMES), on="k")
    views = counted(kept)
    job = hr.start(views.write.null(), engine=engine, compiled=False, capacity=ROWS)
    name = "window_1" if engine == "thread" else "window_1.partial"
    watched(job, name)
    assert job.stop(timeout=SECONDS) and job.status == "stopped"
    unit = job.metrics()[name]
    inside = unit["inside"]
    assert list(inside) == unit["operators"]
    assert inside["even"]["rows_in"] == unit["rows_in"]
    assert inside[name]["rows_out"] == unit["rows_out"]
    assert inside["even"]["selectivity"] == pytest.approx(0.5, rel=SAMPLED)
    assert inside["join_1"]["selectivity"] == pytest.approx(0.8, rel=SAMPLED)
    assert sum(e["seconds"] for e in inside.values()) == pytest.approx(unit["seconds"], rel=1e-6)
    assert job.progress().operators[name]["inside"].keys() == inside.keys()
    _no_thread_is_left()


@pytest.mark.parametrize("engine", ["thread", "node"])
def test_nothing_is_sampled_unless_somebody_asks(engine):
    views = counted(hr.read.memory(EVENTS).with_watermark("t", 0).join(hr.table(NAMES), on="k"))
    job = hr.run(views.write.null(), engine=engine, compiled=False)
    name = "window_1" if engine == "thread" else "window_1.partial"
    assert job.progress().operators[name]["inside"] == {}
    job.metrics()  # too late: it is over
    _no_thread_is_left()


def test_rows_that_fail_are_the_kernels_to_tell(monkeypatch):
    nodes, sample = fused(events().with_columns(bad=1 // (col("n") - 500)).filter(col("n") > 3), 0)
    sampler = OperatorSampler(nodes, False)
    with pytest.raises(ZeroDivisionError):
        sampler.measure(sample)
    assert sampler.inside(UNIT) == {}


def _no_thread_is_left():
    """The end of a job waits for it."""
    assert not any(thread.name == "operator-samples" for thread in threading.enumerate())
