"""`headrace bench stage`: what one `Stage` on one thread does, as ratios to Polars on two."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import headrace as hr
from headrace.plan.planner import plan
from headrace.stage.blocks.arrow import to_arrow
from headrace.stage.stage import DEFAULT_CAPACITY, Stage
from headrace.stream import Stream
from headrace.workloads import keyed, ysb
from headrace.workloads.compare import same_rows

from . import first_result, report
from .figure import Figure, Found, by_name
from .given import Given
from .harness import Program, in_turns, timed
from .peers import import_polars, polars_ysb


@dataclass(frozen=True)
class Settings:
    """What the user may choose. `rows` is None for the figure's own number."""

    rows: int | None = None
    repeat: int = 7
    capacity: int = DEFAULT_CAPACITY


@dataclass
class Bench(report.Bench):
    """What the measurements share."""

    settings: Settings = field(default_factory=Settings)


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
        self.given = Given.by(source)
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


def _ysb(name: str, rows: int, uuids: Sequence[str] = ()) -> Callable[[Bench], dict[str, Found]]:
    def measure(bench: Bench) -> dict[str, Found]:
        import_polars()  # before rows are made in vain
        bench.say("making rows")
        data = ysb.make(bench.settings.rows or rows, uuids=uuids)
        stream = ysb.pipeline(hr.read.memory(data.events), data.campaigns)
        program = StageProgram(stream, data.events, bench.settings.capacity)
        return {name: _against_polars(bench, program, polars_ysb(data), data.expected())}

    return measure


def _keyed_process(bench: Bench) -> dict[str, Found]:
    polars = import_polars()
    bench.say("making rows")
    rows = bench.settings.rows or 8_000_000
    keys = max(1, min(1_000_000, rows // 8))
    data = keyed.make(rows, keys=keys)
    stream = keyed.pipeline(hr.read.memory(data.rows))
    program = StageProgram(stream, data.rows, bench.settings.capacity)
    frame = polars.from_arrow(data.rows)

    def theirs() -> Any:
        totals = polars.col("value").sum().alias("total")
        return frame.lazy().group_by("key").agg(polars.len().alias("count"), totals).collect()

    return {"keyed_process": _against_polars(bench, program, theirs, data.expected(), keys=keys)}


def _against_polars(
    bench: Bench,
    program: StageProgram,
    theirs: Callable[[], Any],
    expected: pa.Table,
    **details: Any,
) -> Found:
    polars = import_polars()

    def check(result: Any) -> bool:
        return same_rows(result if isinstance(result, pa.Table) else result.to_arrow(), expected)

    rows, repeat = program.rows, bench.settings.repeat
    turns = in_turns(
        {
            "headrace": lambda: timed(program.prepare(), check, rows),
            "Polars": lambda: timed(theirs, check, rows),
        },
        repeat,
        say=bench.say,
    )
    duel = turns.duel("headrace", "Polars")
    return Found(
        duel.ratio,
        turns.correct,
        {
            **duel.said(),
            "rows": rows,
            "repeat": repeat,
            **program.given.said(),
            "result_rows": expected.num_rows,
            "threads": 1,
            "polars_threads": polars.thread_pool_size(),
            "cores_used": round(statistics.median(run.cores for run in duel.ours), 2),
            "polars_cores_used": round(statistics.median(run.cores for run in duel.theirs), 2),
            "polars_version": polars.__version__,
            **details,
        },
    )


# ---- all of them -----------------------------------------------------------------------------


def _starts(bench: Bench) -> dict[str, Found]:
    rows = bench.settings.rows or first_result.ROWS
    return first_result.found(rows, bench.settings.repeat, "thread", bench.say)


FIGURES = by_name(
    Figure("ysb_fused", "Yahoo query, numbers as ids", 0.55),
    Figure("ysb_strings", "Yahoo query, UUIDs as ad ids", 0.3),
    Figure("keyed_process", "sum and count by 1 million keys", 0.3),
    *first_result.FIGURES,
)

SUITE = report.Suite(
    "headrace bench stage: one thread, against Polars on two",
    FIGURES,
    {
        # numbers pass so quickly that fewer rows would measure how threads wake up
        ("ysb_fused",): _ysb("ysb_fused", 16_000_000),
        ("ysb_strings",): _ysb("ysb_strings", 4_000_000, ["ad_id"]),
        ("keyed_process",): _keyed_process,
        first_result.NAMES: _starts,
    },
)


def run(
    names: Sequence[str] = (), *, settings: Settings | None = None, **shown: Any
) -> list[report.Result]:
    """Measure figures (all, without names), print them as `report.run` does, and give them."""
    return report.run(SUITE, Bench(settings or Settings()), names, **shown)
