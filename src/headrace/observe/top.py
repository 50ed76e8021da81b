"""`headrace top`: the jobs of this user that run in other processes, live."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from .notice import running
from .operators import Rates
from .progress import line, picture

EVERY = 1.0  # seconds from one look to the next
NOBODY = "no job runs here, or none for long enough"


class Top:
    """Looks at all jobs, and remembers how far they were, for their rates."""

    def __init__(self) -> None:
        self._rates: defaultdict[str, Rates] = defaultdict(Rates)
        self._totals: defaultdict[str, Rates] = defaultdict(Rates)

    def look(self) -> list[tuple[str, Any, float, Rates]]:
        """For each job what it tells, rows per second, and the same for its operators."""
        seen = []
        for name, told in running():
            told.pop("graph", None)  # `headrace graph` draws it
            progress, rates, total = SimpleNamespace(**told), self._rates[name], self._totals[name]
            rates.add(progress.seconds, progress.operators)
            total.add(progress.seconds, {"": told})
            seen.append((name, progress, total.of("")[0], rates))
        return seen


def watch(
    seconds: float | None = None, *, as_json: bool = False, console: Console | None = None
) -> bool:
    """Show the jobs that run, for so long (None: until interrupted); was there any?

    On a terminal a picture that changes in place, elsewhere a line for each job and second, or with
    as_json all that it tells.
    """
    top, out = Top(), console or Console()
    until = None if seconds is None else time.monotonic() + seconds
    found = False
    screen = Live(console=out, auto_refresh=False) if out.is_terminal and not as_json else None
    try:
        if screen is not None:
            screen.start()
        while True:
            seen = top.look()
            found = found or bool(seen)
            if screen is not None:
                screen.update(_picture(seen), refresh=True)
            for _, progress, rate, _ in () if screen else seen:
                said = {**vars(progress), "rows_per_second": round(rate, 1)}
                plain = line(progress.job, progress, rate, progress.latency_ms)
                text = json.dumps(said) if as_json else plain
                out.print(text, highlight=False, markup=False, soft_wrap=True)
            if until is not None and time.monotonic() >= until:
                return found
            time.sleep(EVERY)
    finally:
        if screen is not None:
            screen.stop()


def _picture(seen: list[tuple[str, Any, float, Rates]]) -> RenderableType:
    parts: list[RenderableType] = []
    for _, progress, rate, rates in seen:
        parts += [picture(progress.job, progress, rate, rates, progress.latency_ms), Text()]
    return Group(*parts) if parts else Text(NOBODY, "dim")
