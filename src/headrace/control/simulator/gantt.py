"""A Gantt chart of a simulation: what each thread did when. Draws on axes that it is given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from .statistics import Span

COLOURS = (
    "#2f6db3", "#d9822b", "#3f9b5f", "#b5475f", "#7d6bb0",
    "#4fa3a8", "#a8892c", "#8c8c8c", "#c76fa8", "#5b7f3a",
)  # fmt: skip
RUNS_SHOWN = 60  # of the busiest thread: more are a grey wall
THREADS_SHOWN = 48


def window(spans: Sequence[Span], runs: int = RUNS_SHOWN) -> tuple[float, float]:
    """The last stretch of time in which no thread has more than so many runs.

    >>> window([Span(0, "a", 0, float(n), n + 0.5, 1) for n in range(100)], runs=10)
    (90.0, 99.5)
    """
    if not spans:
        return 0.0, 1.0
    end = max(span.end for span in spans)
    seen: dict[int, int] = defaultdict(int)
    start = end
    for span in sorted(spans, key=lambda span: -span.start):
        seen[span.thread] += 1
        if seen[span.thread] > runs:
            break
        start = span.start
    return start, end


def draw(axis: Any, spans: Sequence[Span], title: str) -> None:
    """Threads from top to bottom, time from left to right, a colour for each query.

    Where there is one query, colours are those of its operators, as long as there are enough.
    """
    start, end = window(spans)
    shown = [span for span in spans if span.end > start and span.thread < THREADS_SHOWN]
    operators = list(dict.fromkeys(span.operator for span in shown))
    by_query = len({span.query for span in spans}) > 1 or len(operators) > len(COLOURS)
    groups: dict[int, dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for span in shown:
        group = span.query if by_query else operators.index(span.operator)
        begin = max(span.start, start)
        bar = (begin - start) * 1e3, (span.end - begin) * 1e3
        groups[group][span.thread].append(bar)
    for group in sorted(groups):
        name = f"query {group}" if by_query else operators[group]
        for number, (thread, bars) in enumerate(sorted(groups[group].items())):
            axis.broken_barh(
                bars,
                (thread - 0.4, 0.8),
                facecolor=COLOURS[group % len(COLOURS)],
                edgecolor="white",
                linewidth=0.2,
                label=name if number == 0 and group < 2 * len(COLOURS) else None,
            )
    last = min(max((span.thread for span in spans), default=0), THREADS_SHOWN - 1)
    axis.set_yticks(range(0, last + 1, max((last + 1) // 12, 1)))
    axis.set_ylim(last + 0.6, -0.6)
    axis.set_xlim(0, max((end - start) * 1e3, 1e-6))
    axis.set_ylabel("thread")
    axis.set_title(title, loc="left", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    if groups:
        axis.legend(
            loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8,
            handlelength=1.0,
        )  # fmt: skip
