"""Tasks with several cores: a range on each, and the rows and errors of one after the other."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from tests.choices import Choices, choices, fewer
from tests.counts import count
from tests.naive import naive
from tests.pipelines import random_pipeline
from tests.running import assert_same, in_any_order
from tests.spark import pipelines
from tests.spark.shards import Engine

import headrace as hr
from headrace.spark import keyed, planning
from headrace.spark.errors import carried
from headrace.spark.progress import Counts
from headrace.spark.side_by_side import side_by_side
from headrace.spark.source import Ranges
from headrace.spark.wire import ERROR, METRICS

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def fresh_worker():
    keyed._cached.clear()
    before = threading.active_count()
    yield
    keyed._cached.clear()
    assert threading.active_count() == before, "a thread is left"


# ---- threads ---------------------------------------------------------------------------------


def gives(messages, error=None):
    def reading(goes_on):
        yield from messages
        if error is not None:
            raise error

    return reading


def test_all_messages_come_those_of_a_range_in_order():
    ranges = [gives([(k, n) for n in range(50)]) for k in range(5)]
    found = list(side_by_side(ranges))
    assert sorted(found) == [(k, n) for k in range(5) for n in range(50)]
    for k in range(5):
        assert [n for number, n in found if number == k] == list(range(50))


def test_the_error_of_the_first_range_that_fails_is_raised():
    """Whichever fails first; those before it go on to their ends, those behind it do not."""
    failed = threading.Event()
    ended = []

    def late(goes_on):
        failed.wait()
        yield "late"
        ended.append("late")
        raise ValueError("the first in order")

    def early(goes_on):
        yield "early"
        failed.set()
        raise ValueError("the first in time")

    def endless(goes_on):
        while goes_on():
            yield "endless"
        ended.append("endless")

    with pytest.raises(ValueError, match="the first in order"):
        list(side_by_side([gives("ab"), late, early, endless]))
    assert ended == ["late", "endless"] or ended == ["endless", "late"]


def test_who_no_longer_listens_ends_all():
    stopped = []

    def endless(goes_on):
        while goes_on():
            yield "again"
            time.sleep(0)
        stopped.append(True)

    found = side_by_side([endless, endless])
    assert next(found) == "again"
    found.close()
    assert stopped == [True, True]


# ---- stages ----------------------------------------------------------------------------------


@fewer
@given(choices())
def test_rows_are_those_of_tasks_with_a_core(tmp_path_factory, choose: Choices):
    outputs = random_pipeline(choose, most_rows=25, steps=4)
    expected = in_any_order(outputs)
    if expected is None:
        return
    keyed._cached.clear()
    folder = tmp_path_factory.mktemp("job")
    job = Engine([], folder, choose.pick([5, 1000]), 2, outputs=outputs, cores=choose.number(2, 4))
    while not job.has_ended:
        job.commit(*job.batch())
    for found, wanted in zip(job.rows, expected, strict=True):
        assert_same(found, wanted, ordered=False)
    count("random pipelines in tasks with several cores")


def split_job(streams, folder, cores, monkeypatch, **more):
    monkeypatch.setattr(planning, "LEAST_SPLIT", 1)
    return Engine(streams, folder, 200, 2, cores=cores, **more)


def test_a_channel_is_cut_for_the_cores_of_a_task(tmp_path, monkeypatch):
    """Windows, states and plain rows, in the order of one task for each range."""
    source = hr.read.memory(pipelines.tables(400, 2, disorder=20))
    single = hr.read.memory(pipelines.tables(400, 1, disorder=20, seed=2)[0])
    streams = [pipelines.counted(source), pipelines.processed(single), pipelines.stateless(single)]
    found = {}
    for cores in (1, 2, 3):
        folder = tmp_path / str(cores)
        folder.mkdir()
        job = split_job(streams, folder, cores, monkeypatch)
        sizes = set()
        while not job.has_ended:
            end, tasks = job.plan()
            sizes |= {len(t.ranges) if isinstance(t, Ranges) else 0 for t in tasks}
            job.commit(*job.batch((end, tasks)))
        assert max(sizes) == (cores if cores > 1 else 0)
        found[cores] = job.rows
    for rows, wanted in zip(found[1], naive(job.outputs), strict=True):
        assert_same(rows, wanted, ordered=False)
    for rows, wanted in zip(found[1][1:], naive(job.outputs)[1:], strict=True):
        by_user = [[r for r in side if r["user"] == "user 1"] for side in (rows, wanted)]
        assert by_user[0] == by_user[1]
    assert found[2][1] == found[3][1] == found[1][1]  # what a shard makes of rows in order


def picky(n):
    return 1 // (n - 7) + 1 // (n - 300)


def test_the_error_is_that_of_the_first_range(tmp_path, monkeypatch):
    rows = hr.read.memory({"n": list(range(400))})
    job = split_job([rows.map(picky, output="m", columns=["n"])], tmp_path, 2, monkeypatch)
    _, messages = job.batch()
    told = [carried(x.payload) for x in messages if x.kind == ERROR]
    assert [type(error) for error in told] == [ZeroDivisionError]
    assert "  row: n=7" in told[0].__notes__


def test_rows_that_are_left_out_are_counted_once(tmp_path):
    for name in "abc":
        lines = "".join(f'{{"n": {n}}}\n' for n in range(30)) + '{"n": "none"}\n'
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "a.json").write_text(lines)
    sources = [
        hr.read.json(tmp_path / "in" / name, schema={"n": int}, on_error="skip", name=name)
        for name in "abc"
    ]
    job = Engine([sources[0].union(*sources[1:])], tmp_path, 1000, 1, cores=3)
    counts = Counts()
    while not job.has_ended:
        end, messages = job.batch()
        job.commit(end, messages)
        counts.add(message for message in messages if message.kind == METRICS)
    progress = counts.progress("running", 1.0, list("abc"), job.names)
    assert [progress.operators[name]["skipped"] for name in "abc"] == [1, 1, 1]
    assert len(job.rows[0]) == 90


# ---- Spark -----------------------------------------------------------------------------------

SCRIPT = """
import sys
import warnings

import headrace as hr
from headrace import col
from headrace.spark import planning
from pyspark.sql import SparkSession

warnings.simplefilter("ignore")
planning.LEAST_SPLIT = 1
builder = SparkSession.builder.master("local[4,1]").config("spark.ui.enabled", "false")
session = builder.config("spark.task.cpus", "2").getOrCreate()
rows = hr.read.memory({"n": list(range(5_000)), "k": [n % 7 for n in range(5_000)]})
output = rows.select("k", m=col("n") * 2).key_by("k").running(s=hr.sum("m")).write.collect()
hr.run(output, engine="spark", session=session, batch_rows=2_000, shards=2, compiled=False)
found, sums = output.result().to_pylist(), {}
for row in found:
    sums[row["k"]] = sums.get(row["k"], 0) + row["m"]
    assert sums[row["k"]] == row["s"], row
print("rows:", len(found))
"""


@pytest.mark.soak  # a session of its own, whose workers load everything
@pytest.mark.timeout(600)
def test_on_spark(tmp_path):
    workers = {**os.environ, "PYSPARK_PYTHON": sys.executable}  # a session of the user's own
    made = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env=workers,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert "rows: 5000" in made.stdout, made.stderr[-3000:]
