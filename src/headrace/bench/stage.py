"""`headrace bench stage`: what one `Stage` on one thread does, as ratios to Polars on two.

One JSON line per figure with `--json`; otherwise progress, then a table.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from . import report
from .figures import FIGURES, Settings
from .saying import saying


def run(
    names: Sequence[str] = (),
    *,
    settings: Settings | None = None,
    as_json: bool = False,
    plot: Path | None = None,
    console: Console | None = None,
) -> list[dict[str, Any]]:
    """Measure figures (all, without names), print them, and give them back."""
    settings = settings or Settings()
    console = console or Console()
    results = []
    for name in names or FIGURES:
        figure = FIGURES[name]
        with saying(name, as_json, console) as say:
            result = figure.measure(figure, settings, say)
        results.append(result)
        if as_json:
            print(json.dumps(result), file=sys.stdout, flush=True)
    if not as_json:
        report.show(results, console)
    if plot is not None:
        report.plot(results, plot)
        if not as_json:
            console.print(f"plot: {plot}")
    return results
