"""Linear Road: the tolls of the segments of expressways, by how cars move, and without accidents.

The query is that of Enjima, of ten operators (source, filter, projection; lanes, accidents; average
speed; reports; join; tolls without those near accidents; sink). As Enjima's it differs from the
benchmark of Arasu et al. (VLDB 2004): a car stands if four reports of two minutes say a place and
the speed 0, not if four in a row say one place, and a toll counts the reports of a minute, not its
cars; balances, daily expenses and travel times are not asked for. From Enjima's program it differs
in that accidents are found (there a counter is never counted up) and reach the tolls by an as-of
join, not by a co-group with a table of its own, and that segments without reports give nothing.

The result of a window is a row at the start of it, which is known at its end. Where it goes on to
an operator by time, its time is moved there, by a function that yields another one.

    >>> from headrace import read, run
    >>> reports = traffic(cars=500, seconds=300)
    >>> output = tolls(read.memory(reports)).write.collect()
    >>> job = run(output, engine="thread", compiled=False)
    >>> same_rows(output.result(), expected(reports))
    True
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace import col
from headrace.stream import Stream

from .compare import same_rows

__all__ = ["accidents", "expected", "same_rows", "tolls", "traffic"]

POSITION = 0  # the type of a report
MINUTE, BETWEEN = 60, 30  # seconds: of the statistics, and from a report of a car to its next one
STANDING = 4  # reports of a car that stands,
WATCHED = STANDING * BETWEEN  # and the time that it takes
LATEST = 5  # minutes of the average speed
NEAR = 4  # segments before an accident where nothing is to be paid
SEGMENTS, FEET = 100, 5280  # of an expressway, and of a segment
SLOW, FREE_REPORTS = 40, 50  # a toll is due below this speed, and above so many reports


# ---- the query -------------------------------------------------------------------------------


def tolls(source: Stream) -> Stream:
    """The toll of every segment with cars in every minute, and when an accident has set it to 0.

    source: type, time (seconds), vid, speed, xway, lane, dir, pos (feet), in order of time.
    """
    reports = _positions(source)
    segment = ("xway", "dir", "seg")
    by_car = (
        reports.key_by(*segment, "vid")
        .window(hr.tumbling(MINUTE))
        .agg(total=hr.sum("speed"), n=hr.count())
        .with_columns(speed=col("total") // col("n"))
    )
    speeds = (
        by_car.key_by(*segment)
        .window(hr.tumbling(MINUTE))
        .agg(total=hr.sum("speed"), n=hr.count())
        .with_columns(speed=col("total") // col("n"))
        .process(
            _average,
            state=Minutes,
            columns=["window_start", "speed"],
            output=["window_start", "speed"],
        )
    )
    counts = reports.key_by(*segment).window(hr.tumbling(MINUTE)).agg(reports=hr.count())
    joined = speeds.rename(window_start="minute").window_join(
        counts.rename(window_start="counted"), segment, hr.tumbling(MINUTE)
    )
    known = [*segment, "window_start", "speed", "reports", "toll"]
    over = col("reports") - FREE_REPORTS
    due = (col("speed") < SLOW) & (over > 0)
    priced = (
        joined.with_columns(toll=hr.when(due).then(2 * over * over).otherwise(0))
        .flat_map(_at_its_end, columns=known, output=known)
        .rename(window_start="until")
    )
    near = _found(reports).flat_map(
        _segments_before,
        columns=["xway", "dir", "pos", "found"],
        output=["xway", "dir", "seg", "found"],
    )
    free = col("found").is_not_null()
    return priced.asof_join(near, segment, tolerance=BETWEEN, how="left").with_columns(
        toll=hr.when(free).then(0).otherwise(col("toll"))
    )


def accidents(source: Stream) -> Stream:
    """Where two cars or more stand, every 30 seconds as long as they do; `found` is the end of the
    two minutes in which they did not move."""
    return _found(_positions(source))


def _found(reports: Stream) -> Stream:
    place = ("xway", "dir", "lane", "pos")
    standing = (
        reports.filter((col("lane") >= 1) & (col("lane") <= 3) & (col("speed") == 0))
        .key_by(*place, "vid")
        .window(hr.sliding(WATCHED, every=BETWEEN))
        .agg(n=hr.count())
        .filter(col("n") >= STANDING)
        .flat_map(_when_seen, columns=[*place, "window_start"], output=[*place, "window_start"])
    )
    together = standing.key_by(*place).window(hr.tumbling(BETWEEN)).agg(cars=hr.count())
    known = [*place, "window_start", "cars"]
    found = together.filter(col("cars") >= 2).flat_map(_when_found, columns=known, output=known)
    return found.rename(window_start="found")


def _positions(source: Stream) -> Stream:
    reports = source.filter(col("type") == POSITION).with_watermark("time", 0)
    columns = ("time", "vid", "speed", "xway", "lane", "dir", "pos")
    return reports.select(*columns, seg=col("pos") // FEET)


class Minutes:
    """The last average speeds of a segment, the newest one first."""

    count: int = 0
    newest: int = 0
    second: int = 0
    third: int = 0
    fourth: int = 0
    fifth: int = 0


def _average(state: Minutes, minute: int, speed: int) -> Iterator[tuple[int, int]]:
    """The average over the last minutes in which there were cars."""
    state.fifth = state.fourth
    state.fourth = state.third
    state.third = state.second
    state.second = state.newest
    state.newest = speed
    state.count = min(state.count + 1, LATEST)
    total = state.newest + state.second + state.third + state.fourth + state.fifth
    yield minute, total // state.count


def _when_seen(
    xway: int, dir: int, lane: int, pos: int, start: int
) -> Iterator[tuple[int, int, int, int, int]]:
    """That a car has stood for a whole window is known in its last second."""
    yield xway, dir, lane, pos, start + WATCHED - 1


def _when_found(
    xway: int, dir: int, lane: int, pos: int, start: int, cars: int
) -> Iterator[tuple[int, int, int, int, int, int]]:
    """An accident is known when the time is over in which its cars were seen to stand."""
    yield xway, dir, lane, pos, start + BETWEEN, cars


def _at_its_end(
    xway: int, dir: int, seg: int, minute: int, speed: int, reports: int, toll: int
) -> Iterator[tuple[int, int, int, int, int, int, int]]:
    """A toll is known when its minute is over."""
    yield xway, dir, seg, minute + MINUTE, speed, reports, toll


def _segments_before(
    xway: int, dir: int, pos: int, found: int
) -> Iterator[tuple[int, int, int, int]]:
    """Those from which cars come to an accident."""
    back = -1 if dir == 0 else 1
    for k in range(NEAR + 1):
        seg = pos // FEET + back * k
        if 0 <= seg < SEGMENTS:
            yield xway, dir, seg, found


# ---- data --------------------------------------------------------------------------------------


def traffic(
    *, cars: int, seconds: int, xways: int = 1, crashes: int = 4, seed: int = 1
) -> pa.Table:
    """Reports of cars, each every 30 seconds, in order of time; one in a hundred is a question.

    Cars go at their own speeds, slowly in the middle of the road. For each crash two of them stand
    at one place, for three minutes or more.
    """
    chance = np.random.default_rng(seed)
    xway, way = chance.integers(0, xways, cars), chance.integers(0, 2, cars)
    start, pos = chance.integers(0, BETWEEN, cars), chance.integers(0, SEGMENTS * FEET, cars)
    own = np.clip(chance.normal(58, 8, cars), 20, 100).astype(np.int64)
    crashed = chance.permutation(cars)[: 2 * crashes].reshape(2, crashes)
    begins = chance.integers(1, 3, crashes)  # which report of theirs
    lasts = chance.integers(6, 12, crashes)
    made: list[list[np.ndarray]] = []
    for number in range(seconds // BETWEEN):
        segment = pos // FEET
        limit = np.where((segment > 33) & (segment < 66), 30, 100)
        speed = np.minimum(own, limit + chance.integers(0, 6, cars))
        lane = chance.integers(1, 4, cars)
        stands = (number >= begins) & (number < begins + lasts)
        one, other = crashed[:, stands]
        for column in (xway, way, lane, pos):
            column[other] = column[one]
        lane[crashed[:, stands]] = 2
        speed[crashed[:, stands]] = 0
        there = (pos >= 0) & (pos < SEGMENTS * FEET)
        kinds = np.where(chance.random(cars) < 0.01, 2, POSITION)
        kinds[crashed.ravel()] = POSITION
        columns = (kinds, start + number * BETWEEN, np.arange(cars), speed, xway, lane, way, pos)
        made.append([np.compress(there, column) for column in columns])
        pos = pos + np.where(way == 0, 1, -1) * speed * 44  # feet in 30 seconds for a mile an hour
    names = ("type", "time", "vid", "speed", "xway", "lane", "dir", "pos")
    whole = [np.concatenate(parts) for parts in zip(*made, strict=True)]
    order = np.argsort(whole[1], kind="stable")
    return pa.table({name: column[order] for name, column in zip(names, whole, strict=True)})


# ---- the answer --------------------------------------------------------------------------------


def expected(reports: pa.Table) -> pa.Table:
    """What `tolls` gives, by NumPy over all rows at once."""
    rows = {name: reports[name].to_numpy() for name in reports.column_names}
    rows = {name: column[rows["type"] == POSITION] for name, column in rows.items()}
    rows["seg"], rows["minute"] = rows["pos"] // FEET, rows["time"] // MINUTE
    names = ("xway", "dir", "seg", "minute")
    cars, (total, n) = _grouped([rows[name] for name in (*names, "vid")], rows["speed"])
    keys, (speeds, seen, counted) = _grouped(cars[:4], total // n, n)
    average = _latest(keys, speeds // seen)
    over = counted - FREE_REPORTS
    due = np.where((average < SLOW) & (over > 0), 2 * over * over, 0)
    until = (keys[3] + 1) * MINUTE
    found = _last_found(rows, [*keys[:3], until])
    columns = [*keys[:3], until, average, counted, np.where(found < 0, due, 0)]
    made = dict(zip(("xway", "dir", "seg", "until", "speed", "reports", "toll"), columns))
    return pa.table({**made, "found": pa.array(found, mask=found < 0)})


def _grouped(
    keys: list[np.ndarray], *values: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Keys that differ, in order; the sums of values, and behind the first one how many there are
    of each key."""
    low = [int(key.min(initial=0)) for key in keys]
    size = [int(key.max(initial=0)) - least + 1 for key, least in zip(keys, low, strict=True)]
    shifted = [key - least for key, least in zip(keys, low, strict=True)]
    packed = np.ravel_multi_index(shifted, size)
    found, place = np.unique(packed, return_inverse=True)
    sums = [np.bincount(place, value, len(found)).astype(np.int64) for value in values]
    sums.insert(1, np.bincount(place, minlength=len(found)))
    parts = np.unravel_index(found, size)
    return [part + least for part, least in zip(parts, low, strict=True)], sums


def _latest(keys: list[np.ndarray], speeds: np.ndarray) -> np.ndarray:
    """The average of the last minutes of each segment; keys are in order, minutes last."""
    same = np.concatenate([[False], np.all([k[1:] == k[:-1] for k in keys[:3]], axis=0)])
    first = np.maximum.accumulate(np.where(same, 0, np.arange(len(speeds))))  # of each segment
    start = np.maximum(first, np.arange(len(speeds)) - LATEST + 1)
    sums = np.concatenate([[0], np.cumsum(speeds)])
    return (sums[1:] - sums[start]) // (np.arange(len(speeds)) + 1 - start)


def _last_found(rows: dict[str, np.ndarray], keys: list[np.ndarray]) -> np.ndarray:
    """For each segment and end of a minute the end of an accident in or before it, or -1."""
    lane = rows["lane"]
    still = (rows["speed"] == 0) & (lane >= 1) & (lane <= 3)
    columns = [rows[name][still] for name in ("xway", "dir", "lane", "pos", "vid")]
    last = rows["time"][still] // BETWEEN  # a report is in four windows of this length
    windows = [last + k for k in range(1, STANDING + 1)]
    cars, (_, n) = _grouped([*(np.tile(c, STANDING) for c in columns), np.concatenate(windows)],
                            np.tile(last, STANDING))  # fmt: skip
    cars = [column[n >= STANDING] for column in cars]
    places, (_, together) = _grouped([*cars[:4], cars[5]], cars[5])
    xway, way, _, pos, end = (column[together >= 2] for column in places)
    known: dict[tuple[int, ...], int] = {}
    for k in range(NEAR + 1):
        seg = pos // FEET + np.where(way == 0, -k, k)
        for key in zip(xway.tolist(), way.tolist(), seg.tolist(), (end * BETWEEN).tolist()):
            known[key] = key[3]
    found = np.full(len(keys[0]), -1)
    if known:
        for at, (*segment, until) in enumerate(zip(*(key.tolist() for key in keys))):
            before = known.get((*segment, until - BETWEEN), -1)
            found[at] = known.get((*segment, until), before)
    return found
