"""A keyed stage without Spark: shards, attempts that are lost, and workers that go stale."""

from pathlib import Path

import pytest
from tests.naive import naive
from tests.running import assert_same
from tests.spark import pipelines
from tests.spark.shards import Engine

import headrace as hr
from headrace.connect.memory import MemorySource
from headrace.plan.errors import StateError, Unreachable
from headrace.spark import keyed, planning, states
from headrace.spark.errors import carried
from headrace.spark.planning import Planner, first_offset, has_ended
from headrace.spark.progress import Counts
from headrace.spark.states import ShardState
from headrace.spark.wire import ERROR, METRICS


@pytest.fixture(autouse=True)
def fresh_worker():
    keyed._cached.clear()
    yield
    keyed._cached.clear()


@pytest.mark.parametrize("build", [pipelines.counted, pipelines.processed])
def test_stale_workers(tmp_path, build):
    """Attempts that fail leave a worker with other state: the token tells."""
    source = hr.read.memory(pipelines.tables(400, 1, disorder=20)[0])
    engine = Engine([build(source)], tmp_path, 60)
    number = 0
    while not engine.has_ended:
        if number % 3 == 1:  # an attempt that does not count; the worker survives
            engine.batch()
        elif number % 3 == 2:  # another worker
            keyed._cached.clear()
        engine.commit(*engine.batch())
        number += 1
    assert number >= 6
    check(engine)


def check(engine):
    for found, expected in zip(engine.rows, naive(engine.outputs), strict=True):
        assert_same(found, expected, ordered=False)


@pytest.mark.parametrize("shards", [[1, 4], [7, 2, 3]])
def test_shards_change(tmp_path, shards):
    """Records of every kind of state find their new owners, over and over."""
    source = hr.read.memory(pipelines.tables(300, 2, disorder=20))
    single = hr.read.memory(pipelines.tables(300, 1, disorder=20, seed=2)[0])
    streams = [
        pipelines.counted(source),
        pipelines.averaged(single),
        pipelines.processed(single),
        pipelines.recounted(source),
        pipelines.clicks(source).window(hr.tumbling(80)).agg(n=hr.count()),
    ]
    engine = Engine(streams, tmp_path, 150, shards[0])
    for number in shards[1:]:
        for _ in range(2):
            engine.commit(*engine.batch())
        engine.move(number)
    while not engine.has_ended:
        engine.commit(*engine.batch())
    check(engine)


@pytest.mark.parametrize("build", [pipelines.counted, pipelines.processed])
def test_a_worker_that_comes_late_catches_up(tmp_path, build, monkeypatch):
    """Two workers in turns: each loads what the other one has saved, and not all there is."""
    source = hr.read.memory(pipelines.tables(600, 1, disorder=20)[0])
    engine = Engine([build(source)], tmp_path, 20)
    loaded = []
    load = ShardState.load

    def counting(self, listed):
        loaded.append((len(listed), listed[0][0]))
        return load(self, listed)

    monkeypatch.setattr(ShardState, "load", counting)
    workers = [{}, {}]
    while not has_ended(engine.offset):
        monkeypatch.setattr(keyed, "_cached", workers[0])
        engine.commit(*engine.batch())
        workers.reverse()
    check(engine)
    caught_up = [number for number, first in loaded if number == 1 and not first.startswith("0-")]
    assert len(caught_up) > len(loaded) // 2


def test_state_does_not_grow(tmp_path):
    """Many batches of deltas without records do not pile up."""
    source = hr.read.memory(pipelines.tables(200, 1, disorder=5)[0])
    engine = Engine([pipelines.counted(source)], tmp_path, 4)
    while not engine.has_ended:
        engine.commit(*engine.batch())
    kept = [path.suffix for path in (tmp_path / "state").glob("*/0-0/*")]
    assert kept.count(".snapshot") <= keyed.MOST_SNAPSHOTS + 2 * states.KEPT_LISTS
    assert kept.count(".json") <= 2 * states.KEPT_LISTS
    assert kept.count(".part") == 0


def test_state_that_was_lost_is_an_error(tmp_path):
    """Nothing begins anew without a word: neither a list nor a snapshot may be missing."""
    source = hr.read.memory(pipelines.tables(200, 1, disorder=5)[0])
    engine = Engine([pipelines.counted(source)], tmp_path, 50)
    engine.commit(*engine.batch())
    (snapshot,) = (tmp_path / "state").glob("*/0-0/*.snapshot")
    (listed,) = (tmp_path / "state").glob("*/0-0/*.json")
    keyed._cached.clear()
    for path in (snapshot, listed):
        path.unlink()
        _, messages = engine.batch()
        (told,) = [carried(x.payload) for x in messages if x.kind == ERROR]
        assert isinstance(told, StateError)
        assert f"lacks {path}" in str(told) and "fix: restore" in str(told)


def test_plans_are_repeatable(tmp_path):
    """An offset says it all: the same ranges again, from a planner that knows nothing."""
    source = hr.read.memory(pipelines.tables(300, 2, disorder=20))
    engine = Engine([pipelines.counted(source)], tmp_path, 100)
    offset = first_offset(engine.shipment)
    batches = 0
    while not has_ended(offset):
        end = Planner(engine.shipment).next_offset(offset)
        first = engine.reader.partitions(offset, end)
        again = engine.reader.partitions({"batch": 0, "sources": {}}, end)
        assert [vars(one) for one in first] == [vars(other) for other in again]
        offset, batches = end, batches + 1
    assert batches >= 6
    assert Planner(engine.shipment).next_offset(offset) is offset
    (tmp_path / "stop").touch()
    assert Planner(engine.shipment).next_offset(first_offset(engine.shipment))["batch"] == 0


def test_what_is_counted(tmp_path):
    """Bytes of state, bytes written, stages found in memory, lines left out."""
    good = "".join(f'{{"k": {n % 5}, "at": {n}}}\n' for n in range(100))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(good.replace('"at": 7}', '"at": "seven"}'))
    schema = {"k": int, "at": int}
    source = hr.read.json(tmp_path / "in", schema=schema, on_error="skip", name="lines")
    totals = source.key_by("k").process(tally, state={"n": 0}, output="n")
    engine = Engine([totals], tmp_path, 30, 2)
    counts = Counts()
    while not engine.has_ended:
        end, messages = engine.batch()
        engine.commit(end, messages)
        counts.add(message for message in messages if message.kind == METRICS)
    progress = counts.progress("running", 1.0, ["lines"], engine.names)
    assert (progress.rows_in, progress.rows_out) == (99, 99)
    assert progress.operators["lines"]["skipped"] == 1
    assert progress.operators["process_1"]["state_keys"] == 5
    assert progress.state_bytes > 0 < progress.state_written
    assert progress.cache_misses == 2
    assert progress.cache_hits >= 4


def tally(state, at):
    state.n += 1
    yield state.n


def test_workers_hold_so_much(tmp_path, monkeypatch):
    """What does not fit is loaded again: the oldest goes first."""
    monkeypatch.setattr(keyed, "MOST_BYTES", 1)
    source = hr.read.memory(pipelines.tables(200, 1, disorder=5)[0])
    engine = Engine([pipelines.counted(source), pipelines.processed(source)], tmp_path, 50, 2)
    while not engine.has_ended:
        engine.commit(*engine.batch())
        assert len(keyed._cached) == 1
    check(engine)


def test_tables_are_mapped(tmp_path):
    """A large static table is a file that workers map; the plan stays small."""
    size = 50_000
    names = hr.table({"user": [f"user {n}" for n in range(size)], "n": range(size)})
    source = hr.read.memory(pipelines.tables(200, 1, disorder=5)[0])
    counted = source.join(names, on="user").key_by("n").process(tally, state={"n": 0}, output="m")
    engine = Engine([counted], tmp_path, 100)
    assert len(list(tmp_path.glob("plan-*.arrow"))) == 1
    assert Path(engine.address.path).stat().st_size < 100_000
    while not engine.has_ended:
        engine.commit(*engine.batch())
    check(engine)


class Silent(MemorySource):
    """Does not answer while a file is there."""

    def __init__(self, data, file):
        super().__init__(data)
        self._file = file

    def open(self, *place):
        if self._file.exists():
            raise Unreachable("nobody answers")
        return super().open(*place)


def test_a_source_that_does_not_answer_is_asked_again(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    source = hr.read.source(Silent(pipelines.tables(100, 1, disorder=20), gone))
    engine = Engine([pipelines.counted(source)], tmp_path, 50)
    planner = Planner(engine.shipment)
    gone.touch()
    assert planner.next_offset(engine.offset) is engine.offset
    monkeypatch.setattr(planning, "PATIENCE", 0.0)
    with pytest.raises(Unreachable, match="nobody answers"):
        planner.next_offset(engine.offset)
    gone.unlink()
    assert planner.next_offset(engine.offset)["batch"] == 1
