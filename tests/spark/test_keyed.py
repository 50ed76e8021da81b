"""A keyed stage without Spark: a shard, a state store that forgets, and workers that go stale."""

import copy
import json
from types import SimpleNamespace

import pandas as pd
import pytest
from tests.naive import naive, rows_of
from tests.running import assert_same
from tests.spark import pipelines

import headrace as hr
from headrace.job import planned
from headrace.spark import keyed
from headrace.spark.planning import Planner, first_offset, has_ended, write_times
from headrace.spark.processor import KeyedProcessor
from headrace.spark.shipment import Shipment, send, without_sinks
from headrace.spark.source import HeadraceReader
from headrace.spark.wire import RESULT, TIMES, Letter, from_columns, unpack


class FakeStore:
    """The state of one shard, as a stateful processor sees it."""

    def __init__(self):
        self.values = {}

    def getMapState(self, name, key_schema, value_schema):
        self.values[name] = {}
        return SimpleNamespace(
            getValue=lambda key: self.values[name].get(key),
            updateValue=lambda key, value: self.values[name].update({key: value}),
            removeKey=lambda key: self.values[name].pop(key),
        )


class Engine:
    """One shard, batch after batch, in this process."""

    def __init__(self, stream, tmp_path, batch_rows):
        self.output = stream.write.collect()
        plan = planned([self.output])
        node = next(n for stage in plan.stages() for n in stage.inputs if n.kind == "source")
        self.times = tmp_path / "times"
        self.shipment = Shipment(
            stages=without_sinks(plan.stages()),
            staged={},
            channels={node.name: tuple(node.connector.channels())},
            shards=1,
            checkpoint="c",
            batch_rows=batch_rows,
            tasks=2,
            stop_file=str(tmp_path / "stop"),
            times=str(self.times),
            capacity=64,
            compiled=False,
        )
        path = str(send(self.shipment, tmp_path))
        self.reader = HeadraceReader(path)
        self.store = FakeStore()
        self.processor = KeyedProcessor(path, 0)
        self.processor.init(self.store)
        self.offset = first_offset(self.shipment)
        self.rows = []

    def batch(self):
        """(the end of the next batch, its letters as the shard gives them)."""
        end = self.reader.latestOffset(self.offset, None)
        letters = [
            letter
            for part in self.reader.partitions(self.offset, end)
            for given in self.reader.read(part)
            for letter in from_columns(column.to_pylist() for column in given.columns)
        ]
        frame = pd.DataFrame(letters, columns=list(Letter._fields)).sample(frac=1, random_state=1)
        label = self.shipment.labels[0]
        given = [
            letter
            for made in self.processor.handleInputRows((label,), iter([frame]), None)
            for letter in from_columns(made[name] for name in Letter._fields)
        ]
        return end, given

    def commit(self, end, letters):
        self.offset = end
        times = {}
        for letter in letters:
            if letter.kind == RESULT:
                self.rows.extend(r for b in unpack(letter.payload) for r in rows_of(b))
            elif letter.kind == TIMES:
                channel, largest = json.loads(letter.payload)
                times.setdefault(letter.port, {})[channel] = largest
        write_times(self.times, end["batch"], times)


@pytest.fixture(autouse=True)
def fresh_worker():
    keyed._cached.clear()
    yield
    keyed._cached.clear()


@pytest.mark.parametrize("build", [pipelines.counted, pipelines.processed])
def test_stale_workers(tmp_path, build):
    """Attempts that fail leave a worker with other state: the token tells."""
    source = hr.read.memory(pipelines.tables(400, 1, disorder=20)[0])
    engine = Engine(build(source), tmp_path, 60)
    number = 0
    while not has_ended(engine.offset):
        if number % 3 == 1:  # an attempt whose state is lost; the worker survives
            before = copy.deepcopy(engine.store.values)
            engine.batch()
            engine.store.values = before
        elif number % 3 == 2:  # another worker
            keyed._cached.clear()
        engine.commit(*engine.batch())
        number += 1
    assert number >= 6
    (expected,) = naive([engine.output])
    assert_same(engine.rows, expected, ordered=False)


@pytest.mark.parametrize("build", [pipelines.counted, pipelines.processed])
def test_a_worker_that_comes_late_catches_up(tmp_path, build, monkeypatch):
    """Two workers in turns: each loads what the other one has saved, and not all there is."""
    source = hr.read.memory(pipelines.tables(600, 1, disorder=20)[0])
    engine = Engine(build(source), tmp_path, 20)
    loaded = []
    load = keyed.KeyedLevel._snapshots

    def counting(self, plan, listed):
        loaded.append((len(listed), listed[0][0]))
        return load(self, plan, listed)

    monkeypatch.setattr(keyed.KeyedLevel, "_snapshots", counting)
    workers = [{}, {}]
    while not has_ended(engine.offset):
        monkeypatch.setattr(keyed, "_cached", workers[0])
        engine.commit(*engine.batch())
        workers.reverse()
    (expected,) = naive([engine.output])
    assert_same(engine.rows, expected, ordered=False)
    caught_up = [number for number, first in loaded if number == 1 and first > 0]
    assert len(caught_up) > len(loaded) // 2


def test_state_does_not_grow(tmp_path):
    """Many batches of deltas without records do not pile up."""
    source = hr.read.memory(pipelines.tables(200, 1, disorder=5)[0])
    engine = Engine(pipelines.counted(source), tmp_path, 4)
    while not has_ended(engine.offset):
        engine.commit(*engine.batch())
    kept = [name for (name,) in engine.store.values["pieces"] if name != keyed.SAVED]
    assert len(kept) <= keyed.MOST_SNAPSHOTS


def test_plans_are_repeatable(tmp_path):
    """An offset says it all: the same ranges again, from a planner that knows nothing."""
    source = hr.read.memory(pipelines.tables(300, 2, disorder=20))
    engine = Engine(pipelines.counted(source), tmp_path, 100)
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
