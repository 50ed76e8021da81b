"""Figures for people: a table in the terminal and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from .harness import MissingPackage

OURS, THEIRS, LIMIT = "#2f6db3", "#b9bec6", "#c8412b"


def table(results: Sequence[dict[str, Any]]) -> RenderableType:
    """The figures as a table, with a line for each figure that was missed."""
    made = Table(title="headrace bench stage: one thread, against Polars on two")
    made.add_column("figure", style="bold")
    for heading in ("headrace", "Polars", "ratio", "must reach", "", "rows"):
        made.add_column(heading, justify="right")
    for result in results:
        made.add_row(*_cells(result))
    return Group(made, *map(Text, _remarks(results)))


def _cells(result: dict[str, Any]) -> list[Any]:
    verdict = Text("reached", "green") if result["reached"] else Text("missed", "red")
    if not result["correct"]:
        verdict = Text("WRONG", "bold red")
    rows = f"{result['rows']:,}"
    if "warm_s" in result:
        limits = result["must_reach"]
        measured = f"{result['warm_s']:.2f} s warm, {result['cold_s']:.2f} s cold"
        wanted = f"≤ {limits['warm_s']:g} s, ≤ {limits['cold_s']:g} s"
        return [result["figure"], measured, "", "", wanted, verdict, rows]
    return [
        result["figure"],
        _rate(result["events_per_s_median"]),
        _rate(result["polars_events_per_s_median"]),
        f"{result['ratio']:.2f} ×",
        f"≥ {result['must_reach']:g} ×",
        verdict,
        rows,
    ]


def _rate(rows_per_second: float) -> str:
    return f"{rows_per_second / 1e6:.1f} M rows/s"


def _remarks(results: Sequence[dict[str, Any]]) -> list[str]:
    remarks = []
    for result in results:
        if not result["correct"]:
            remarks.append(f"{result['figure']}: a result was not the expected one")
        elif not result["reached"]:
            remarks.append(f"{result['figure']}: missed what it must reach on this machine, now")
        if result.get("polars_threads", 2) != 2:
            remarks.append(
                f"{result['figure']}: Polars had {result['polars_threads']} threads, not 2 "
                "(POLARS_MAX_THREADS)"
            )
    copied = {(len(r["copied_columns"]), r["bytes_copied_per_row"]) for r in results if "keys" in r}
    copied |= {(len(r["copied_columns"]), r["bytes_copied_per_row"]) for r in results if "copied_columns" in r}
    if copied:
        said = ", ".join(f"{columns} columns ({size} bytes a row)" for columns, size in sorted(copied))
        remarks.append(f"The source copies all columns into blocks: {said}.")
        remarks.append("Rates and ratios are medians; the two run in turns on the same rows.")
    return remarks


def plot(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Bars: our rate beside that of Polars, and what must be reached."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackage(
            "a plot needs matplotlib, which is not installed\n  fix: pip install 'headrace[plot]'"
        ) from None
    rates = [result for result in results if "events_per_s_median" in result]
    starts = [result for result in results if "warm_s" in result]
    parts = [part for part in (rates, starts) if part]
    drawing = Figure(figsize=(2.4 + 2.2 * len(rates) + 2.4 * len(starts), 4.2), layout="constrained")
    widths = [len(part) if part is rates else 0.8 for part in parts]
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
            f"{result['ratio']:.2f} ×",
            (place - width / 2, ours),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            color=OURS,
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
            f"{seconds:.2f} s",
            (place, seconds),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            color=OURS,
        )
    axis.set_xticks((0, 1), ("warm cache", "cold cache"))
    axis.set_ylabel("seconds")
    axis.set_title("First result of a new process")
    axis.margins(y=0.12)


def show(results: Sequence[dict[str, Any]], console: Console) -> None:
    """Print the table."""
    console.print(table(results))
