"""Figures for people: a table in the terminal and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from .harness import needed

OURS, THEIRS, LIMIT = "#2f6db3", "#b9bec6", "#c8412b"
BUSY = 0.3  # cores that others use; beyond it a ratio is to be doubted


def table(results: Sequence[dict[str, Any]]) -> RenderableType:
    """The figures as a table, with a line for each figure that was missed."""
    made = Table(title="headrace bench stage: one thread, against Polars on two")
    made.add_column("figure", style="bold", no_wrap=True)
    for heading in ("headrace", "Polars", "ratio", "must reach", ""):
        made.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        for row in _rows(result):
            made.add_row(*row)
    return Group(made, *map(Text, _remarks(results)))


def _rows(result: dict[str, Any]) -> list[list[RenderableType]]:
    name, wanted, right = result["figure"], result["must_reach"], result["correct"]
    if isinstance(wanted, dict):
        return [
            [
                f"{name}, {kind.removesuffix('_s')}",
                f"{result[kind]:.2f} s",
                "",
                "",
                f"≤ {limit:g} s",
                _verdict(right, result[kind] <= limit),
            ]
            for kind, limit in wanted.items()
        ]
    ours, theirs = result["events_per_s_median"], result["polars_events_per_s_median"]
    ratio, verdict = f"{result['ratio']:.2f} ×", _verdict(right, result["reached"])
    return [[name, _rate(ours), _rate(theirs), ratio, f"≥ {wanted:g} ×", verdict]]


def _verdict(right: bool, reached: bool) -> Text:
    if not right:
        return Text("WRONG", "bold red")
    return Text("reached", "green") if reached else Text("missed", "red")


def _rate(rows_per_second: float) -> str:
    return f"{rows_per_second / 1e6:.1f} M/s"


def _remarks(results: Sequence[dict[str, Any]]) -> list[str]:
    remarks = []
    for result in results:
        name = result["figure"]
        if not result["correct"]:
            remarks.append(f"{name}: a result was not the expected one")
        elif not result["reached"]:
            remarks.append(f"{name}: missed what it must reach, on this machine and now")
        if result.get("polars_threads", 2) != 2:
            threads = result["polars_threads"]
            remarks.append(f"{name}: Polars had {threads} threads, not 2 (POLARS_MAX_THREADS)")
        if (result.get("load_before") or 0) > BUSY:
            remarks.append(
                f"{name}: others kept {result['load_before']:g} cores busy, which flatters one "
                f"thread against two; best against best: {result['ratio_best']:.2f} ×"
            )
        if "copied_columns" in result:
            remarks.append(
                f"{name}: {result['rows']:,} rows; the source copies all "
                f"{len(result['copied_columns'])} columns, {result['bytes_copied_per_row']} bytes"
            )
    return [*remarks, "Rates (rows per second) and ratios are medians of runs in turns."]


def plot(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Bars: our rate beside that of Polars, and what must be reached."""
    figure = needed("matplotlib.figure", "a plot", "plot")
    rates = [result for result in results if "events_per_s_median" in result]
    starts = [result for result in results if "warm_s" in result]
    parts = [part for part in (rates, starts) if part]
    drawing = figure.Figure(
        figsize=(2.4 + 2.2 * len(rates) + 2.4 * len(starts), 4.2), layout="constrained"
    )
    widths = [len(part) if part is rates else 1.1 for part in parts]
    axes = drawing.subplots(1, len(parts), width_ratios=widths, squeeze=False)[0]
    for axis, part in zip(axes, parts):
        (_draw_rates if part is rates else _draw_starts)(axis, part)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#e6e8eb")
        axis.set_axisbelow(True)
    drawing.savefig(path, dpi=150)


def _draw_rates(axis: Any, results: Sequence[dict[str, Any]]) -> None:
    width = 0.36
    for place, result in enumerate(results):
        theirs = result["polars_events_per_s_median"] / 1e6
        ours = result["events_per_s_median"] / 1e6
        first = place == 0
        axis.bar(place - width / 2, ours, width, color=OURS, label="headrace" if first else None)
        axis.bar(place + width / 2, theirs, width, color=THEIRS, label="Polars" if first else None)
        limit = result["must_reach"] * theirs
        axis.hlines(
            limit,
            place - width,
            place,
            color=LIMIT,
            linewidth=2,
            label="must reach" if first else None,
        )
        axis.annotate(
            f"{result['ratio']:.2f} ×", (place - width / 2, ours / 2), ha="center", color="white"
        )
    axis.set_xticks(range(len(results)), [result["figure"] for result in results])
    axis.set_ylabel("million rows per second (median)")
    axis.set_title("Throughput: headrace on 1 thread, Polars on 2")
    axis.margins(y=0.12)
    axis.legend(frameon=False)


def _draw_starts(axis: Any, results: Sequence[dict[str, Any]]) -> None:
    (result,) = results
    for place, kind in enumerate(("warm", "cold")):
        seconds, limit = result[f"{kind}_s"], result["must_reach"][f"{kind}_s"]
        axis.bar(place, seconds, 0.5, color=OURS)
        axis.hlines(limit, place - 0.36, place + 0.36, color=LIMIT, linewidth=2)
        axis.annotate(
            f"{seconds:.2f} s", (place, seconds / 2), ha="center", va="center", color="white"
        )
    axis.set_xticks((0, 1), ("warm cache", "cold cache"))
    axis.set_ylabel("seconds")
    axis.set_title("New process: first result")
    axis.margins(y=0.12)


def show(results: Sequence[dict[str, Any]], console: Console) -> None:
    """Print the table."""
    console.print(table(results))
