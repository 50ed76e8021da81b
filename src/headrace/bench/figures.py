"""The figures of `headrace bench stage`: what each one measures, and what it must reach."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import headrace as hr
from headrace.plan.nodes import WATERMARK
from headrace.plan.planner import plan
from headrace.stage.blocks.arrow import to_arrow
from headrace.stage.blocks.layout import Layout
from headrace.stage.stage import DEFAULT_CAPACITY, Stage
from headrace.stream import Stream
from headrace.workloads import keyed, ysb
from headrace.workloads.compare import same_rows

from . import first_result
from .harness import Duel, Program, duel
from .machine import load_of_others
from .peers import import_polars, polars_ysb
from .saying import Said


@dataclass(frozen=True)
class Settings:
    """What the user may choose. `rows` is None for the figure's own number."""

    rows: int | None = None
    repeat: int = 7
    capacity: int = DEFAULT_CAPACITY


@dataclass(frozen=True)
class Figure:
    """One figure: its name, what it must reach, and how it is measured."""

    name: str
    title: str
    must_reach: float | dict[str, float]
    measure: Callable[[Figure, Settings, Said], dict[str, Any]]


class StageProgram:
    """A pipeline over rows in memory, to be run by a `Stage` on the calling thread.

    The source copies all its columns, as one that reads from outside would. A run goes from the
    first push to the last row of the result as an Arrow table.
    """

    def __init__(self, stream: Stream, rows: pa.Table, capacity: int) -> None:
        self._plan = plan([stream.write.collect().node], prune=False).whole
        (source,) = self._plan.inputs
        self._port, self._capacity = source.name, capacity
        self._batches, self.rows = rows.combine_chunks().to_batches(), rows.num_rows
        fields = tuple(field for field in source.schema if field.name != WATERMARK)
        self.copied_columns = [field.name for field in fields]
        copied = Layout.of(hr.Schema(fields)).columns
        self.bytes_copied_per_row = sum(column.width for column in copied)
        self._schema = stream.schema.to_arrow()

    def prepare(self) -> Program:
        """A new stage with nothing in its state."""
        stage = Stage(self._plan, capacity=self._capacity)

        def run() -> pa.Table:
            for batch in self._batches:
                stage.push(self._port, batch)
            stage.end(self._port)
            blocks = [to_arrow(block) for _, block in stage.pull()]
            stage.close()
            return pa.Table.from_batches(blocks, self._schema)

        return run


# ---- ratios to Polars ------------------------------------------------------------------------


def _ysb(figure: Figure, settings: Settings, say: Said, *, strings: bool) -> dict[str, Any]:
    import_polars()  # before rows are made in vain
    say("making rows")
    # numbers pass so quickly that fewer rows would measure how threads wake up
    rows = settings.rows or (4_000_000 if strings else 16_000_000)
    data = ysb.make(rows, strings=strings)
    program = StageProgram(
        ysb.pipeline(hr.read.memory(data.events), data.campaigns), data.events, settings.capacity
    )
    theirs = polars_ysb(data)
    return _against_polars(figure, settings, say, program, theirs, data.expected())


def _ysb_fused(figure: Figure, settings: Settings, say: Said) -> dict[str, Any]:
    return _ysb(figure, settings, say, strings=False)


def _ysb_strings(figure: Figure, settings: Settings, say: Said) -> dict[str, Any]:
    return _ysb(figure, settings, say, strings=True)


def _keyed_process(figure: Figure, settings: Settings, say: Said) -> dict[str, Any]:
    polars = import_polars()
    say("making rows")
    rows = settings.rows or 8_000_000
    keys = max(1, min(1_000_000, rows // 8))
    data = keyed.make(rows, keys=keys)
    stream = keyed.pipeline(hr.read.memory(data.rows))
    program = StageProgram(stream, data.rows, settings.capacity)
    frame = polars.from_arrow(data.rows)

    def theirs() -> Any:
        totals = polars.col("value").sum().alias("total")
        return frame.lazy().group_by("key").agg(polars.len().alias("count"), totals).collect()

    found = _against_polars(figure, settings, say, program, theirs, data.expected())
    return {**found, "keys": keys}


def _against_polars(
    figure: Figure,
    settings: Settings,
    say: Said,
    program: StageProgram,
    theirs: Callable[[], Any],
    expected: pa.Table,
) -> dict[str, Any]:
    polars = import_polars()

    def check(result: Any) -> bool:
        return same_rows(result if isinstance(result, pa.Table) else result.to_arrow(), expected)

    def on_round(number: int) -> None:
        say(f"round {number} of {settings.repeat}" if number else "warming up")

    rows, repeat, load = program.rows, settings.repeat, load_of_others()
    found: Duel = duel(program.prepare, theirs, check, rows=rows, repeat=repeat, on_round=on_round)
    assert isinstance(figure.must_reach, float)
    return {
        "figure": figure.name,
        "ratio": round(found.ratio, 3),
        "ratio_best": round(found.ratio_best, 3),
        "events_per_s": round(found.rate(found.ours)),
        "events_per_s_median": round(found.median_rate(found.ours)),
        "polars_events_per_s": round(found.rate(found.theirs)),
        "polars_events_per_s_median": round(found.median_rate(found.theirs)),
        "correct": found.correct,
        "must_reach": figure.must_reach,
        "reached": found.correct and found.ratio >= figure.must_reach,
        "rows": rows,
        "repeat": settings.repeat,
        "copied_columns": program.copied_columns,
        "bytes_copied_per_row": program.bytes_copied_per_row,
        "result_rows": expected.num_rows,
        "threads": 1,
        "polars_threads": polars.thread_pool_size(),
        "cores_used": round(statistics.median(found.our_cores), 2),
        "polars_cores_used": round(statistics.median(found.their_cores), 2),
        "load_before": load,
        "polars_version": polars.__version__,
    }


# ---- start ---------------------------------------------------------------------------------


def _first_result(figure: Figure, settings: Settings, say: Said) -> dict[str, Any]:
    assert isinstance(figure.must_reach, dict)
    rows = settings.rows or first_result.ROWS
    starts = first_result.measure(rows, settings.repeat, say)
    warm, cold = statistics.median(starts.warm), starts.cold
    limits = figure.must_reach
    reached = warm <= limits["warm_s"] and cold <= limits["cold_s"]
    return {
        "figure": figure.name,
        "ratio": round(warm / limits["warm_s"], 3),
        "ratio_best": round(min(starts.warm) / limits["warm_s"], 3),
        "warm_s": round(warm, 3),
        "warm_best_s": round(min(starts.warm), 3),
        "cold_s": round(cold, 3),
        "import_s": round(statistics.median(starts.imported), 3),
        "correct": starts.correct,
        "must_reach": limits,
        "reached": starts.correct and reached,
        "rows": rows,
        "repeat": settings.repeat,
    }


FIGURES = {
    figure.name: figure
    for figure in (
        Figure("ysb_fused", "Yahoo query, numbers as ids", 0.55, _ysb_fused),
        Figure("ysb_strings", "Yahoo query, UUIDs as ids", 0.3, _ysb_strings),
        Figure("keyed_process", "sum and count by 1 million keys", 0.3, _keyed_process),
        Figure(
            "first_result",
            "first result of a new process",
            {"warm_s": 1.0, "cold_s": 4.0},
            _first_result,
        ),
    )
}
