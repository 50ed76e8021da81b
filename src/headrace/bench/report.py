"""How benchmarks report: one JSON line per result, or progress and then a table with verdicts.

A `Suite` is a set of figures with limits; `run` measures those that are wanted. What has no limits
(`bench ysb`, `bench chain`) prints through `Report`, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.observe.numbers import short

from .figure import Figure, Found, Skipped
from .harness import MissingPackage
from .machine import load_of_others
from .peers import POLARS_THREADS
from .saying import Said, say_nothing, saying

BUSY = 0.3  # cores that others use; beyond it a figure is to be doubted

Result = dict[str, Any]
STYLES = {
    **{"reached": "green", "right": "green", "missed": "red", "WRONG": "bold red"},
    "skipped": "yellow",
}


class Report:
    """Prints results as they come, as JSON lines, or leaves it to a table at the end."""

    def __init__(
        self, as_json: bool = False, console: Console | None = None, *, silent: bool = False
    ) -> None:
        self._as_json, self.console = as_json, console or Console()
        self._silent = silent or as_json
        self.results: list[Result] = []

    def saying(self, name: str) -> saying:
        """Progress of what is measured now."""
        return saying(name, self._silent, self.console)

    def add(self, result: Result) -> None:
        """One more result."""
        self.results.append(result)
        if self._as_json:
            print(json.dumps(result), flush=True)

    def show(self, *shown: RenderableType) -> None:
        """The end of it, for people."""
        if not self._as_json:
            self.console.print(Group(*shown), highlight=False)


def colored(verdict: str) -> Text:
    """A verdict in its color.

    >>> colored("WRONG").plain
    'WRONG'
    """
    return Text(verdict, STYLES[verdict])


def right_or_wrong(correct: bool) -> Text:
    """The verdict on a result that has no limit."""
    return colored("right" if correct else "WRONG")


# ---- figures with limits ---------------------------------------------------------------------


@dataclass
class Bench:
    """What measurements of a suite share; `say` is set for each of them."""

    say: Said = field(default=say_nothing, kw_only=True)


B = TypeVar("B", bound=Bench)


@dataclass(frozen=True)
class Suite(Generic[B]):
    """Figures, and what measures them: one measurement may give several."""

    title: str
    figures: Mapping[str, Figure]
    measures: Mapping[tuple[str, ...], Callable[[B], Mapping[str, Found]]]


def run(
    suite: Suite[B],
    bench: B,
    names: Sequence[str] = (),
    *,
    as_json: bool = False,
    markdown: bool = False,
    plot: Path | None = None,
    console: Console | None = None,
) -> list[Result]:
    """Measure figures (all, without names), print them, and give them back."""
    report = Report(as_json, console, silent=markdown)
    wanted = names or list(suite.figures)
    for result in _measured(suite, bench, wanted, report):
        report.add(result)
    if markdown:
        print("\n".join(as_markdown(report.results)))
    else:
        report.show(table(suite.title, report.results))
    if plot is not None:
        from .plot import draw

        draw(suite.title, report.results, plot)
    return report.results


def _measured(suite: Suite[B], bench: B, wanted: Sequence[str], report: Report) -> Iterator[Result]:
    for names, measure in suite.measures.items():
        if not set(names) & set(wanted):
            continue
        load = load_of_others()
        with report.saying(", ".join(names)) as bench.say:
            try:
                found = measure(bench)
            except (MissingPackage, Skipped) as why:
                found = dict.fromkeys(names, Found.nothing(str(why)))
        for name in names:
            if name in wanted:
                yield {**found[name].said(suite.figures[name]), "load_before": load}


def value_of(result: Result) -> str:
    """The value with its unit."""
    if result["value"] is None:
        return "unknown"
    return f"{result['value']:.3g} {result['unit']}"


def limit_of(result: Result) -> str:
    """What must be reached, with its unit.

    >>> limit_of(Found(1.0, True).said(Figure("speed", "", 1.6)))
    '≥ 1.6 ×'
    """
    return f"{'≤' if result['at_most'] else '≥'} {result['must_reach']:g} {result['unit']}"


def verdict_of(result: Result) -> str:
    """Was it reached?"""
    if result["correct"] is None:
        return "skipped"
    if not result["correct"]:
        return "WRONG"
    return "reached" if result["reached"] else "missed"


def table(title: str, results: Sequence[Result]) -> RenderableType:
    """The figures for the terminal, and what else is to be said of them."""
    made = Table(title=title)
    made.add_column("figure", style="bold", no_wrap=True)
    made.add_column("what it is", overflow="fold")
    for heading in ("rows/s", "value", "must reach", ""):
        made.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        cells = result["figure"], result["title"], _sides(result), value_of(result)
        made.add_row(*cells, limit_of(result), colored(verdict_of(result)))
    return Group(made, *map(Text, _remarks(results)))


def _sides(result: Result) -> str:
    """The median rates of both sides, where there are any."""
    rates = [side["median"] for side in result.get("sides", {}).values() if "median" in side]
    return " : ".join(map(short, rates))


def _remarks(results: Sequence[Result]) -> list[str]:
    remarks = []
    for result in results:
        name = result["figure"]
        if "skipped" in result:
            remarks.append(f"{name}: {result['skipped']}")
        elif not result["correct"]:
            remarks.append(f"{name}: a result was not the expected one")
        if result.get("polars_threads", POLARS_THREADS) != POLARS_THREADS:
            remarks.append(
                f"{name}: Polars had {result['polars_threads']} threads, not {POLARS_THREADS} "
                "(POLARS_MAX_THREADS)"
            )
        if "source_row_bytes" in result:
            remarks.append(
                f"{name}: {result['rows']:,} rows; the source gives all "
                f"{len(result['source_columns'])} columns, {result['source_row_bytes']} bytes"
            )
    load = max((result.get("load_before") or 0.0 for result in results), default=0.0)
    if load > BUSY:
        remarks.append(f"others kept up to {load:g} cores busy: these figures say little")
    return remarks


def as_markdown(results: Sequence[Result]) -> list[str]:
    """The figures as the lines of a table in Markdown."""
    lines = ["| figure | measured | must reach | |", "|---|---|---|---|"]
    for result in results:
        cells = [result["title"], f"**{value_of(result)}**", limit_of(result), verdict_of(result)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines
