"""What a job on Spark has done: tasks count, the driver adds up."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .wire import COUNTERS, SKIPPED, Message


@dataclass(frozen=True)
class SparkProgress:
    """How far a job is; the same fields as those of a job on one thread, and Spark's."""

    status: str
    seconds: float
    rows_in: int
    rows_out: int
    late_rows: int
    failed_rows: int
    rows_per_second: float
    operators: dict[str, dict[str, Any]]
    batches: int
    batch_seconds: float  # of the last one
    state_bytes: int  # in the memory of workers
    state_written: int  # bytes, since the job began
    cache_hits: int  # stages that were still in their worker's memory
    cache_misses: int


class Counts:
    """What the tasks of committed batches have counted. May be read by any thread."""

    def __init__(self) -> None:
        self._counted: dict[str, dict[str, Any]] = {}
        self._sizes: dict[tuple[str, str], dict[str, Any]] = {}  # by sender and operator
        self._totals = {"state_written": 0, "cache_hits": 0, "shards": 0}
        self._lock = threading.Lock()
        self.batches, self.batch_seconds = 0, 0.0

    def add(self, messages: Iterable[Message]) -> None:
        """Take what tasks have counted."""
        with self._lock:
            for message in messages:
                for name, values in json.loads(message.payload).items():
                    self._add(message.sender, name, values)

    def _add(self, sender: str, name: str, values: dict[str, Any]) -> None:
        if not name:
            for key, value in values.items():
                self._totals[key] += value
            return
        counted = self._counted.setdefault(name, dict.fromkeys(COUNTERS, 0))
        for key in (*COUNTERS, SKIPPED):
            if key in values:
                counted[key] = counted.get(key, 0) + values.pop(key)
        if values:
            self._sizes[sender, name] = values

    def operators(self) -> dict[str, dict[str, Any]]:
        """For every operator what all its tasks have counted, and the size of its state now."""
        with self._lock:
            made = {name: dict(counted) for name, counted in self._counted.items()}
            for (_, name), sizes in self._sizes.items():
                for key, value in sizes.items():
                    made[name][key] = made[name].get(key, 0) + value
        return made

    def progress(
        self, status: str, seconds: float, sources: Iterable[str], sinks: Iterable[str]
    ) -> SparkProgress:
        """How far a job is that has these sources and sinks."""
        operators, totals = self.operators(), self._totals
        none = dict.fromkeys(COUNTERS, 0)
        rows_in = sum(operators.get(name, none)["rows_in"] for name in sources)
        return SparkProgress(
            status,
            seconds,
            rows_in,
            sum(operators.get(name, none)["rows_in"] for name in sinks),
            sum(measured["late_rows"] for measured in operators.values()),
            sum(measured["failed_rows"] for measured in operators.values()),
            rows_in / seconds if seconds > 0 else 0.0,
            operators,
            self.batches,
            self.batch_seconds,
            sum(measured.get("state_bytes", 0) for measured in operators.values()),
            totals["state_written"],
            totals["cache_hits"],
            totals["shards"] - totals["cache_hits"],
        )
