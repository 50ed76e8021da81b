"""The figures of the node engine: what each must reach, and what measures it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from headrace.bench import first_result, report
from headrace.bench.figure import Figure, by_name
from headrace.bench.harness import MissingPackage
from headrace.bench.peers import import_polars

from . import beside, engine, replayed, yahoo
from .bench import Bench, Measure, Settings

FIGURES = by_name(
    Figure("workers_2", "2 workers, against Polars", 1.2),
    Figure("workers_1", "1 worker, against Polars", 0.6),
    Figure("ysb_2", "2 workers, against Polars: best to best", 1.3),
    Figure("unfused_1", "1 worker, unfused, against Polars", 0.45),
    Figure("unfused_2", "2 workers, unfused, against Polars", 0.65),
    Figure("unfused_scaling", "2 workers against 1, unfused", 1.3),
    Figure("strings_2", "UUIDs as ids: 2 workers, against Polars", 1.2),
    Figure("strings_scaling", "UUIDs as ids: 2 workers against 1", 1.6),
    Figure("process_scaling", "process, 1 M keys: 2 workers against 1", 1.6),
    Figure("windows_many_keys", "1 M keys: windows, 2 workers, against process, 1", 0.8),
    Figure("windows_scaling", "windows, 1 M keys: 2 workers against 1", 1.5),
    Figure("readme_scaling", "the README's pipeline: 2 workers against 1", 1.6),
    Figure("bounded_runs", "runs of at most 200 µs against unbounded ones", 0.95),
    Figure("steady_fused", "20 runs in a row: slowest to fastest", 0.6),
    Figure("steady_unfused", "20 runs in a row, unfused: slowest to fastest", 0.6),
    Figure("latency_p99", "p99 latency at half the maximum rate", 1.0, True, "ms"),
    Figure("light_beside_heavy", "p99 beside a query of 10 ms a row", 3.0, True, "ms"),
    Figure("python_beside", "p99 beside a source that sleeps 5 s a call", 3.0, True, "ms"),
    Figure("growing_state", "longest wait beside a state that gets 10 M keys", 5.0, True, "ms"),
    *first_result.FIGURES,
    Figure("idle", "idle engine, of one core", 2.0, True, "%"),
    Figure("queries", "100 queries at once, total against 1", 0.7),
    Figure("chain", "1,000 operators against 10: cost of each", 1.5, True),
)

MEASURES: dict[tuple[str, ...], Measure] = {
    ("workers_2", "workers_1"): yahoo.fused,
    ("ysb_2",): yahoo.best,
    ("unfused_1", "unfused_2", "unfused_scaling"): yahoo.unfused,
    ("strings_2", "strings_scaling"): yahoo.strings,
    ("process_scaling",): replayed.process_scaling,
    ("windows_many_keys", "windows_scaling"): replayed.windows,
    ("readme_scaling",): replayed.readme_scaling,
    ("bounded_runs",): yahoo.bounded,
    ("steady_fused",): yahoo.steady("steady_fused", "auto"),
    ("steady_unfused",): yahoo.steady("steady_unfused", "none"),
    ("latency_p99",): engine.latency,
    ("light_beside_heavy",): beside.light_beside_heavy,
    ("python_beside",): beside.python_beside,
    ("growing_state",): beside.growing_state,
    first_result.NAMES: engine.starts,
    ("idle",): engine.idle,
    ("queries",): yahoo.many_queries,
    ("chain",): engine.long_chain,
}

SUITE = report.Suite("headrace bench node", FIGURES, MEASURES)


def run(
    names: Sequence[str] = (), *, settings: Settings | None = None, **shown: Any
) -> list[report.Result]:
    """Measure figures (all, without names), print them as `report.run` does, and give them."""
    with suppress(MissingPackage):  # figures that need it say so
        import_polars()  # its number of threads is set before anything else imports it
    return report.run(SUITE, Bench(settings or Settings()), names, **shown)
