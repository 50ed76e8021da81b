"""What `headrace bench ysb` prints: a JSON line per run, or progress and a table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.observe.numbers import milliseconds, short
from headrace.observe.progress import live
from headrace.workloads.ysb import ROUND_WINDOWS

from .peers import import_polars
from .queries import How
from .report import Report, right_or_wrong
from .saying import say_nothing
from .ysb import Load, Watch, YsbBench


def run(
    how: How,
    load: Load,
    *,
    runs: int = 1,
    half: bool = False,
    against_polars: bool = False,
    watch: bool = False,
    windows: int = ROUND_WINDOWS,
    as_json: bool = False,
    console: Console | None = None,
) -> list[dict[str, Any]]:
    """Run the benchmark `runs` times, print what was found, and give it back.

    half: measure the maximum first, then run at half of it. windows: that the table spans. watch:
    the live table of the first query instead of a line.
    """
    report = Report(as_json, console)
    if against_polars:
        import_polars()  # before rows are made in vain
    with report.saying("ysb") as say:
        bench = YsbBench(load.rows, say, windows)
    for number in range(1, runs + 1):
        name = f"ysb, run {number} of {runs}" if runs > 1 else "ysb"
        with ExitStack() as shown:
            watcher: Watch | None = None
            say = say_nothing
            if watch and not as_json:
                watcher = shown.enter_context(live(name, report.console))
            else:
                say = shown.enter_context(report.saying(name))
            found = bench.measure(
                how, load, half=half, against_polars=against_polars, say=say, watch=watcher
            )
        report.add({"run": number, **found})
    report.show(table(report.results))
    return report.results


def table(results: Sequence[dict[str, Any]]) -> RenderableType:
    """The runs as a table, and what else is to be said of them."""
    made = Table(title="headrace bench ysb: ad views per campaign, in windows of 10 s")
    made.add_column("run", style="bold", no_wrap=True)
    for heading in ("events/s", "Polars", "ratio", "p50 ms", "p99", "max", "start", "MB", ""):
        made.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        made.add_row(*_cells(result))
    return Group(made, *map(Text, _remarks(results)))


def _cells(result: dict[str, Any]) -> list[RenderableType]:
    peer = result.get("against", {}).get("polars")
    theirs = [short(peer["events_per_s"]), f"{peer['ratio']:.2f}×"] if peer else ["", ""]
    latency = [_milliseconds(result["latency_ms"][part]) for part in ("p50", "p99", "max")]
    start = "" if result["startup_s"] is None else f"{result['startup_s']:.2f}s"
    memory = "" if result["rss_mb"] is None else f"{result['rss_mb']:.0f}"
    verdict = right_or_wrong(result["correct"])
    rate = short(result["events_per_s"])
    return [str(result["run"]), rate, *theirs, *latency, start, memory, verdict]


def _milliseconds(value: float | None) -> str:
    return "" if value is None else milliseconds(value)


def _remarks(results: Sequence[dict[str, Any]]) -> list[str]:
    last = results[-1]
    workers = "" if last["engine"] == "thread" else f", {last['workers']} workers"
    queries = f", {last['queries']} queries at once" if last["queries"] > 1 else ""
    how = "only" if last["pruned"] else "all"
    remarks = [
        f"engine {last['engine']}{workers}, fuse {last['fuse']}{queries}; "
        f"{sum(result['windows'] for result in results):,} windows compared with NumPy",
        f"{last['rows']:,} rows ({last['data_bytes'] / 1e6:.0f} MB) replayed; the source gives "
        f"{how} {len(last['source_columns'])} columns, {last['source_row_bytes']} bytes a row",
    ]
    if last["rate"] is not None:
        remarks.append(
            f"at a rate of {short(last['rate'])} events/s; latency from when rows were due"
        )
    if "max_events_per_s" in last:
        remarks.append(f"the maximum was {short(last['max_events_per_s'])} events/s")
    if len(results) > 1:
        rates = [result["events_per_s"] for result in results]
        remarks.append(f"slowest to fastest run: {min(rates) / max(max(rates), 1):.2f}")
    if not all(result["correct"] for result in results):
        remarks.append("a count was not the expected one")
    return remarks
