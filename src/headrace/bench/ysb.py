"""`headrace bench ysb`: the Yahoo benchmark on an engine, end to end.

A table of events is replayed round after round; the source copies all seven columns in, unless
told to prune. Every run is checked in full: all windows that closed, against NumPy. Rates and
latencies are those between the moment when every query has given its first result and nothing is
compiled any more (at a rate: what was due while it started has been worked off) and the moment
when all that was read is finished.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.asked import planned
from headrace.observe.numbers import short
from headrace.workloads import ysb
from headrace.write import Output

from .given import Given
from .latency import latencies_so_far, worst_of
from .machine import Usage, load_of_others
from .peers import PolarsYsb
from .queries import BenchError, How, Queries, Results
from .saying import Said, say_nothing

ROWS = 4_000_000  # seven fields of 8 bytes: 224 MB
LOOK_SECONDS, SAY_SECONDS = 0.05, 1.0
SETTLE_SECONDS = 0.5
PEER_SHARE = 0.5  # seconds of Polars, before and after, per second of ours
MOST_PEER_SECONDS = 2.0

Watch = Callable[[Any], None]


@dataclass(frozen=True)
class Load:
    """What is run: rows of the table, queries at once, seconds, and the rate of all queries.

    A rate of None is as fast as possible.
    """

    rows: int = ROWS
    queries: int = 1
    seconds: float = 5.0
    rate: float | None = None


@dataclass(frozen=True)
class Observed:
    """What was seen of running queries in a span of time."""

    events: int
    seconds: float
    cores: float
    resident: int | None  # bytes, at most


class YsbBench:
    """Runs over one table of events, which is made once and spans so many windows."""

    def __init__(
        self,
        rows: int = ROWS,
        say: Said = say_nothing,
        windows: int = ysb.ROUND_WINDOWS,
        uuids: Sequence[str] = (),
    ) -> None:
        if windows > rows:
            raise BenchError(
                f"{windows:,} windows in a table of {rows:,} rows: some would have none\n"
                "  fix: use a smaller --windows, or a larger --rows"
            )
        say(f"making {rows:,} rows")
        self.data = ysb.make(rows, uuids=uuids, windows=windows)

    def measure(
        self,
        how: How,
        load: Load,
        *,
        half: bool = False,
        against_polars: bool = False,
        say: Said = say_nothing,
        watch: Watch | None = None,
    ) -> dict[str, Any]:
        """A run; at half of the maximum, or with Polars before and after it, if so asked."""
        if not against_polars:
            return self._at_half(how, load, say, watch) if half else self.run(how, load, say, watch)
        peer = PolarsYsb(self.data)
        share = min(load.seconds * PEER_SHARE, MOST_PEER_SECONDS)
        say("Polars, before")
        peer.measure(share)
        found = self.measure(how, load, half=half, say=say, watch=watch)
        say("Polars, after")
        peer.measure(share)
        ours = found.get("max_events_per_s", found["events_per_s"])
        correct = found["correct"] and peer.correct
        return {**found, "against": {"polars": peer.said(ours)}, "correct": correct}

    def _at_half(self, how: How, load: Load, say: Said, watch: Watch | None) -> dict[str, Any]:
        say("the maximum first")
        most = self.run(how, replace(load, rate=None), say)
        rate = most["events_per_s"] / 2
        say(f"at half of it, {rate / 1e6:.1f} M events/s")
        found = self.run(how, replace(load, rate=rate), say, watch)
        correct = most["correct"] and found["correct"]
        return {**found, "max_events_per_s": most["events_per_s"], "correct": correct}

    def run(
        self, how: How, load: Load, say: Said = say_nothing, watch: Watch | None = None
    ) -> dict[str, Any]:
        """One run, measured and checked."""
        if load.rate is not None:
            self._warm_up(how)
        others, results = load_of_others(), [Results() for _ in range(load.queries)]
        outputs = [self._output(each, load) for each in results]
        with Queries(outputs, how) as queries:
            queries.await_rows()
            if load.rate is None:
                queries.await_that(lambda: all(each.first is not None for each in results))
            queries.await_warm()
            if (
                load.rate is not None
            ):  # rows that were due while the engine started are worked off first
                time.sleep(SETTLE_SECONDS)
            earlier = latencies_so_far(queries.jobs)
            span = self._observe(queries, load.seconds, say, watch)
            read, jobs = queries.rows(), queries.jobs
            late = sum(job.progress().late_rows for job in jobs)
            latencies = worst_of(latencies_so_far(jobs), earlier)
        right = [
            self.data.is_right(each.table(output), count)
            for output, each, count in zip(outputs, results, read)
        ]
        firsts = [each.first for each in results if each.first is not None]
        return {
            "workload": "ysb",
            "engine": how.engine,
            "workers": how.threads,
            "queries": load.queries,
            "fuse": how.fuse,
            "rate": None if load.rate is None else round(load.rate),
            "events": span.events,
            "seconds": round(span.seconds, 3),
            "events_per_s": round(span.events / span.seconds),
            "latency_ms": latencies.pop("block"),
            **{f"{kind}_latency_ms": each for kind, each in latencies.items()},
            "startup_s": round(min(firsts) - queries.started, 4) if firsts else None,
            "rss_mb": None if span.resident is None else round(span.resident / 1e6, 1),
            "cores_used": round(span.cores, 2),
            "load_before": others,
            "rows": self.data.events.num_rows,
            "events_per_window": self.data.events.num_rows // self.data.windows,
            "data_bytes": self.data.events.nbytes,
            **_given(outputs[0], how).said(),
            "pruned": how.prune,
            "capacity": how.capacity,
            "windows": sum(self.data.closed_windows(count) for count in read),
            "late_rows": late,
            "correct": all(right) and late == 0,
        }

    def _warm_up(self, how: How) -> None:
        """Compile all that a run needs: rows that wait for a compiler would be late for long."""
        with Queries([self._output(Results(), Load())], how) as queries:
            queries.await_rows()
            queries.await_warm()
            queries.stop()

    def _output(self, results: Results, load: Load) -> Output:
        rate = None if load.rate is None else max(1, round(load.rate / load.queries))
        events = ysb.replayed(self.data, rate=rate)
        return ysb.pipeline(events, self.data.campaigns).write.callback(results.take)

    def _observe(
        self, queries: Queries, seconds: float, say: Said, watch: Watch | None
    ) -> Observed:
        """Look on for so many seconds, then stop the queries."""
        usage, before, began = Usage(), sum(queries.rows()), time.perf_counter()
        now, said = began, began
        while now < began + seconds:
            time.sleep(min(LOOK_SECONDS, began + seconds - now))
            queries.raise_errors()
            usage.look()
            now = time.perf_counter()
            if now - said >= SAY_SECONDS:  # not oftener: to look at a hundred queries takes time
                said = now
                rate = (sum(queries.rows()) - before) / (now - began)
                say(f"{now - began:.0f} of {seconds:g} s, {short(rate)} events/s")
            if watch is not None:
                watch(queries.jobs[0])
        queries.stop()
        seconds, cores = time.perf_counter() - began, usage.cores()
        return Observed(sum(queries.rows()) - before, seconds, cores, usage.resident)


def _given(output: Output, how: How) -> Given:
    """What the source copies in, as the plan has it."""
    (source,) = planned([output], fuse=how.fuse, prune=how.prune).whole.inputs
    return Given.by(source)
