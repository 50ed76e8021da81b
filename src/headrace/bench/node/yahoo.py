"""The Yahoo benchmark on the node engine: against Polars, by workers, fused or not, many at once.

Sides take turns. A run of ours is checked in full, and so is one of Polars' in each turn.
"""

from __future__ import annotations

import statistics

from headrace.bench.figure import Found
from headrace.bench.harness import Duel, Turns, in_turns
from headrace.bench.peers import import_polars
from headrace.bench.queries import How
from headrace.bench.ysb import YsbBench

from .bench import ENGINE, Bench, Measure, polars_side, workers, ysb_side

POLARS = "Polars"


def _against_polars(
    bench: Bench, table: YsbBench, counts: tuple[int, ...], rounds: int, fuse: str = "auto"
) -> Turns:
    """Runs with so many workers, and Polars, in turns."""
    seconds = bench.settings.seconds / 2
    sides = {workers(count): ysb_side(table, How(ENGINE, count, fuse), seconds) for count in counts}
    sides[POLARS] = polars_side(table, seconds / 2)
    return in_turns(sides, rounds, warm_up=False, say=bench.say)


def _compared(turns: Turns, ours: str, theirs: str, *, best: bool = False) -> Found:
    """Two of the sides: the median of the pairs, or the best run to their best."""
    duel = turns.duel(ours, theirs)
    details = {**duel.said(), **_seen(duel)}
    if theirs == POLARS:
        details["polars_threads"] = import_polars().thread_pool_size()
    return Found(duel.ratio_best if best else duel.ratio, turns.correct, details)


def _seen(duel: Duel) -> dict[str, object]:
    seen = duel.ours[0].seen
    return {
        "cores_used": statistics.median(run.cores for run in duel.ours),
        "table_rows": seen["rows"],
        "source_columns": seen["source_columns"],
    }


def fused(bench: Bench) -> dict[str, Found]:
    """The medians of some rounds."""
    turns = _against_polars(bench, bench.ysb, (1, 2), bench.settings.rounds)
    return {f"workers_{count}": _compared(turns, workers(count), POLARS) for count in (1, 2)}


def best(bench: Bench) -> dict[str, Found]:
    """The best of more rounds, to the best run of Polars in all of them."""
    turns = _against_polars(bench, bench.ysb, (2,), bench.settings.best_of)
    return {"ysb_2": _compared(turns, workers(2), POLARS, best=True)}


def unfused(bench: Bench) -> dict[str, Found]:
    """Operator by operator."""
    turns = _against_polars(bench, bench.ysb, (1, 2), bench.settings.rounds, "none")
    found = {f"unfused_{count}": _compared(turns, workers(count), POLARS) for count in (1, 2)}
    return {**found, "unfused_scaling": _compared(turns, workers(2), workers(1))}


def strings(bench: Bench) -> dict[str, Found]:
    """UUIDs as ids."""
    turns = _against_polars(bench, bench.strings, (1, 2), bench.settings.rounds)
    return {
        "strings_2": _compared(turns, workers(2), POLARS),
        "strings_scaling": _compared(turns, workers(2), workers(1)),
    }


def bounded(bench: Bench) -> dict[str, Found]:
    """Runs of at most 200 µs against runs of any length, fused and not; the worse of both."""
    seconds, duels = bench.settings.seconds / 2, {}
    correct = True
    for fuse in ("auto", "none"):
        sides = {
            "bounded": ysb_side(bench.ysb, How(ENGINE, 2, fuse, bounded=True), seconds),
            "unbounded": ysb_side(bench.ysb, How(ENGINE, 2, fuse, bounded=False), seconds),
        }
        turns = in_turns(sides, bench.settings.rounds, warm_up=False, say=bench.say)
        duels[fuse] = turns.duel(*sides)
        correct &= turns.correct
    worse = min(duels.values(), key=lambda duel: duel.ratio)
    ratios = {f"ratio_fuse_{fuse}": round(duel.ratio, 3) for fuse, duel in duels.items()}
    return {"bounded_runs": Found(worse.ratio, correct, {**worse.said(), **ratios})}


def steady(name: str, fuse: str) -> Measure:
    """Many runs in a row; the slowest against the fastest."""

    def measure(bench: Bench) -> dict[str, Found]:
        settings = bench.settings
        side = {workers(2): ysb_side(bench.ysb, How(ENGINE, 2, fuse), 0.3 * settings.seconds)}
        turns = in_turns(side, settings.runs, warm_up=False, say=bench.say)
        rates = [round(run.rate) for run in turns.runs[workers(2)]]
        details = {"runs": settings.runs, "fuse": fuse, "events_per_s": rates}
        return {name: Found(min(rates) / max(max(rates), 1), turns.correct, details)}

    return measure


def many_queries(bench: Bench) -> dict[str, Found]:
    """All queries together, against one that runs alone."""
    settings, how = bench.settings, How(ENGINE, 2)
    seconds, many = settings.seconds / 2, settings.queries
    sides = {
        f"{many} queries": ysb_side(bench.ysb, how, seconds, queries=many),
        "1 query": ysb_side(bench.ysb, how, seconds),
    }
    turns = in_turns(sides, settings.rounds, warm_up=False, say=bench.say)
    duel = turns.duel(*sides)
    last = duel.ours[-1].seen
    details = {**duel.said(), "startup_s": last["startup_s"], "rss_mb": last["rss_mb"]}
    return {"queries": Found(duel.ratio, turns.correct, details)}
