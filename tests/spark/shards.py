"""Spark's part without Spark: shards, their state, and batches that may go wrong."""

import json
import random

from tests.naive import rows_of

from headrace.asked import planned
from headrace.plan.nodes import Sink
from headrace.spark import keyed
from headrace.spark.planning import first_offset, has_ended, write_times
from headrace.spark.shipment import Shipment, send, without_sinks
from headrace.spark.sinks import DriverSinks
from headrace.spark.source import HeadraceReader
from headrace.spark.states import shard_state
from headrace.spark.wire import MESSAGE, METRICS, RESULT, TIMES, from_columns, unpack


class Engine:
    """A job, batch after batch, in this process."""

    def __init__(self, streams, folder, batch_rows, shards=1, outputs=None, **more):
        self.outputs = outputs or [stream.write.collect() for stream in streams]
        plan = planned(self.outputs)
        self.folder, self.rows = folder, [[] for _ in self.outputs]
        self.times = folder / "times"
        stages = plan.stages()
        sinks = [root for s in stages for root in s.roots if isinstance(root, Sink)]
        self.sinks = DriverSinks(sinks)
        self.sinks.open("job")
        self.names = {sink.name: k for k, sink in enumerate(plan.optimized)}
        nodes = [node for s in stages for node in s.inputs if node.kind == "source"]
        self._values = {
            "stages": without_sinks(stages),
            "staged": self.sinks.staged(),
            "channels": {node.name: tuple(node.connector.channels()) for node in nodes},
            "checkpoint": "c",
            "batch_rows": batch_rows,
            "tasks": 2,
            "stop_file": str(folder / "stop"),
            "times": str(self.times),
            "state": str(folder / "state"),
            "capacity": 64,
            "compiled": False,
        }
        self.counted = []
        self.begin(shards, **more)

    def begin(self, shards, **more):
        """A query from its beginning on."""
        self.shipment = Shipment(**self._values, shards=shards, **more)
        self.use(self.shipment)
        self.offset = first_offset(self.shipment)
        self.first = self.offset["batch"] + 1  # Spark counts from here, from 0 on

    def use(self, shipment):
        """Go on with another plan."""
        self.shipment = shipment
        self.address = send(shipment, self.folder)
        self.reader = HeadraceReader(self.address)

    def move(self, shards):
        """Another number of shards: they leave their state, others take it over."""
        moving = str(self.folder / f"moved-{len(self.counted)}")
        self.use(Shipment(**self._values, shards=self.shipment.shards, moving=moving))
        end, messages = self.batch()
        assert not messages
        keyed._cached.clear()
        self.begin(shards, moved=moving, start=end)

    def plan(self):
        """(the end of the next batch, its tasks)."""
        end = self.reader.latestOffset(self.offset, None)
        return end, self.reader.partitions(self.offset, end)

    def batch(self, planned=None):
        """(the end of the next batch, its messages as they come to the driver)."""
        end, tasks = planned or self.plan()
        messages = [
            message
            for task in tasks
            for given in self.reader.read(task)
            for message in from_columns(column.to_pylist() for column in given.columns)
        ]
        for level in range(len(self.shipment.levels)):
            messages = list(self._level(level, end["batch"], messages))
        return end, messages

    def _level(self, level, batch, messages):
        random.Random(1).shuffle(messages)
        for shard, label in enumerate(self.shipment.labels):
            query = f"query of {self.first}"
            state = shard_state(self.shipment, query, level, shard, batch - self.first)
            given = [message for message in messages if message.shard == label]
            yield from keyed.KeyedLevel(self.shipment, level, state).handle(shard, given)

    def commit(self, end, messages):
        self.offset = end
        times = {}
        for message in messages:
            if message.kind == RESULT:
                found = self.rows[self.names[message.port]]
                found.extend(r for b in unpack(message.payload) for r in rows_of(b))
            elif message.kind == TIMES:
                channel, largest = json.loads(message.payload)
                times.setdefault(message.port, {})[channel] = largest
        staged = [message for message in messages if message.kind == MESSAGE]
        self.sinks.commit(self.shipment.batch_name(end["batch"]), staged)
        self.counted.append([json.loads(x.payload) for x in messages if x.kind == METRICS])
        write_times(self.times, end["batch"], times)

    @property
    def has_ended(self):
        return has_ended(self.offset)
