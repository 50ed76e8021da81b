"""Progress of a job in the terminal: a table that changes in place, or plain lines.

    with live("my pipeline") as watch:
        hr.run(output, watch=watch)

`watch` may be called as often as the job likes; it draws a few times a second. Where the output is
no terminal (a file, a pipe, a log), one line a second is written instead.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

DRAWS_PER_SECOND = 8.0
LINES_PER_SECOND = 1.0
RATE_SECONDS = 1.0  # the current rate is that of the last second


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
    ) -> None:
        self._title, self._console, self._clock = title, console or Console(), clock
        self._screen: Live | None = None
        self._next = float("-inf")
        self._samples: deque[tuple[float, int]] = deque()
        self._job: Watched | None = None

    def __enter__(self) -> Watcher:
        if self._console.is_terminal:
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
                self._draw(self._job.progress())
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
        self._draw(job.progress())

    def _draw(self, progress: Measured) -> None:
        rate = self._rate(progress)
        if self._screen is not None:
            self._screen.update(picture(self._title, progress, rate), refresh=True)
        else:
            self._console.print(line(self._title, progress, rate), highlight=False, soft_wrap=True)

    def _rate(self, progress: Measured) -> float:
        """Rows per second now; over the whole run once it is over."""
        samples = self._samples
        samples.append((progress.seconds, progress.rows_in))
        while len(samples) > 2 and samples[1][0] <= progress.seconds - RATE_SECONDS:
            samples.popleft()
        (first, rows), over = samples[0], progress.status not in ("starting", "running")
        if over or progress.seconds <= first:
            first, rows = 0.0, 0
        return (progress.rows_in - rows) / max(progress.seconds - first, 1e-9)


def live(title: str = "headrace", console: Console | None = None) -> Watcher:
    """A watcher for `hr.run(..., watch=...)`, to be used with `with`.

    >>> import io
    >>> import headrace as hr
    >>> with live("numbers", Console(file=io.StringIO())) as watch:
    ...     hr.run(hr.read.memory({"n": [1, 2, 3]}).write.null(), watch=watch).status
    'finished'
    """
    return Watcher(title, console)


def line(title: str, progress: Measured, rate: float) -> str:
    """The progress in one plain line."""
    said = (
        f"{title}: {progress.status}, {progress.seconds:.1f} s, {progress.rows_in:,} rows in "
        f"({short(rate)}/s), {progress.rows_out:,} out"
    )
    return f"{said}, {progress.late_rows:,} late" if progress.late_rows else said


def picture(title: str, progress: Measured, rate: float) -> RenderableType:
    """The progress as a headline and a table of the operators."""
    headline = Text.assemble(
        (f"{title}  ", "bold"),
        (progress.status, "green" if progress.status != "failed" else "red"),
        f"  {progress.seconds:.1f} s   {short(progress.rows_in)} rows in   ",
        (f"{short(rate)}/s", "cyan bold"),
        f"   {short(progress.rows_out)} out   ",
        (f"{progress.late_rows:,} late", "yellow" if progress.late_rows else "dim"),
    )
    operators = Table(box=None, padding=(0, 2), header_style="dim")
    operators.add_column("operator")
    for heading in ("rows in", "rows out", "late", "busy", "state"):
        operators.add_column(heading, justify="right")
    for name, measured in progress.operators.items():
        operators.add_row(*_cells(name, measured, progress.seconds))
    return Group(headline, operators)


def _cells(name: str, measured: dict[str, Any], seconds: float) -> list[str]:
    inside = measured.get("operators", [])
    # What the planner added to an operator is named after it and is not the user's.
    users = [each for each in inside if each.rpartition(".")[0] not in inside]
    said = "\n→ ".join(users) if users else name
    busy = f"{measured['seconds'] / seconds:.0%}" if inside and seconds > 0 else ""
    keys = measured.get("state_keys", 0)
    state = f"{keys:,} keys, {short(measured['state_bytes'])}B" if keys else ""
    late = f"{measured['late_rows']:,}" if measured["late_rows"] else ""
    rows_out = f"{measured['rows_out']:,}" if inside else ""
    return [said, f"{measured['rows_in']:,}", rows_out, late, busy, state]


def short(number: float) -> str:
    """A large number in a few characters.

    >>> short(1_512_345), short(12_000), short(999_999), short(7)
    ('1.51 M', '12.0 k', '1.00 M', '7')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:  # what would be rounded up to it as well
            number /= size
            decimals = max(0, 3 - len(str(int(number))))
            return f"{number:.{decimals}f} {unit}"
    return f"{number:.0f}"
