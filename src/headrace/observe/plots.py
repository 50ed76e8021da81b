"""Plots of results: views per campaign, drawn with matplotlib or with characters."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAMED = ("#2f6db3", "#d9822b", "#3a9a5c", "#8e5bb5", "#c2486a")  # of the campaigns that stand out
OTHERS = "#c3c8cf"
INK = "#333a44"
MOST_LABELS = 7  # on the axis of time


def bars_as_text(totals: Mapping[str, int], width: int = 50) -> str:
    """A bar chart for a terminal.

    >>> print(bars_as_text({"a": 10, "bc": 20}, width=4))
    bc ████ 20
    a  ██ 10
    """
    most = max(totals.values(), default=0) or 1
    pad = max(map(len, totals), default=0)
    lines = [
        f"{name:{pad}} {'█' * round(width * count / most)} {count:,}"
        for name, count in sorted(totals.items(), key=lambda item: -item[1])
    ]
    return "\n".join(lines)


def draw_campaigns(views: Mapping[tuple[int, str], int], path: Path, subtitle: str) -> None:
    """Save a picture of views by (window start in microseconds, campaign).

    Left, views in each window over event time; right, totals. Without matplotlib: ImportError.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    starts = sorted({start for start, _ in views})
    totals: dict[str, int] = {}
    for (_, name), count in views.items():
        totals[name] = totals.get(name, 0) + count
    names = sorted(totals, key=lambda name: -totals[name])
    colors = dict.fromkeys(names, OTHERS) | dict(zip(names, NAMED))
    drawing = Figure(figsize=(11, 4.8), layout=ConstrainedLayoutEngine(wspace=0.06))
    over_time, in_all = drawing.subplots(1, 2, width_ratios=(1.7, 1))
    drawing.suptitle("Ad views per campaign", x=0.01, ha="left", fontsize=15, weight="bold")
    _draw_windows(over_time, views, starts, names, colors)
    _draw_totals(in_all, totals, names, colors)
    in_all.set_xlabel("views (thousands)")
    for axis in (over_time, in_all):
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=INK)
        axis.set_axisbelow(True)
    drawing.text(0.99, 0.975, subtitle, ha="right", va="top", fontsize=10, color="#6b7480")
    drawing.savefig(path, dpi=150)


def _draw_windows(
    axis: Any,
    views: Mapping[tuple[int, str], int],
    starts: list[int],
    names: list[str],
    colors: Mapping[str, str],
) -> None:
    times = [datetime.datetime.fromtimestamp(start / 1e6, datetime.UTC) for start in starts]
    for name in reversed(names):  # those that stand out on top
        counts = [views.get((start, name), 0) / 1000 for start in starts]
        stands_out = colors[name] != OTHERS
        axis.plot(
            times,
            counts,
            color=colors[name],
            linewidth=2.2 if stands_out else 1.2,
            marker="o",
            markersize=4.5 if stands_out else 2.5,
        )
    labelled = times[:: -(-len(times) // MOST_LABELS)]
    axis.set_xticks(labelled, [f"{time:%H:%M:%S}" for time in labelled])
    axis.set_title(
        "in each window of 10 s (colours as on the right)", fontsize=11, color=INK, loc="left"
    )
    axis.set_xlabel("start of the window (event time, UTC)")
    axis.set_ylabel("views in the window (thousands)")
    axis.set_ylim(bottom=0)
    axis.grid(axis="y", color="#e6e8eb")


def _draw_totals(
    axis: Any, totals: Mapping[str, int], names: list[str], colors: Mapping[str, str]
) -> None:
    shown = names[::-1]  # the largest on top
    counts = [totals[name] / 1000 for name in shown]
    drawn = axis.barh(shown, counts, color=[colors[name] for name in shown], height=0.7)
    axis.bar_label(drawn, labels=[f"{count:,.0f}" for count in counts], padding=3, fontsize=9)
    axis.set_title("in all windows", fontsize=11, color=INK, loc="left")
    axis.margins(x=0.14)
    axis.tick_params(axis="y", length=0)
