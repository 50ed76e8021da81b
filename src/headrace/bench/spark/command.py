"""The command itself: runs cases, one JSON line for each, or a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.bench.machine import load_of_others
from headrace.bench.saying import saying

from .cases import CASES
from .context import opened


def run(
    names: Sequence[str] = (),
    *,
    scale: float = 1.0,
    as_json: bool = False,
    console: Console | None = None,
    session: Any = None,
) -> list[dict[str, Any]]:
    """Measure cases (all, without names), print them, and give them back."""
    console = console or Console()
    chosen = [CASES[name] for name in names or CASES]
    results = []
    wants_kafka = any(case.name == "kafka_json" for case in chosen)
    with opened(scale, session, kafka=wants_kafka) as context:
        for case in chosen:
            load = load_of_others()
            with saying(case.name, as_json, console) as context.say:
                result = {**case.run(context), "load_before": load}
            results.append(result)
            if as_json:
                print(json.dumps(result), file=sys.stdout, flush=True)
    if not as_json:
        console.print(table(results))
    return results


def table(results: Sequence[dict[str, Any]]) -> RenderableType:
    """The cases as a table, with a line for each that was skipped."""
    made = Table(title="headrace bench spark: the same work on the same two cores")
    made.add_column("case", style="bold", no_wrap=True)
    made.add_column("what; compared with", overflow="fold")
    for heading in ("headrace", "the other", "ratio", "target", ""):
        made.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        ratio = "" if result["ratio"] is None else f"{result['ratio']:.2f}"
        rates = [_rate(result[name]) for name in ("rows_per_s", "their_rows_per_s")]
        title = CASES[result["case"]].title
        verdict = _verdict(result)
        made.add_row(result["case"], title, *rates, ratio, result["target"], verdict)
    skipped = [f"{r['case']}: {r['skipped']}" for r in results if "skipped" in r]
    return Group(made, *map(Text, skipped))


def _rate(rows_per_second: float | None) -> str:
    return "" if not rows_per_second else f"{rows_per_second / 1e6:.3g} M/s"


def _verdict(result: dict[str, Any]) -> Text:
    if "skipped" in result:
        return Text("skipped", "yellow")
    if not result["correct"]:
        return Text("WRONG", "bold red")
    return Text("reached", "green") if result["reached"] else Text("missed", "red")
