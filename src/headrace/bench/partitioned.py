"""Figures of `headrace bench ordered` for operators with state by key: owners of key groups beside
the hybrid queue (Ordered §4, figs. 9 and 10).

The paper partitions by range, keys from a normal distribution. Here key groups follow from hashes,
so skew is what the rows of groups are to each other: the k-th group has 1 / k**skew of those of the
first, and 0 is even. The first groups lie with the first owner, as in the paper.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr
from headrace.node.ticks import now
from headrace.plan.nodes import HYBRID, OWNERS, PARTITIONINGS
from headrace.stage.store import GROUPS, key_groups
from headrace.stream import Stream
from headrace.write import Output

from .figure import Found
from .harness import Run, in_turns
from .operators import Bench
from .queries import END_SECONDS, Column, How, Queries, Results, finish, finish_into

KEYS, PROCESS_ROWS = 100_000, 24_000_000
ROW_NS = 1.25  # of a step of `laborious`, about
SKEWS = (0.0, 0.4, 0.8, 1.2)  # with the last one, the largest group has 0.27 of the rows
SKEWED_US, SKEWED_ROWS = 10, 100_000
COSTS_US = (10, 100, 1_000, 10_000)
BUSY = 0.5  # share of a core that rows with a latency take, all together
LATENCY_SECONDS = 2.0
MOST_ROWS = 1_000_000
SETTLED_SECONDS = 0.5  # after the first rows, when rows are counted that have a latency
ADDEND, MASK = 12_345, (1 << 31) - 1
STATE = {"seen": int, "last": int}


def chained(state, value):  # type: ignore[no-untyped-def]  # compiled
    """What all rows of a key so far make, in their order."""
    state.seen = (state.seen * 31 + value) & MASK
    yield state.seen


def laborious(state, value, steps):  # type: ignore[no-untyped-def]  # compiled
    """The same, with rows that take long."""
    n = value
    for _ in range(steps):
        n = (n * n + ADDEND) & MASK
    state.last = n  # so that the compiler does not leave the steps out
    state.seen = (state.seen * 31 + value) & MASK
    yield state.seen


def timed(state, number, value, steps):  # type: ignore[no-untyped-def]  # compiled
    """As `laborious`, and which row it was, and when it began."""
    begun = now()
    n = value
    for _ in range(steps):
        n = (n * n + ADDEND) & MASK
    state.last = n
    state.seen = (state.seen * 31 + value) & MASK
    yield state.seen, number, begun


def since(begun):  # type: ignore[no-untyped-def]  # compiled
    """How many microseconds ago that was."""
    return (now() - begun) // 1000


def expected(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """What all of them give: first the first row of every key, then the second ones.

    >>> expected(np.array([1, 2, 1]), np.array([5, 6, 7])).tolist()
    [5, 6, 162]
    """
    by_key = np.argsort(keys, kind="stable")
    _, starts, counts = np.unique(keys[by_key], return_index=True, return_counts=True)
    made, seen = np.empty(len(keys), np.int64), np.zeros(len(starts), np.int64)
    for number in range(counts.max(initial=0)):
        (left,) = np.nonzero(counts > number)
        rows = by_key[starts[left] + number]
        made[rows] = seen[left] = (seen[left] * 31 + values[rows]) & MASK
    return made


def process(bench: Bench) -> dict[str, Found]:
    """Order-sensitive state of many keys, in total order: several workers against one."""
    rows = bench.settings.rows or PROCESS_ROWS
    random = np.random.default_rng(1)
    table = pa.table({"key": random.integers(0, KEYS, rows), "value": random.integers(0, 99, rows)})
    keyed = hr.read.memory(table).key_by("key")
    stream = keyed.process(chained, state=STATE, output=["seen"]).select("seen")
    right = expected(table["key"].to_numpy(), table["value"].to_numpy())
    many = How("node", bench.settings.workers)
    sides = {name: replace(many, partitioning=name) for name in PARTITIONINGS}
    sides["1 worker"] = How("node", 1)
    turns = in_turns(
        {name: _side(stream, how, right) for name, how in sides.items()},
        bench.settings.repeat,
        say=bench.say,
    )
    duels = {name: turns.duel(name, "1 worker") for name in PARTITIONINGS}
    details = {"rows": rows, "keys": KEYS, **{name: duel.said() for name, duel in duels.items()}}
    return {"process": Found(max(d.ratio for d in duels.values()), turns.correct, details)}


def _side(stream: Stream, how: How, right: np.ndarray) -> Callable[[], Run]:
    made = Column(len(right))

    def run() -> Run:
        seconds = finish_into(stream, how, made)
        is_right = made.rows == len(right) and np.array_equal(made.values, right)
        return Run(len(right), seconds, is_right)

    return run


def _is_right(result: pa.Table, right: np.ndarray) -> bool:
    return np.array_equal(result["seen"].to_numpy(), right)


# ---- skew ------------------------------------------------------------------------------------


def skewed_keys(rows: int, skew: float) -> np.ndarray:
    """Keys of rows whose key groups are skewed: one key for each group.

    >>> counts = np.sort(np.unique(skewed_keys(10_000, 1.0), return_counts=True)[1])
    >>> bool(counts[-1] > 5 * counts[0])
    True
    """
    candidates = np.arange(100 * GROUPS)
    hashed = hr.read.memory({"key": candidates}).select(h=hr.hash(hr.col("key"))).write.collect()
    hr.run(hashed, engine="thread", compiled=False)
    _, first = np.unique(key_groups(hashed.result()["h"].to_numpy()), return_index=True)
    shares = 1 / np.arange(1, len(first) + 1) ** skew
    drawn = np.random.default_rng(1).choice(len(first), rows, p=shares / shares.sum())
    return candidates[first[drawn]]


def skew(bench: Bench) -> dict[str, Found]:
    """The rate of the hybrid queue with skewed key groups against that with even ones (fig. 9)."""
    rows = bench.settings.rows or SKEWED_ROWS
    how, shares = How("node", bench.settings.workers), {}
    sides: dict[str, Callable[[], Run]] = {}
    for skewed in SKEWS:
        keys, values = skewed_keys(rows, skewed), np.arange(rows) % 99
        shares[skewed] = np.unique(keys, return_counts=True)[1].max() / rows
        stream, right = _laborious(keys, values, SKEWED_US), expected(keys, values)
        for name in PARTITIONINGS:
            sides[f"{name}, skew {skewed:g}"] = _side(
                stream, replace(how, partitioning=name), right
            )
    turns = in_turns(sides, bench.settings.repeat, say=bench.say)
    ratios = {
        name: {
            skewed: turns.duel(f"{name}, skew {skewed:g}", f"{name}, skew 0").ratio
            for skewed in SKEWS
        }
        for name in PARTITIONINGS
    }
    details = {
        "rows": rows,
        "largest_group": {str(skewed): round(share, 3) for skewed, share in shares.items()},
        **{n: {str(s): round(r, 3) for s, r in found.items()} for n, found in ratios.items()},
    }
    return {"skew": Found(min(ratios[HYBRID].values()), turns.correct, details)}


def _laborious(keys: np.ndarray, values: np.ndarray, cost_us: float) -> Stream:
    """Rows that take so many microseconds each."""
    table = pa.table({"key": keys, "value": values, "steps": _steps(len(keys), cost_us)})
    return hr.read.memory(table).key_by("key").process(laborious, state=STATE, output=["seen"])


def _steps(rows: int, cost_us: float) -> np.ndarray:
    return np.full(rows, int(cost_us * 1000 / ROW_NS))


# ---- latency ---------------------------------------------------------------------------------


def latency(bench: Bench) -> dict[str, Found]:
    """The processing latency (§2.1, fig. 10): from when a row's work begins until its results are
    behind the reordering. Beside it, how long it takes from when a row is due until its results are
    at a sink, which is Python."""
    correct, details, worst = True, {}, 0.0
    for cost_us in COSTS_US:
        rate = BUSY * 1e6 / cost_us
        rows = min(int(rate * LATENCY_SECONDS), bench.settings.rows or MOST_ROWS)
        keys, values = np.arange(rows) * 7919 % KEYS, np.arange(rows) % 99
        right, steps = expected(keys, values), _steps(rows, cost_us)
        columns = {"number": np.arange(rows), "key": keys, "value": values, "steps": steps}
        source = hr.read.replay(pa.table(columns), rows=rows, rate=rate)
        found: dict[str, float] = {}
        for name in (OWNERS, HYBRID):
            how = How("node", bench.settings.workers, partitioning=name)
            bench.say(f"{name}, {cost_us} µs")
            for measure, what in ((_processing_us, name), (_to_sink_us, f"{name}, to the sink")):
                if cost_us == COSTS_US[0]:
                    measure(source, how, right)  # to warm up
                p50_us, is_right = measure(source, how, right)
                found[what], correct = p50_us / cost_us, correct and is_right
        details[f"{cost_us} us"] = {
            what: round(ratio, 2) for what, ratio in found.items() if not math.isnan(ratio)
        }  # of few rows, all may be at the sink before it is looked at
        worst = max(worst, found[HYBRID])
    return {"latency": Found(worst, correct, details)}


def _processing_us(source: Stream, how: How, right: np.ndarray) -> tuple[float, bool]:
    """The median up to the next operator, and whether the results were right. They are counted by
    the engine, so that no sink takes the cores from the workers."""
    made = source.key_by("key").process(timed, state=STATE, output=["seen", "number", "begun"])
    behind = made.drop("key").limit(len(right))  # one worker sees all rows, in order
    times = behind.map(since, columns=["begun"], output="took", carry=["seen", "number"])
    skipped = len(right) // 5  # in the beginning and in the end, as in §7
    middle = times.with_columns(middle=hr.col("number").between(skipped, len(right) - skipped - 1))
    counted = middle.key_by("took", "middle").agg(rows=hr.count(), seen=hr.sum("seen"))
    result = finish(counted, how).result
    is_right = int(pc.sum(result["seen"]).as_py()) == int(right.sum())
    table = result.filter(result["middle"]).sort_by("took")
    took, rows = table["took"].to_numpy(), np.cumsum(table["rows"].to_numpy())
    return float(took[np.searchsorted(rows, rows[-1] / 2)]), is_right


def _to_sink_us(source: Stream, how: How, right: np.ndarray) -> tuple[float, bool]:
    """The median of rows from when they are due until they are at the sink, and whether the results
    were right."""
    stream = source.key_by("key").process(laborious, state=STATE, output=["seen"])
    results = Results()
    output: Output = stream.write.callback(results.take)
    with Queries([output], how) as queries:
        queries.await_rows()
        time.sleep(SETTLED_SECONDS)
        before = queries.jobs[0].latency()["window"]
        queries.await_end(END_SECONDS)
        found = queries.jobs[0].latency()["window"].since(before)
        queries.await_warm()
    return found.p50 / 1000, _is_right(results.table(output), right)
