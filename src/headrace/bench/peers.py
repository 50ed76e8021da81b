"""Others that compute the same: Polars, over the same rows in memory, with two threads."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from headrace.workloads import ysb
from headrace.workloads.compare import same_rows

from .harness import Run, needed

POLARS_THREADS = 2
FEWEST_RUNS = 5


def import_polars() -> Any:
    """Polars with two threads; the number must be set before it is first imported."""
    os.environ.setdefault("POLARS_MAX_THREADS", str(POLARS_THREADS))
    return needed("polars", "a ratio to Polars")


def polars_ysb(data: ysb.Ysb) -> Callable[[], Any]:
    """The Yahoo query as a batch in Polars: a function that runs it and gives the frame."""
    polars = import_polars()
    events, campaigns = polars.from_arrow(data.events), polars.from_arrow(data.campaigns)
    column, window = polars.col, ysb.WINDOW_MS

    def run() -> Any:
        query = (
            events.lazy()
            .filter(column("event_type") == ysb.VIEW)
            .select("ad_id", "event_time")
            .join(campaigns.lazy(), on="ad_id")
            .group_by(
                (column("event_time") // window * window).alias("window_start"), "campaign_id"
            )
            .agg(polars.len().alias("views"))
        )
        return query.collect()

    return run


class PolarsYsb:
    """The Yahoo query in Polars, measured in parts: before our run and after it.

    The result of each part is compared in full, outside the time that is measured.
    """

    def __init__(self, data: ysb.Ysb) -> None:
        self._run, self._expected = polars_ysb(data), data.expected()
        self._rows = data.events.num_rows
        self.times: list[float] = []
        self.correct = True
        self._run()  # warm up: threads, memory

    def measure(self, seconds: float) -> Run:
        """Run it again and again, so long and a few times at least; gives the median run."""
        times: list[float] = []
        until = time.perf_counter() + seconds
        while len(times) < FEWEST_RUNS or time.perf_counter() < until:
            started = time.perf_counter()
            result = self._run()
            times.append(time.perf_counter() - started)
        self.times += times
        self.correct &= same_rows(result.to_arrow(), self._expected)
        best = self._rows / min(times)
        return Run(self._rows, statistics.median(times), self.correct, most=best)

    def said(self, ours: float) -> dict[str, Any]:
        """What is reported, given our events per second: theirs and the ratio, by medians."""
        polars = import_polars()
        rate = self._rows / statistics.median(self.times)
        best = self._rows / min(self.times)
        return {
            "events_per_s": round(rate),
            "ratio": round(ours / rate, 3),
            "events_per_s_best": round(best),
            "ratio_to_best": round(ours / best, 3),
            "runs": len(self.times),
            "threads": polars.thread_pool_size(),
            "version": polars.__version__,
            "correct": self.correct,
        }
