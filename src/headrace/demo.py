"""`headrace demo`: ad campaigns, live. A pipeline that runs a few seconds, checked and drawn.

An endless, compiled generator makes events of ads; views are joined with the table of campaigns
and counted per campaign in windows of ten seconds of event time, which runs faster than the clock
on the wall. Some events come out of order, a few so late that their window is closed. In the end
every count, and the number of late rows, is compared with what NumPy says about the same events.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import headrace as hr
from headrace import col
from headrace.asked import engine_named
from headrace.handle import AnyJob
from headrace.observe.numbers import short
from headrace.observe.progress import live
from headrace.stream import Stream

RATE = 1_500_000  # events per second of wall clock
STEP = 20  # microseconds of event time from one event to the next: 30 s of it in a second
START = int(datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC).timestamp()) * 1_000_000
SECOND = 1_000_000
WINDOW = 10 * SECOND
BOUND = 2 * SECOND  # how far events may be out of order
JITTER = SECOND  # how far most of them are
STRAGGLER = 10_007  # one event in so many
DELAY = 40 * SECOND  # comes so late
CAMPAIGNS = (
    "Alpine Tea",
    "Bluebird Bikes",
    "Copper Kettle",
    "Driftwood Café",
    "Evergreen Seeds",
    "Foxglove Books",
    "Granite Gym",
    "Harbour Lights",
    "Ivory Keys",
    "Juniper Soap",
)
ADS = 1000
VIEW = 0
COMPILING = "compiling (once; later runs find it in the cache) …"
BEFORE = {
    "spark": "starting Spark, and " + COMPILING,
    "node": COMPILING,
    "thread": COMPILING,
}
SECONDS = {"spark": 8.0, "node": 5.0, "thread": 5.0}
PATIENCE = 120.0  # seconds for Spark's first batch, on a machine with much else to do
WHERE = {"spark": "Spark", "node": "all cores", "thread": "one thread"}
WARM_ROWS = 10_000  # run before the demo begins, so that compiling takes nothing of its time
DRIFT = 16_000  # after so many events the most popular ad is the next one


def event(index: int) -> tuple[int, int, int]:
    """Event number `index`: its ad, its type and its time, all from a hash of the number."""
    hashed = (index * 1103515245 + 12345) & 0x7FFFFFFF
    hashed = ((hashed ^ (hashed >> 13)) * 69069 + 1) & 0x7FFFFFFF
    mixed = hashed ^ (hashed >> 16)
    popularity = (mixed >> 5) & 0xFFFF
    ad = (popularity * popularity * ADS // (1 << 32) + index // DRIFT) % ADS
    time = START + JITTER + index * STEP - hashed % JITTER
    if index % STRAGGLER == STRAGGLER - 1:
        time -= DELAY
    return ad, mixed % 3, time


def campaigns() -> pa.Table:
    """The static table: which campaign an ad belongs to."""
    numbers = np.arange(ADS) // (ADS // len(CAMPAIGNS))
    return pa.table({"ad_id": np.arange(ADS), "campaign": pa.array(CAMPAIGNS).take(numbers)})


def pipeline(events: Stream) -> Stream:
    """Views per campaign in windows of ten seconds."""
    return (
        events.filter(col("event_type") == VIEW, name="only views")
        .join(hr.table(campaigns(), name="campaigns"), on="ad_id", name="campaign of ad")
        .with_watermark("event_time", "2s")
        .key_by("campaign")
        .window(hr.tumbling("10s"))
        .agg(views=hr.count(), name="count per window")
    )


def source(rate: float | None = RATE, rows: int | None = None) -> Stream:
    """Events without end (or so many), at a rate."""
    columns = {"ad_id": int, "event_type": int, "event_time": hr.timestamp}
    return hr.read.generate(event, output=columns, rate=rate, rows=rows, name="events")


# ---- the same by NumPy -----------------------------------------------------------------------


@dataclass
class Reference:
    """What must come out after a number of events."""

    views: dict[tuple[int, str], int]  # by window start (microseconds) and campaign
    late: int


def reference(rows: int, step: int = 1 << 20) -> Reference:
    """Count the first `rows` events with NumPy: windows that are closed by then, and late rows.

    A row is late if its window ends at or before the watermark just before it: the largest time
    of all events so far, minus the bound.
    """
    counts: dict[tuple[int, int], int] = {}
    late, largest = 0, np.iinfo(np.int64).min // 2
    for first in range(0, rows, step):
        ad, kind, time = _events(np.arange(first, min(first + step, rows)))
        maxima = np.maximum.accumulate(np.append(largest, time))
        largest, watermark = int(maxima[-1]), maxima[:-1] - BOUND
        window = time // WINDOW * WINDOW
        is_view, is_late = kind == VIEW, window + WINDOW <= watermark
        late += int(np.count_nonzero(is_view & is_late))
        chosen = is_view & ~is_late
        keys = window[chosen] // WINDOW * ADS + ad[chosen]
        for key, count in zip(*(found.tolist() for found in np.unique(keys, return_counts=True))):
            place = (key // ADS * WINDOW, key % ADS // (ADS // len(CAMPAIGNS)))
            counts[place] = counts.get(place, 0) + count
    closed = {
        (start, CAMPAIGNS[campaign]): count
        for (start, campaign), count in counts.items()
        if start + WINDOW <= largest - BOUND
    }
    return Reference(closed, late)


def _events(index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The events of some numbers, all at once."""
    hashed = (index * 1103515245 + 12345) & 0x7FFFFFFF
    hashed = ((hashed ^ (hashed >> 13)) * 69069 + 1) & 0x7FFFFFFF
    mixed = hashed ^ (hashed >> 16)
    popularity = (mixed >> 5) & 0xFFFF
    ad = (popularity**2 * ADS // 2**32 + index // DRIFT) % ADS
    time = START + JITTER + index * STEP - hashed % JITTER
    return ad, mixed % 3, time - np.where(index % STRAGGLER == STRAGGLER - 1, DELAY, 0)


def views_of(result: pa.Table) -> dict[tuple[int, str], int]:
    """A result as the reference has it."""
    starts = result["window_start"].cast(pa.int64()).to_numpy().tolist()
    names, views = result["campaign"].to_pylist(), result["views"].to_numpy().tolist()
    return {(start, str(name)): count for start, name, count in zip(starts, names, views)}


# ---- the demo --------------------------------------------------------------------------------


def run(
    seconds: float | None = None,
    plot: Path | None = None,
    console: Console | None = None,
    engine: str | None = None,
) -> bool:
    """Run the demo; True if every number was right."""
    console = console or Console()
    engine = engine_named(engine)
    seconds = seconds or SECONDS[engine]
    console.print(
        f"[bold]Views per campaign[/], in windows of 10 s of event time. {short(RATE)} events/s "
        f"for {seconds:g} s; event time runs {RATE * STEP // SECOND} times as fast as the clock.",
    )
    console.print(BEFORE[engine], style="dim")
    options: dict[str, Any] = {"engine": engine}
    if engine == "spark":
        options |= {"shards": 2, "batch_rows": RATE}  # small: there is something to see soon
    hr.run(pipeline(source(rate=None, rows=WARM_ROWS)).write.null(), **options)
    output = pipeline(source()).write.collect()
    with live(f"ad campaigns on {WHERE[engine]}", console) as watch:
        if engine == "spark":
            options |= {"watch": _stopping(seconds, watch), "seconds": seconds + PATIENCE}
        else:
            options |= {"watch": watch, "seconds": seconds}
        job = hr.run(output, **options)
    views = views_of(output.result())
    _show_views(views, console)
    right = _verify(job, views, console)
    if plot is not None and views:
        _save_plot(job, views, plot, console, WHERE[engine])
    return right


def _stopping(seconds: float, watch: Callable[[Any], None]) -> Callable[[Any], None]:
    """Watch a job, and stop it so many seconds after its first rows: Spark needs some to start."""
    began: float | None = None

    def see(job: Any) -> None:
        nonlocal began
        watch(job)
        now = time.perf_counter()
        if began is None and job.progress().rows_in:
            began = now
        if began is not None and now - began >= seconds:
            job.stop()

    return see


def _show_views(views: dict[tuple[int, str], int], console: Console) -> None:
    starts = sorted({start for start, _ in views})
    if not starts:
        console.print("No window was closed in so short a time; try --seconds 5.")
        return
    shown = starts[-4:]
    table = Table(title=f"the last {len(shown)} of {len(starts)} windows, views per campaign")
    table.add_column("campaign")
    for start in shown:
        table.add_column(_clock(start), justify="right")
    table.add_column("all windows", justify="right", style="bold")
    totals = totals_of(views)
    for name in sorted(totals, key=lambda name: -totals[name]):
        counts = [f"{views.get((start, name), 0):,}" for start in shown]
        table.add_row(name, *counts, f"{totals[name]:,}")
    console.print(table)


def totals_of(views: dict[tuple[int, str], int]) -> dict[str, int]:
    """Views of each campaign over all windows."""
    totals: dict[str, int] = {}
    for (_, name), count in views.items():
        totals[name] = totals.get(name, 0) + count
    return totals


def _clock(microseconds: int) -> str:
    return f"{datetime.datetime.fromtimestamp(microseconds / SECOND, datetime.UTC):%H:%M:%S}"


def _verify(job: AnyJob, views: dict[tuple[int, str], int], console: Console) -> bool:
    progress = job.progress()
    wanted = reference(progress.rows_in)
    right = wanted.views == views and wanted.late == progress.late_rows
    if right:
        console.print(
            f"[green bold]verified[/]: {len(views):,} counts and {wanted.late:,} late rows are "
            f"what NumPy finds in the same {progress.rows_in:,} events"
        )
    else:
        differing = sum(views.get(k) != v for k, v in wanted.views.items())
        console.print(
            f"[red bold]WRONG[/]: {differing:,} of {len(wanted.views):,} counts differ from "
            f"NumPy's; late rows: {progress.late_rows:,}, by NumPy {wanted.late:,}"
        )
    return right


def _save_plot(
    job: AnyJob, views: dict[tuple[int, str], int], path: Path, console: Console, where: str
) -> None:
    from headrace.observe.plots import bars_as_text, draw_campaigns

    progress = job.progress()
    subtitle = (
        f"{short(progress.rows_in)} events in {progress.seconds:.1f} s on {where}, "
        f"{progress.late_rows:,} late rows"
    )
    try:
        draw_campaigns(views, path, subtitle)
    except ImportError:
        console.print(bars_as_text(totals_of(views)), highlight=False)
        console.print("For a picture: pip install 'headrace[plot]'", markup=False)
    else:
        console.print(f"plot: {path}", soft_wrap=True)
