"""Latency under load, starts, idleness and long chains of the node engine."""

from __future__ import annotations

import time
from typing import Any

import headrace as hr
from headrace.bench import chain, first_result
from headrace.bench.figure import Found
from headrace.bench.machine import Usage
from headrace.bench.queries import How, Queries
from headrace.bench.ysb import Load
from headrace.workloads import ysb
from headrace.write import Output

from .bench import ENGINE, Bench

FEWEST_SAMPLES = 10_000  # of a latency
SETTLE_SECONDS = 0.5  # before an idle engine is looked at
SILENT = 0.001  # rows per second


def latency(bench: Bench) -> dict[str, Found]:
    """Blocks of rows at half the maximum rate."""
    load = Load(bench.settings.rows, seconds=2 * bench.settings.seconds)  # for many samples
    run = bench.ysb.measure(How(ENGINE, 2), load, half=True, say=bench.say)
    blocks = run["latency_ms"]
    kept = {key: value for key, value in run.items() if key.endswith("latency_ms")}
    details = {
        **kept,
        "samples": blocks["samples"],
        "rate": run["rate"],
        "max_events_per_s": run["max_events_per_s"],
        "events_per_s": run["events_per_s"],
    }
    enough = blocks["samples"] >= FEWEST_SAMPLES
    return {"latency_p99": Found(blocks["p99"], run["correct"], details, enough)}


def starts(bench: Bench) -> dict[str, Found]:
    """New processes, from their start to their first result."""
    settings = bench.settings
    return first_result.found(settings.start_rows, settings.starts, ENGINE, bench.say)


def idle(bench: Bench) -> dict[str, Found]:
    """The processor time of an engine whose sources, replayed and in Python, say nothing."""
    data, how = ysb.make(1000), How(ENGINE, 2)

    def outputs(**load: Any) -> list[Output]:
        views = ysb.pipeline(ysb.replayed(data, **load), data.campaigns)
        return [views.write.null(), hr.read.index(**load).write.null()]

    with Queries(outputs(rows=1000), how) as queries:  # so that nothing is compiled later
        queries.await_end()
        queries.await_warm()
    with Queries(outputs(rate=SILENT), how) as queries:
        queries.await_that(lambda: all(job.progress().operators for job in queries.jobs))
        time.sleep(SETTLE_SECONDS)
        bench.say("sources are silent")
        usage = Usage()
        time.sleep(bench.settings.seconds)
        percent = 100 * usage.cores()
        silent = sum(queries.rows()) == 0
        queries.stop()
    return {"idle": Found(percent, silent, {"seconds": bench.settings.seconds})}


def long_chain(bench: Bench) -> dict[str, Found]:
    """What one more operator costs in a long chain, to what it costs in a short one."""
    settings, how = bench.settings, How(ENGINE, 2, "none")
    found = chain.measure(
        how, lengths=settings.chain_lengths, rows=settings.chain_rows, say=bench.say
    )
    ratio, correct = found.pop("ratio"), found.pop("correct")
    return {"chain": Found(ratio, correct, found)}
