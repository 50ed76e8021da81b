"""What came out of a simulation."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, exp, log
from typing import NamedTuple

BUCKETS_PER_E = 20  # histogram buckets by a factor of e: 5 % wide


class Span(NamedTuple):
    """One run, for Gantt charts and for tests."""

    thread: int
    operator: str
    query: int
    start: float
    end: float
    rows: int


@dataclass
class Latency:
    """Latencies of rows, in buckets that are 5 % wide.

    >>> latency = Latency()
    >>> latency.add(0.010, rows=99)
    >>> latency.add(1.0, rows=1)
    >>> round(latency.mean, 4), latency.largest, 0.0095 < latency.percentile(0.95) < 0.0105
    (0.0199, 1.0, True)
    """

    rows: int = 0
    total: float = 0.0
    largest: float = 0.0
    _buckets: dict[int, int] = field(default_factory=dict, repr=False)

    def add(self, seconds: float, rows: int) -> None:
        """So many rows took so long."""
        self.rows += rows
        self.total += seconds * rows
        if seconds > self.largest:
            self.largest = seconds
        bucket = int(log(max(seconds, 1e-9)) * BUCKETS_PER_E)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + rows

    @property
    def mean(self) -> float:
        """The mean; 0 without rows."""
        return self.total / self.rows if self.rows else 0.0

    def percentile(self, share: float) -> float:
        """The latency that this share of rows stays within, up to 5 %."""
        left = ceil(self.rows * share)
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return min(exp(bucket / BUCKETS_PER_E), self.largest)
        return 0.0


@dataclass
class QueryResult:
    """What one query did while it was watched."""

    query: int
    query_class: int
    rows_in: int  # taken by its ingresses
    rows_out: int  # given by its sinks
    latency: Latency


@dataclass
class Result:
    """What happened while a simulation was watched."""

    seconds: float
    rows_in: int
    rows_out: int
    processed: int  # rows taken by all operators
    busy: float  # seconds of work on rows, of all threads
    overhead: float  # seconds of everything else, of all threads on processors
    scheduling: float  # of it, time in scheduling tasks
    decisions: int
    switches: int
    most_queued: int  # rows that waited at once, at the window's end with most of them
    level: int  # threads at the end
    threads: int
    queries: list[QueryResult]
    spans: list[Span]

    @property
    def throughput(self) -> float:
        """Rows that left, per second."""
        return self.rows_out / self.seconds

    def latency(self, query_class: int | None = None) -> Latency:
        """The latencies of all queries, or of those of a class."""
        found = Latency()
        for query in self.queries:
            if query_class is None or query.query_class == query_class:
                each = query.latency
                found.rows += each.rows
                found.total += each.total
                found.largest = max(found.largest, each.largest)
                for bucket, rows in each._buckets.items():
                    found._buckets[bucket] = found._buckets.get(bucket, 0) + rows
        return found
