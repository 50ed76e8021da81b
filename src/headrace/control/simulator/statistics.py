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

    def merge(self, other: Latency) -> None:
        """Its rows, too."""
        self.rows += other.rows
        self.total += other.total
        self.largest = max(self.largest, other.largest)
        for bucket, rows in other._buckets.items():
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


class Watch:
    """Counts the rows that enter and leave queries, their latency, and how that changes.

    >>> watch = Watch()
    >>> watch.add(query=0, query_class=1)
    >>> for now in (1.0, 2.0):  # latencies of one and of two seconds
    ...     watch.left(0, [(10, 0.0)], now)
    ...     watch.end_window(1.0, queued=0)
    >>> watch.gradient[0]
    1.0
    """

    def __init__(self) -> None:
        self.since = 0.0
        self.processed = 0  # rows taken by all operators
        self.most_queued = 0
        self.gradient: dict[int, float] = {}  # of each query's mean latency, by window
        self._latency: dict[int, Latency] = {}
        self._rows: dict[int, list[int]] = {}  # entered and left
        self._classes: dict[int, int] = {}
        self._window: dict[int, tuple[float, int]] = {}  # seconds and rows of the window so far
        self._mean: dict[int, float] = {}  # of the window before

    def add(self, query: int, query_class: int) -> None:
        """There is this query, too."""
        if query not in self._classes:
            self._classes[query] = query_class
            self._latency[query], self._rows[query] = Latency(), [0, 0]

    def restart(self, now: float) -> None:
        """Count from now on; the windows go on."""
        self.since, self.processed, self.most_queued = now, 0, 0
        for query in self._classes:
            self._latency[query], self._rows[query] = Latency(), [0, 0]

    def entered(self, query: int, rows: int) -> None:
        """An ingress took rows."""
        self._rows[query][0] += rows

    def left(self, query: int, given: list[tuple[int, float]], now: float) -> None:
        """A sink gave rows, with their clock times."""
        latency, counts = self._latency[query], self._rows[query]
        total, count = self._window.get(query, (0.0, 0))
        for rows, stamp in given:
            latency.add(now - stamp, rows)
            total += (now - stamp) * rows
            count += rows
            counts[1] += rows
        if count:
            self._window[query] = total, count

    def end_window(self, seconds: float, queued: int) -> None:
        """A window of so many seconds is over; so many rows wait."""
        self.most_queued = max(self.most_queued, queued)
        for query, (total, rows) in self._window.items():
            mean = total / rows
            self.gradient[query] = (mean - self._mean.get(query, mean)) / seconds
            self._mean[query] = mean
        self._window.clear()

    def queries(self) -> list[QueryResult]:
        """What each query did."""
        return [
            QueryResult(query, self._classes[query], entered, left, self._latency[query])
            for query, (entered, left) in sorted(self._rows.items())
        ]


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
                found.merge(query.latency)
        return found
