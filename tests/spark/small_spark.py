"""A Spark of a hundred lines, in one process: it plans, keeps logs, runs and commits as Spark does.

A real job (`SparkJob`) runs on it, with its own checkpoint, planner, tasks, shards and sinks; only
what lies between them is not Spark's. It starts in a second, so that it can be killed often. Like
Spark's, its logs are renamed into their place and never synced.
"""

import json
import threading
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pyarrow as pa
import pyspark

from headrace.spark import job as spark_job
from headrace.spark import keyed
from headrace.spark import source as spark_source
from headrace.spark.shipment import receive
from headrace.spark.source import HeadraceReader
from headrace.spark.states import shard_state
from headrace.spark.wire import from_columns, to_record_batch


class SmallSpark:
    """A session."""

    def __init__(self, cores=2):
        self._jsparkSession = None
        conf = SimpleNamespace(get=lambda name, default=None: default)
        self.sparkContext = SimpleNamespace(
            master=f"local[{cores},1]",
            defaultParallelism=cores,
            version=pyspark.__version__,
            getConf=lambda: conf,
            getLocalProperty=lambda name: None,
            setLocalProperty=lambda name, value: None,
        )

    def newSession(self):
        return SimpleNamespace(conf=SimpleNamespace(set=lambda name, value: None))


def all_letters(session, shipment, frames, address):
    """In place of Spark's query."""
    return SimpleNamespace(writeStream=_Writer(address))


@contextmanager
def on_small_spark(*, silent=False):
    """Jobs run on it as long as this is entered; silent: it tells no source where it is."""
    with mock.patch.object(spark_job, "all_letters", all_letters):
        with mock.patch.object(spark_source, "tells_start", lambda: not silent):
            yield


class _Writer:
    def __init__(self, address):
        self._address = address

    def outputMode(self, mode):
        return self

    def foreachBatch(self, commit):
        self._commit = commit
        return self

    def trigger(self, **given):
        return self

    def option(self, name, value):
        self._folder = Path(value)
        return self

    def start(self):
        return _Query(self._address, self._commit, self._folder)


class _Log:
    """Numbered files, each of which appears in one rename."""

    def __init__(self, folder):
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def last(self):
        numbers = [int(path.name) for path in self._folder.iterdir() if path.name.isdigit()]
        return max(numbers, default=None)

    def read(self, number):
        return (self._folder / str(number)).read_text().splitlines()

    def write(self, number, lines):
        waiting = self._folder / f".{number}.{uuid.uuid4().hex}.tmp"
        waiting.write_text("\n".join(lines))
        waiting.rename(self._folder / str(number))


class _Query:
    def __init__(self, address, commit, folder):
        self._shipment, self._reader = receive(address), HeadraceReader(address)
        self._commit, self._error = commit, None
        self._offsets, self._commits = _Log(folder / "offsets"), _Log(folder / "commits")
        known = folder / "metadata"
        if not known.exists():
            (folder / "metadata.tmp").write_text(str(uuid.uuid4()))
            (folder / "metadata.tmp").rename(known)
        self._id = known.read_text()
        self._stop, self._idle = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    # ---- what jobs ask of a query --------------------------------------------------------------

    @property
    def isActive(self):
        return self._thread.is_alive()

    def awaitTermination(self, timeout=None):
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return not self.isActive

    def processAllAvailable(self):
        self._idle.clear()
        while not self._idle.wait(0.01) and self.isActive:
            pass
        if self._error is not None:
            raise self._error

    def stop(self):
        self._stop.set()
        self._thread.join()

    # ---- its life ------------------------------------------------------------------------------

    def _run(self):
        try:
            number, start, end = self._where()
            while not self._stop.is_set():
                if end is None:
                    told = (start, None) if spark_source.tells_start() else ()
                    end = self._reader.latestOffset(*told)
                    if end == start:
                        end = None
                        self._idle.set()
                        time.sleep(0.005)
                        continue
                    line = json.dumps({"batchTimestampMs": time.time_ns() // 1_000_000})
                    self._offsets.write(number, ["v1", line, json.dumps(end)])
                messages = self._letters(number, start, end)
                table = pa.Table.from_batches([to_record_batch(messages)])
                self._commit(SimpleNamespace(toArrow=lambda table=table: table), number)
                self._commits.write(number, ["v1", "{}"])
                number, start, end = number + 1, end, None
        except Exception as error:
            self._error = error

    def _where(self):
        """(the number of the next batch, its start, its end if that was planned already)."""
        last, committed = self._offsets.last(), self._commits.last()
        if last is None:
            return 0, self._reader.initialOffset(), None
        if committed == last:
            return last + 1, self._offset(last), None
        start = self._offset(last - 1) if last else self._reader.initialOffset()
        return last, start, self._offset(last)

    def _offset(self, number):
        return json.loads(self._offsets.read(number)[2])

    def _letters(self, number, start, end):
        given = [
            message
            for task in self._reader.partitions(start, end)
            for batch in self._reader.read(task)
            for message in from_columns(column.to_pylist() for column in batch.columns)
        ]
        for level in range(len(self._shipment.levels)):
            given = [x for shard in self._shards(level, number, given) for x in shard]
        return given

    def _shards(self, level, number, messages):
        for shard, label in enumerate(self._shipment.labels):
            state = shard_state(self._shipment, self._id, level, shard, number)
            mine = [message for message in messages if message.shard == label]
            yield keyed.KeyedLevel(self._shipment, level, state).handle(shard, mine)
