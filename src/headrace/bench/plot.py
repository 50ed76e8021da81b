"""A plot of figures: how much better or worse each is than it must be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .harness import needed
from .report import Result, limit_of, value_of

GOOD, BAD, INK = "#2f6db3", "#c8412b", "#333a44"
TICKS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


def draw(title: str, results: Sequence[Result], path: Path) -> None:
    """How good each figure is, as a multiple of what it must reach."""
    figure = needed("matplotlib.figure", "a plot", "plot")
    shown = [result for result in results if (result["value"] or 0) > 0][::-1]
    good = [_how_good(result) for result in shown]
    drawing = figure.Figure(figsize=(9.5, 1.4 + 0.36 * len(shown)), layout="constrained")
    axis = drawing.subplots()
    for place, (result, times) in enumerate(zip(shown, good)):
        color = GOOD if result["reached"] else BAD
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
    values.set_yticks(range(len(shown)), [f"{value_of(r)}   ({limit_of(r)})" for r in shown])
    for each in (axis, values):
        each.tick_params(axis="y", length=0)
        each.spines[["top", "left", "right"]].set_visible(False)
    axis.grid(axis="x", color="#e6e8eb")
    axis.set_axisbelow(True)
    axis.set_title(title, loc="left", color=INK)
    drawing.savefig(path, dpi=150)


def _how_good(result: Result) -> float:
    better = result["must_reach"] / result["value"]
    return float(better if result["at_most"] else 1 / better)
