"""`headrace bench node`: all figures of the node engine, with what each must reach.

One JSON line per figure with `--json`; otherwise progress, then a table, which `--markdown` gives
in the form that the documentation has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .harness import MissingPackage
from .node_figures import FIGURES, MEASURES, Bench, Settings
from .peers import import_polars
from .saying import saying

OURS, LIMIT, MISSED = "#2f6db3", "#c8412b", "#b9bec6"


def run(
    names: Sequence[str] = (),
    *,
    settings: Settings | None = None,
    as_json: bool = False,
    markdown: bool = False,
    plot: Path | None = None,
    console: Console | None = None,
) -> list[dict[str, Any]]:
    """Measure figures (all, without names), print them, and give them back."""
    console, results = console or Console(), []
    wanted = names or list(FIGURES)
    import_polars()  # its number of threads is set before anything else imports it
    for result in _measured(wanted, settings or Settings(), as_json or markdown, console):
        results.append(result)
        if as_json:
            print(json.dumps(result), flush=True)
    if markdown:
        print("\n".join(as_markdown(results)))
    elif not as_json:
        console.print(table(results))
    if plot is not None:
        draw(results, plot)
    return results


def _measured(
    wanted: Sequence[str], settings: Settings, silent: bool, console: Console
) -> Iterator[dict[str, Any]]:
    bench = Bench(settings)
    for names, measure in MEASURES.items():
        if not set(names) & set(wanted):
            continue
        with saying(", ".join(names), silent, console) as say:
            bench.say = say
            found = measure(bench)
        for name in names:
            if name in wanted:
                yield found[name].said(FIGURES[name])


def _value(result: dict[str, Any]) -> str:
    if result["value"] is None:
        return "unknown"
    return f"{result['value']:.3g} {result['unit']}"


def _limit(result: dict[str, Any]) -> str:
    return f"{'≤' if result['at_most'] else '≥'} {result['must_reach']:g} {result['unit']}"


def _verdict(result: dict[str, Any]) -> str:
    if not result["correct"]:
        return "WRONG"
    return "reached" if result["reached"] else "missed"


def table(results: Sequence[dict[str, Any]]) -> Table:
    """The figures for the terminal."""
    made = Table(title="headrace bench node")
    made.add_column("figure", style="bold", no_wrap=True)
    made.add_column("what it is")
    for heading in ("value", "must reach", ""):
        made.add_column(heading, justify="right", no_wrap=True)
    styles = {"reached": "green", "missed": "red", "WRONG": "bold red"}
    for result in results:
        verdict = _verdict(result)
        shown = Text(verdict, styles[verdict])
        made.add_row(result["figure"], result["title"], _value(result), _limit(result), shown)
    return made


def as_markdown(results: Sequence[dict[str, Any]]) -> list[str]:
    """The figures as the lines of a table in Markdown."""
    lines = ["| figure | measured | must reach | |", "|---|---|---|---|"]
    for result in results:
        cells = [result["title"], f"**{_value(result)}**", _limit(result), _verdict(result)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def draw(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Bars: how good each figure is, as a multiple of what it must reach."""
    try:
        from matplotlib.figure import Figure as Drawing
    except ImportError:
        raise MissingPackage(
            "a plot needs matplotlib, which is not installed\n  fix: pip install 'headrace[plot]'"
        ) from None
    shown = [result for result in results if result["value"]][::-1]
    drawing = Drawing(figsize=(9.5, 1.2 + 0.42 * len(shown)), layout="constrained")
    axis = drawing.subplots()
    good = [_how_good(result) for result in shown]
    colors = [OURS if result["reached"] else MISSED for result in shown]
    drawn = axis.barh([result["title"] for result in shown], good, color=colors, height=0.62)
    labels = [f"{_value(result)}  ({_limit(result)})" for result in shown]
    axis.bar_label(drawn, labels=labels, padding=4, fontsize=9)
    axis.axvline(1.0, color=LIMIT, linewidth=2)
    axis.set_xscale("log", base=2)
    axis.margins(x=0.35)
    axis.set_xlabel("times as good as it must be (logarithmic)")
    axis.set_title("The node engine on two cores", loc="left")
    axis.spines[["top", "right"]].set_visible(False)
    drawing.savefig(path, dpi=150)


def _how_good(result: dict[str, Any]) -> float:
    better = result["must_reach"] / result["value"]
    return float(better if result["at_most"] else 1 / better)
