"""Progress of a job in the terminal: a table that changes in place, plain lines, or JSON.

    with live("my pipeline") as watch:
        hr.run(output, watch=watch)

`watch` may be called as often as the job likes; it draws a few times a second. Where the output is
no terminal (a file, a pipe, a log), one line a second is written instead, and one in ten seconds
while no rows come; with `json=True`, one line of JSON a second, with everything that is measured.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from .numbers import milliseconds, short
from .operators import RATE_SECONDS, Rates, operator_table

DRAWS_PER_SECOND = 8.0
LINES_PER_SECOND = 1.0
QUIET_SECONDS = 10.0  # after which a plain line is written though nothing has changed
Latencies = Mapping[str, Mapping[str, Any]]  # by kind: p50, p99, max (milliseconds) and samples


class Measured(Protocol):
    """How far a job is; `headrace.job.Progress` is one."""

    @property
    def status(self) -> str: ...  # noqa: D102
    @property
    def seconds(self) -> float: ...  # noqa: D102
    @property
    def rows_in(self) -> int: ...  # noqa: D102
    @property
    def rows_out(self) -> int: ...  # noqa: D102
    @property
    def late_rows(self) -> int: ...  # noqa: D102
    @property
    def failed_rows(self) -> int: ...  # noqa: D102
    @property
    def operators(self) -> dict[str, dict[str, Any]]: ...  # noqa: D102


class Watched(Protocol):
    """What can be watched: anything that says how far it is."""

    def progress(self) -> Measured: ...  # noqa: D102


class Watcher:
    """Draws the progress of a job: give it to `hr.run(..., watch=...)`, inside `with`.

    Without `with` it writes plain lines, also on a terminal: nobody would tidy up the screen.
    """

    def __init__(
        self,
        title: str = "headrace",
        console: Console | None = None,
        clock: Callable[[], float] = time.perf_counter,
        json: bool = False,
    ) -> None:
        self._title, self._console, self._clock = title, console or Console(), clock
        self._json, self._rates = json, Rates()
        self._screen: Live | None = None
        self._next = float("-inf")
        self._samples: deque[tuple[float, int]] = deque()
        self._job: Watched | None = None
        self._said: tuple[Any, ...] = ()  # by the last line
        self._said_at = float("-inf")

    def __enter__(self) -> Watcher:
        if self._console.is_terminal and not self._json:
            # Drawn by the job's own calls: no thread that could outlive it.
            self._screen = Live(console=self._console, auto_refresh=False)
            self._screen.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._job is not None:
                self._draw(self._job)
        finally:
            if self._screen is not None:
                self._screen.stop()
                self._screen = None

    def __call__(self, job: Watched) -> None:
        """Look at a job; draws if it is time to."""
        now, self._job = self._clock(), job
        if now < self._next:
            return
        self._next = now + 1 / (LINES_PER_SECOND if self._screen is None else DRAWS_PER_SECOND)
        self._draw(job)

    def _draw(self, job: Watched) -> None:
        if hasattr(job, "metrics"):
            job.metrics()  # whoever watches wants to see the operators inside kernels
        progress, latencies = job.progress(), latencies_of(job)
        rate = self._rate(progress)
        self._rates.add(progress.seconds, progress.operators)
        if self._screen is not None:
            drawn = picture(self._title, progress, rate, self._rates, latencies)
            self._screen.update(drawn, refresh=True)
            return
        if self._is_said(progress):
            return
        said = (as_json if self._json else line)(self._title, progress, rate, latencies)
        self._console.print(said, highlight=False, markup=False, soft_wrap=True)

    def _is_said(self, progress: Measured) -> bool:
        """Would a line only say again what the last one did?"""
        news = progress.status, progress.rows_in, progress.rows_out
        may_wait = _is_over(progress) or not self._json
        if news == self._said and may_wait and progress.seconds < self._said_at + QUIET_SECONDS:
            return True
        self._said, self._said_at = news, progress.seconds
        return False

    def _rate(self, progress: Measured) -> float:
        """Rows per second now; over the whole run once it is over."""
        samples = self._samples
        samples.append((progress.seconds, progress.rows_in))
        while len(samples) > 2 and samples[1][0] <= progress.seconds - RATE_SECONDS:
            samples.popleft()
        first, rows = samples[0]
        if _is_over(progress) or progress.seconds <= first:
            first, rows = 0.0, 0
        return (progress.rows_in - rows) / max(progress.seconds - first, 1e-9)


def _is_over(progress: Measured) -> bool:
    return progress.status not in ("starting", "running")


def latencies_of(job: Any) -> Latencies:
    """The latencies of a job, by kind, where its engine measures them and there are any."""
    if not hasattr(job, "latency"):
        return {}
    return {kind: each.as_dict_ms() for kind, each in job.latency().items() if each.count}


def live(title: str = "headrace", console: Console | None = None, json: bool = False) -> Watcher:
    """A watcher for `hr.run(..., watch=...)`, to be used with `with`.

    >>> import io
    >>> import headrace as hr
    >>> with live("numbers", Console(file=io.StringIO())) as watch:
    ...     hr.run(hr.read.memory({"n": [1, 2, 3]}).write.null(), watch=watch).status
    'finished'
    """
    return Watcher(title, console, json=json)


def line(title: str, progress: Measured, rate: float, latencies: Latencies | None = None) -> str:
    """The progress in one plain line."""
    said = (
        f"{title}: {progress.status}, {progress.seconds:.1f} s, {progress.rows_in:,} rows in "
        f"({short(rate)}/s), {progress.rows_out:,} out"
    )
    said += f", {progress.late_rows:,} late" if progress.late_rows else ""
    said += f", {progress.failed_rows:,} failed" if progress.failed_rows else ""
    return said + "".join(
        f", {kind} latency {_said(each)}" for kind, each in (latencies or {}).items()
    )


def picture(
    title: str,
    progress: Measured,
    rate: float,
    rates: Rates | None = None,
    latencies: Latencies | None = None,
) -> RenderableType:
    """The progress as a headline, the latencies, and a table of the operators."""
    headline = Text.assemble(
        (f"{title}  ", "bold"),
        (progress.status, "green" if progress.status != "failed" else "red"),
        f"  {progress.seconds:.1f} s   {short(progress.rows_in)} rows in   ",
        (f"{short(rate)}/s", "cyan bold"),
        f"   {short(progress.rows_out)} out   ",
        (f"{progress.late_rows:,} late", "yellow" if progress.late_rows else "dim"),
        (f"   {progress.failed_rows:,} failed" if progress.failed_rows else "", "red"),
    )
    if rates is None:
        rates = Rates()
        rates.add(progress.seconds, progress.operators)
    lines = [
        Text.assemble((f"{kind} latency  ", "dim"), _said(each))
        for kind, each in (latencies or {}).items()
    ]
    return Group(headline, *lines, operator_table(progress.operators, rates, progress.seconds))


def _said(latency: Mapping[str, Any]) -> str:
    parts = [f"{part} {milliseconds(latency[part])}" for part in ("p50", "p99", "max")]
    return f"{', '.join(parts)} ms"


def as_json(title: str, progress: Measured, rate: float, latencies: Latencies | None = None) -> str:
    """The progress as one line of JSON, with all that is known of the operators."""
    said = {
        "job": title,
        "status": progress.status,
        "seconds": round(progress.seconds, 3),
        "rows_in": progress.rows_in,
        "rows_out": progress.rows_out,
        "late_rows": progress.late_rows,
        "failed_rows": progress.failed_rows,
        "rows_per_second": round(rate, 1),
        "latency_ms": latencies or {},
        "operators": progress.operators,
    }
    return json.dumps(said, default=str)
