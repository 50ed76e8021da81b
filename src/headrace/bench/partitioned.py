"""Figures of `headrace bench ordered` for operators with state by key: owners of key groups beside
the hybrid queue (Ordered §4, figs. 9 and 10).

The paper partitions by range, keys from a normal distribution. Here key groups follow from hashes,
so skew is what the rows of groups are to each other: the k-th group has 1 / k**skew of those of the
first, and 0 is even. The first groups lie with the first owner, as in the paper.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.plan.nodes import HYBRID, OWNERS, PARTITIONINGS
from headrace.stage.store import GROUPS, key_groups
from headrace.stream import Stream
from headrace.write import Output

from .figure import Found
from .harness import Run, in_turns
from .operators import Bench
from .queries import END_SECONDS, How, Queries, Results, finish

KEYS = 100_000
ROW_NS = 1.25  # of a step of `laborious`, about
SKEWS = (0.0, 0.4, 0.8, 1.2)  # with the last one, the largest group has 0.27 of the rows
SKEWED_US, SKEWED_ROWS = 10, 100_000
COSTS_US = (10, 100, 1_000, 10_000)
BUSY = 0.5  # share of a core that rows with a latency take, all together
LATENCY_SECONDS = 3.0
SETTLED_SECONDS = 1.0  # after the first rows, when rows are counted that have a latency
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


def expected(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """What both give, computed key by key.

    >>> expected(np.array([1, 2, 1]), np.array([5, 6, 7])).tolist()
    [5, 6, 162]
    """
    made, seen = np.empty(len(keys), np.int64), dict[int, int]()
    for row, (key, value) in enumerate(zip(keys.tolist(), values.tolist(), strict=True)):
        made[row] = seen[key] = (seen.get(key, 0) * 31 + value) & MASK
    return made


def process(bench: Bench) -> dict[str, Found]:
    """Order-sensitive state of many keys, in total order: several workers against one."""
    rows = bench.settings.rows or 4_000_000
    random = np.random.default_rng(1)
    table = pa.table({"key": random.integers(0, KEYS, rows), "value": random.integers(0, 99, rows)})
    stream = hr.read.memory(table).key_by("key").process(chained, state=STATE, output=["seen"])
    right = expected(table["key"].to_numpy(), table["value"].to_numpy())
    many = How("node", bench.settings.workers)
    sides = {
        OWNERS: replace(many, partitioning=OWNERS),
        HYBRID: replace(many, partitioning=HYBRID),
        "1 worker": How("node", 1),
    }
    turns = in_turns(
        {name: _side(stream, how, right) for name, how in sides.items()},
        bench.settings.repeat,
        say=bench.say,
    )
    duels = {name: turns.duel(name, "1 worker") for name in PARTITIONINGS}
    details = {"rows": rows, "keys": KEYS, **{name: duel.said() for name, duel in duels.items()}}
    return {"process": Found(max(d.ratio for d in duels.values()), turns.correct, details)}


def _side(stream: Stream, how: How, right: np.ndarray) -> Callable[[], Run]:
    def run() -> Run:
        ended = finish(stream, how)
        return Run(len(right), ended.seconds, _is_right(ended.result, right))

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
    """How long rows take that come at their time, against their cost (fig. 10): from when a row is
    due until its results are at the sink. The paper's begins when a row is worked on, and ends
    behind the reordering."""
    how, correct, details = How("node", bench.settings.workers), True, {}
    worst = 0.0
    for cost_us in COSTS_US:
        rate = BUSY * 1e6 / cost_us
        rows = int(rate * LATENCY_SECONDS)
        keys, values = np.arange(rows) * 7919 % KEYS, np.arange(rows) % 99
        right = expected(keys, values)
        table = pa.table({"key": keys, "value": values, "steps": _steps(rows, cost_us)})
        found = {}
        for name in PARTITIONINGS:
            bench.say(f"{name}, {cost_us} µs")
            source = hr.read.replay(table, rows=rows, rate=rate)
            stream = source.key_by("key").process(laborious, state=STATE, output=["seen"])
            for _ in range(2):  # the first one warms up
                p50_us, is_right = _median_us(stream, replace(how, partitioning=name), right)
                found[name], correct = p50_us / cost_us, correct and is_right
        details[f"{cost_us} us"] = {name: round(ratio, 2) for name, ratio in found.items()}
        worst = max(worst, found[HYBRID])
    return {"latency": Found(worst, correct, details)}


def _median_us(stream: Stream, how: How, right: np.ndarray) -> tuple[float, bool]:
    """The median of latencies, and whether the results were right."""
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
