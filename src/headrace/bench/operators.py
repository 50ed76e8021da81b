"""`headrace bench operators`: operators, as ratios to simpler ones or to Polars.

Sides run in turns, over the same rows in memory: ours on the node engine, Polars as a batch. The
result of every run is compared with one that NumPy computes in another way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.stream import Stream
from headrace.workloads import linear_road

from . import report
from .figure import Figure, Found, by_name
from .harness import Run, in_turns
from .peers import import_polars
from .queries import How, finish

SECONDS, EVERY = 10, 1  # of the windows
KEYS = 1_000
SESSIONS_OF = 4  # rows of each key
MOST_KEYS = 1_000_000
JOINED_KEYS = 100_000  # of a window


@dataclass(frozen=True)
class Settings:
    """What the user may choose. `rows` is None for the figure's own number."""

    rows: int | None = None
    repeat: int = 5
    workers: int = 2


@dataclass
class Bench(report.Bench):
    """What the measurements share."""

    settings: Settings = field(default_factory=Settings)


Check = Callable[[pa.Table], bool]


Side = Callable[[], Run]


def _headrace(bench: Bench, rows: int, stream: Stream, check: Check) -> Side:
    how = How("node", bench.settings.workers)

    def run() -> Run:
        ended = finish(stream, how)
        return Run(rows, ended.seconds, ended.rows == rows and check(ended.result))

    return run


def _polars(rows: int, compute: Callable[[], Any], check: Check) -> Side:
    def run() -> Run:
        started = time.perf_counter()
        found = compute()
        return Run(rows, time.perf_counter() - started, check(found.to_arrow()))

    return run


def _duel(bench: Bench, rows: int, ours: Side, theirs: Side) -> Found:
    sides = {"ours": ours, "theirs": theirs}
    turns = in_turns(sides, bench.settings.repeat, say=bench.say)
    duel = turns.duel("ours", "theirs")
    details = {"rows": rows, "workers": bench.settings.workers}
    return Found(duel.ratio, turns.correct, {**duel.said(), **details})


# ---- sliding windows -------------------------------------------------------------------------


def _sliding(bench: Bench) -> dict[str, Found]:
    rows = bench.settings.rows or 32_000_000
    bench.say("making rows")
    span = 100  # seconds
    at, keys = np.arange(rows) * span // rows, np.random.default_rng(1).integers(0, KEYS, rows)
    counts = np.bincount(at * KEYS + keys, minlength=span * KEYS).reshape(span, KEYS)
    stream = hr.read.memory(pa.table({"at": at, "key": keys})).with_watermark("at", 0).key_by("key")

    def counted(windows: Any, starts: Sequence[int]) -> Side:
        totals = [counts[max(start, 0) : start + SECONDS].sum(axis=0) for start in starts]
        expected = _flat(starts, totals)
        made = stream.window(windows).agg(n=hr.count())
        names = ("window_start", "key", "n")
        return _headrace(bench, rows, made, lambda found: _same(found, names, expected))

    slid = counted(hr.sliding(SECONDS, every=EVERY), range(1 - SECONDS, span))
    tumbled = counted(hr.tumbling(SECONDS), range(0, span, SECONDS))
    return {"sliding": _duel(bench, rows, slid, tumbled)}


def _flat(starts: Sequence[int], totals: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Windows, keys and counts of what is not empty, in order."""
    whole = np.array(totals)
    window, key = np.nonzero(whole)
    return np.array(starts)[window], key, whole[window, key]


def _same(found: pa.Table, names: Sequence[str], expected: Sequence[np.ndarray]) -> bool:
    columns = [found[name].to_numpy() for name in names]
    return all(np.array_equal(one, other) for one, other in zip(columns, expected, strict=True))


# ---- sessions --------------------------------------------------------------------------------


def _session(bench: Bench) -> dict[str, Found]:
    rows = bench.settings.rows or SESSIONS_OF * MOST_KEYS
    bench.say("making rows")
    keys = max(1, rows // SESSIONS_OF)
    rows, gap = keys * SESSIONS_OF, keys + keys // 5
    chance = np.random.default_rng(1)
    order = np.array([chance.permutation(keys) for _ in range(SESSIONS_OF)])
    times = np.argsort(order, axis=1) + np.arange(SESSIONS_OF)[:, None] * keys  # of each key
    table = pa.table({"at": np.arange(rows), "key": order.ravel()})
    stream = hr.read.memory(table).with_watermark("at", 0).key_by("key")
    ends = np.concatenate([np.diff(times, axis=0) >= gap, np.ones((1, keys), bool)])
    last = np.sort(times[ends])

    def by_hand(state, at):  # type: ignore[no-untyped-def]  # compiled
        if state.rows > 0 and at - state.last >= gap:
            yield state.first, state.last, state.rows
            state.rows = 0
        if state.rows == 0:
            state.first = at
        state.last = at
        state.rows += 1

    def sessions(found: pa.Table) -> bool:
        right = np.array_equal(found["window_end"].to_numpy() - gap, last)
        return right and int(found["n"].to_numpy().sum()) == rows

    def closed(found: pa.Table) -> bool:  # those that another one follows
        return found.num_rows == len(last) - keys

    written = stream.process(
        by_hand,
        state={"first": 0, "last": 0, "rows": 0},
        columns=["at"],
        output=["first", "last", "n"],
    )
    ours = stream.window(hr.session(gap)).agg(n=hr.count())
    sides = (_headrace(bench, rows, ours, sessions), _headrace(bench, rows, written, closed))
    return {"session": _duel(bench, rows, *sides)}


# ---- against Polars --------------------------------------------------------------------------


def _distinct(bench: Bench) -> dict[str, Found]:
    """Values of windows, of which each comes twice."""
    polars = import_polars()
    bench.say("making rows")
    size = max(2, (bench.settings.rows or 4 * 2 * MOST_KEYS) // 4) // 2 * 2
    rows, chance = 4 * size, np.random.default_rng(1)
    values = np.concatenate([chance.permutation(size) // 2 + size * k for k in range(4)])
    table = pa.table({"at": np.repeat(np.arange(4), size), "value": values})
    frame = polars.from_arrow(table).lazy()

    def check(found: pa.Table) -> bool:
        return bool(found["n"].to_pylist() == [size // 2] * 4)

    ours = hr.read.memory(table).with_watermark("at", 0).window(hr.tumbling(1))
    theirs = frame.group_by("at").agg(n=polars.col("value").n_unique())
    sides = (
        _headrace(bench, rows, ours.agg(n=hr.count_distinct("value")), check),
        _polars(rows, theirs.collect, check),
    )
    return {"distinct": _duel(bench, rows, *sides)}


def _window_join(bench: Bench) -> dict[str, Found]:
    """Every key once on each side of every window."""
    polars = import_polars()
    bench.say("making rows")
    windows = 10
    keys = max(1, (bench.settings.rows or 2 * windows * JOINED_KEYS) // (2 * windows))
    rows, chance = 2 * windows * keys, np.random.default_rng(1)
    at = np.repeat(np.arange(windows), keys)

    def side(*names: str) -> pa.Table:
        order = np.concatenate([chance.permutation(keys) for _ in range(windows)])
        return pa.table(dict(zip(names, (at, order, order + at), strict=True)))

    left, right = side("at", "key", "left"), side("then", "key", "right")

    def check(found: pa.Table) -> bool:
        same = np.array_equal(found["left"].to_numpy(), found["right"].to_numpy())
        return same and found.num_rows == windows * keys

    one = hr.read.memory(left).with_watermark("at", 0)
    other = hr.read.memory(right).with_watermark("then", 0)
    frames = [polars.from_arrow(table).lazy() for table in (left, right)]
    theirs = frames[0].join(frames[1], left_on=["at", "key"], right_on=["then", "key"])
    sides = (
        _headrace(bench, rows, one.window_join(other, "key", hr.tumbling(1)), check),
        _polars(rows, theirs.collect, check),
    )
    return {"window_join": _duel(bench, rows, *sides)}


def _asof_join(bench: Bench) -> dict[str, Found]:
    """As many versions as rows that ask for them, of keys at random."""
    polars = import_polars()
    bench.say("making rows")
    each = max(1, (bench.settings.rows or 2 * MOST_KEYS) // 2)
    rows, chance = 2 * each, np.random.default_rng(1)
    left, right = (
        {time: 2 * np.arange(each) + k, "key": chance.integers(0, KEYS, each)}
        for k, time in enumerate(("at", "then"))
    )
    right["version"] = np.arange(each)
    order = np.lexsort((right["then"], right["key"]))
    sides = [side["key"] * rows + side[time] for side, time in ((left, "at"), (right, "then"))]
    place = np.searchsorted(sides[1][order], sides[0], side="right") - 1
    last = order[np.maximum(place, 0)]
    known = (place >= 0) & (right["key"][last] == left["key"])
    expected = np.where(known, last, -1)

    def check(found: pa.Table) -> bool:
        missing, versions = np.isnan(found["version"].to_numpy()), found["version"].to_numpy()
        same = np.array_equal(np.where(missing, -1, versions), expected)
        return same and _same(found, ("at",), (left["at"],))

    tables = pa.table(left), pa.table(right)
    one = hr.read.memory(tables[0]).with_watermark("at", 0)
    other = hr.read.memory(tables[1]).with_watermark("then", 0)
    frames = [polars.from_arrow(table).lazy() for table in tables]
    theirs = frames[0].join_asof(
        frames[1], left_on="at", right_on="then", by="key", check_sortedness=False
    )
    duel = (
        _headrace(bench, rows, one.asof_join(other, "key", how="left"), check),
        _polars(rows, theirs.collect, check),
    )
    return {"asof_join": _duel(bench, rows, *duel)}


# ---- a whole query -----------------------------------------------------------------------------


def _linear_road(bench: Bench) -> dict[str, Found]:
    """The tolls of some minutes, against NumPy on one thread."""
    bench.say("making rows")
    seconds, wanted = 600, bench.settings.rows or 8_000_000
    cars = max(10, wanted * linear_road.BETWEEN // seconds)
    reports = linear_road.traffic(cars=cars, seconds=seconds, crashes=min(100, cars // 4))
    rows, answer = reports.num_rows, linear_road.expected(reports)

    def check(found: pa.Table) -> bool:
        return linear_road.same_rows(found, answer)

    def theirs() -> Run:
        started = time.perf_counter()
        found = linear_road.expected(reports)
        return Run(rows, time.perf_counter() - started, check(found))

    ours = _headrace(bench, rows, linear_road.tolls(hr.read.memory(reports)), check)
    return {"linear_road": _duel(bench, rows, ours, theirs)}


# ---- all of them -----------------------------------------------------------------------------

FIGURES = by_name(
    Figure("sliding", "sliding 10 s by 1 s against tumbling 10 s, count by key", 0.5),
    Figure("session", "sessions of 1 million keys against process by hand", 1.0),
    Figure("window_join", "100,000 keys a window on each side, against Polars", 0.5),
    Figure("distinct", "1 million different values a window, exact, against Polars", 0.5),
    Figure("asof_join", "a row with the last version of its key, 1,000 keys, against Polars", 0.5),
    Figure("linear_road", "the tolls of Linear Road, against NumPy on one thread", 1.0),
)

SUITE = report.Suite(
    "headrace bench operators: 2 workers, against simpler ones and Polars on 2 threads",
    FIGURES,
    {
        ("sliding",): _sliding,
        ("session",): _session,
        ("window_join",): _window_join,
        ("distinct",): _distinct,
        ("asof_join",): _asof_join,
        ("linear_road",): _linear_road,
    },
)


def run(
    names: Sequence[str] = (), *, settings: Settings | None = None, **shown: Any
) -> list[report.Result]:
    """Measure figures (all, without names), print them as `report.run` does, and give them."""
    return report.run(SUITE, Bench(settings or Settings()), names, **shown)
