"""A source that a test feeds while the job runs."""

import threading
import time
from collections import deque

import pyarrow as pa

from headrace.plan.connector import Batch
from headrace.plan.schema import Schema

SECONDS = 60.0  # for what must happen, on a machine that is very busy


class Fed:
    """Channels of rows of one integer column `t`: `give` lets one bring some, `end` ends all."""

    def __init__(self, *channels):
        self._rows = {channel: deque() for channel in channels}
        self._ended = threading.Event()

    def give(self, channel, *times):
        self._rows[channel].append(times)

    def end(self):
        self._ended.set()

    def __str__(self):
        return "fed by hand"

    def schema(self):
        return Schema.of({"t": int})

    def channels(self):
        return list(self._rows)

    def latest(self):
        return dict.fromkeys(self._rows)

    def open(self, channel, start=None, stop=None, columns=None, predicate=None):
        return _FedReader(self._rows[channel], self._ended)

    def committed(self, channel, position):
        pass

    def close(self):
        pass


class _FedReader:
    def __init__(self, rows, ended):
        self._rows, self._ended = rows, ended

    def poll(self, max_rows, timeout):
        ended = self._ended.is_set()
        if self._rows:
            return Batch(pa.record_batch({"t": pa.array(self._rows.popleft(), pa.int64())}), None)
        return Batch(None, None, ended=ended)

    def close(self):
        pass


def reached(condition, seconds=SECONDS):
    """Wait until it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
