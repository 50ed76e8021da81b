"""`headrace bench node`: all figures of the node engine, with what each must reach.

One JSON line per figure with `--json`; otherwise progress, then a table, which `--markdown` gives
in the form that the documentation has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from .harness import needed
from .machine import load_of_others
from .node_figures import FIGURES, MEASURES, Bench, Settings
from .peers import import_polars
from .saying import saying

OURS, LIMIT, INK = "#2f6db3", "#c8412b", "#333a44"
TICKS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
BUSY = 0.3  # cores that others use; beyond it a figure is to be doubted


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
        load = load_of_others()
        with saying(", ".join(names), silent, console) as say:
            bench.say = say
            found = measure(bench)
        for name in names:
            if name in wanted:
                yield {**found[name].said(FIGURES[name]), "load_before": load}


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


def table(results: Sequence[dict[str, Any]]) -> RenderableType:
    """The figures for the terminal, and a word on what else the machine did."""
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
    load = max(result["load_before"] or 0.0 for result in results)
    if load <= BUSY:
        return made
    return Group(made, Text(f"others kept up to {load:g} cores busy: these figures say little"))


def as_markdown(results: Sequence[dict[str, Any]]) -> list[str]:
    """The figures as the lines of a table in Markdown."""
    lines = ["| figure | measured | must reach | |", "|---|---|---|---|"]
    for result in results:
        cells = [result["title"], f"**{_value(result)}**", _limit(result), _verdict(result)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def draw(results: Sequence[dict[str, Any]], path: Path) -> None:
    """How good each figure is, as a multiple of what it must reach."""
    figure = needed("matplotlib.figure", "a plot", "plot")
    shown = [result for result in results if result["value"]][::-1]
    good = [_how_good(result) for result in shown]
    drawing = figure.Figure(figsize=(9.5, 1.4 + 0.36 * len(shown)), layout="constrained")
    axis = drawing.subplots()
    for place, (result, times) in enumerate(zip(shown, good)):
        color = OURS if result["reached"] else LIMIT
        axis.plot((1.0, times), (place, place), color=color, linewidth=3, solid_capstyle="round")
        axis.plot(times, place, "o", color=color, markersize=8)
    axis.axvline(1.0, color=INK, linewidth=1)
    far = 1.3 * max([2.0, *good, *(1 / times for times in good)])
    axis.set(xscale="log", xlim=(1 / far, far), ylim=(-0.7, len(shown) - 0.3))
    ticks = [times for times in TICKS if 1 / far < times < far]
    axis.set_xticks(ticks, [f"{times:g} ×" for times in ticks])
    axis.set_xticks([], minor=True)
    axis.set_yticks(range(len(shown)), [result["title"] for result in shown])
    axis.set_xlabel("how much better than it must be (right) or worse (left)")
    values = axis.secondary_yaxis("right")
    values.set_yticks(range(len(shown)), [f"{_value(r)}   ({_limit(r)})" for r in shown])
    for each in (axis, values):
        each.tick_params(axis="y", length=0)
        each.spines[["top", "left", "right"]].set_visible(False)
    axis.grid(axis="x", color="#e6e8eb")
    axis.set_axisbelow(True)
    axis.set_title("The node engine, figure by figure", loc="left", color=INK)
    drawing.savefig(path, dpi=150)


def _how_good(result: dict[str, Any]) -> float:
    better = result["must_reach"] / result["value"]
    return float(better if result["at_most"] else 1 / better)
