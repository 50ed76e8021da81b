"""Millions of keys come and go: the state gets small again, and the process gives memory back."""

from __future__ import annotations

import gc
import os
import threading

import numpy as np
import pyarrow as pa
import pytest
from tests.node.fed import reached

import headrace as hr
from headrace.observe.process import process_usage
from headrace.plan.connector import Batch
from headrace.plan.schema import Schema

TIDES = 3
KEYS = int(os.environ.get("HEADRACE_SOAK_KEYS", "10_000_000"))
APART = 2000  # event time from tide to tide,
OVER = tuple(range(500, 1500, 100))  # and of rows in between
BATCH = 1 << 17
SECONDS = 1200.0
WARM = 100_000  # keys of a first tide, after which everything is loaded
FEW = 100  # keys in between, so that every owner has some
LEFT = 8 * FEW  # keys at low tide: some of these wait, and some are not forgotten yet
PARTIAL = 32 << 20  # bytes that partial results keep for the next split
SLACK = 128 << 20  # bytes of a process that are no matter

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.timeout(3600),
    pytest.mark.usefixtures("no_thread_is_left"),
]


class Tides:
    """In each tide many keys, at one time; then few, later. `flow` lets a part come."""

    def __init__(self, keys):
        self._keys, self._parts, self._lock = keys, 0, threading.Lock()

    def flow(self):
        with self._lock:
            self._parts += 1

    def parts(self):
        with self._lock:
            return self._parts

    def __str__(self):
        return "tides"

    def schema(self):
        return Schema.of({"k": int, "t": int})

    def channels(self):
        return ["0"]

    def latest(self):
        return {"0": None}

    def open(self, channel, start=None, stop=None, columns=None, predicate=None):
        return _TidesReader(self, self._keys)

    def committed(self, channel, position):
        pass

    def close(self):
        pass


class _TidesReader:
    def __init__(self, source, keys):
        self._source, self._keys, self._part, self._given = source, keys, 0, 0

    def poll(self, max_rows, timeout):
        if self._part >= self._source.parts():
            return Batch(None, None, ended=self._part >= len(self._keys) * (1 + len(OVER)))
        tide, row = divmod(self._part, 1 + len(OVER))
        last = FEW if row else self._keys[tide]
        end = min(self._given + min(max_rows, BATCH), last)
        keys = np.arange(self._given, end) * 7919 % (1 << 40)
        times = np.full(len(keys), tide * APART + (0, *OVER)[row])
        self._given = end
        if end == last:
            self._part, self._given = self._part + 1, 0
        return Batch(pa.record_batch({"k": keys, "t": times}), None)

    def close(self):
        pass


OPERATORS = {
    "window": lambda rows: rows.window(hr.tumbling(100)).agg(n=hr.count()),
    "early": lambda rows: rows.window(hr.tumbling(100, early=30)).agg(n=hr.count()),
    "session": lambda rows: rows.window(hr.session(50)).agg(n=hr.count()),
    "dedup": lambda rows: rows.dedup("k", within=50),
}
CASES = [pytest.param("window", 200_000, id="window")]
CASES += [pytest.param(name, KEYS, marks=pytest.mark.soak, id=f"{name}-many") for name in OPERATORS]


@pytest.mark.parametrize(("name", "keys"), CASES)
def test_what_comes_goes(name, keys):
    tides = [WARM, *[keys] * TIDES]
    source = Tides(tides)
    rows = hr.read.source(source).with_watermark("t", 0).key_by("k")
    job = hr.start(OPERATORS[name](rows).write.null(), engine="node", workers=2)

    def measured():
        gc.collect()
        found = list(job.metrics().values())
        keys, size = (sum(each.get(k, 0) for each in found) for k in ("state_keys", "state_bytes"))
        return keys, size, process_usage().rss_bytes

    given, high, low = 0, [], []
    for keys in tides:
        for part in range(1 + len(OVER)):
            source.flow()
            given += FEW if part else keys
            assert reached(lambda: job.progress().rows_in == given or job.is_over, SECONDS)
            if part == 0:
                assert reached(lambda: measured()[0] == keys or job.is_over, SECONDS)
                high.append(measured())
        assert reached(lambda: measured()[0] <= LEFT or job.is_over, SECONDS)
        low.append(measured())
    assert job.await_termination(SECONDS) and job.status == "finished"
    both = [each for pair in zip(high, low, strict=True) for each in pair]
    shown = [f"{size >> 20} of state, {most >> 20} in all" for _, size, most in both]
    print(f"{name}, {keys:,} keys, MiB at high and low tide:", "; ".join(shown))
    (_, _, before), *low = low
    for (there, state, most), (few, rest, left) in zip(high[1:], low, strict=True):
        assert there == keys and state > 16 * keys
        assert few <= LEFT and rest <= state // 20 + PARTIAL
        assert left - before <= (most - before) // 4 + SLACK
    assert low[-1][2] <= low[0][2] + SLACK  # no tide leaves more behind than the one before
