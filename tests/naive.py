"""What pipelines mean, as slowly and obviously as possible: the reference for random tests.

`naive(outputs)` interprets the plan as the user wrote it, before any rewrite, node by node and row
by row. Rows are dicts; None is null; timestamps are microseconds and dates are days, as everywhere
inside. Nothing here is shared with `headrace.stage`.

A row goes through the plan together with the *watermark before it*: the largest time among all
rows of its channel so far, at the source, minus the bound (None: no row had a time yet). A row is
late for a window if its time is null or if the end of its window is not after that watermark.
Results of a window are rows that come when the window is over, so the watermark before them is its
last instant.

Several channels are fed one after the other, and the sides of a union too. Engines mix them
otherwise, so results are comparable only where the order of rows does not matter: then as sets,
and the results of windows in their order.
"""

from __future__ import annotations

import copy
import functools
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from tests import naive_functions as functions

from headrace.plan import expressions as e
from headrace.plan import nodes as n
from headrace.plan.build_chosen import KEPT
from headrace.plan.by_time import INPUT, SortByTime
from headrace.plan.dedup import DedupWithin
from headrace.plan.expression_types import type_of
from headrace.plan.functions import Limit, StateSpec
from headrace.plan.graph import walk
from headrace.plan.rebalance import Rebalance
from headrace.plan.schema import Schema
from headrace.plan.timed import TimedProcess
from headrace.plan.types import DataType, timestamp
from headrace.plan.windows import base as w
from headrace.plan.windows.calendar import Calendar
from headrace.plan.windows.interval import Interval
from headrace.plan.windows.repeated import Repeated
from headrace.plan.windows.session import Session
from headrace.plan.windows.sliding import Sliding
from headrace.plan.windows.tumbling import Tumbling
from headrace.plan.windows.waiting import Waiting
from headrace.stage.asides import Aside

Row = dict[str, Any]
Timed = tuple[Row, int | None]  # a row and the watermark before it
Lookup = Callable[[str], Any]

LOWEST, HIGHEST = -(2**63), 2**63 - 1
DAY = 86_400_000_000  # microseconds


def naive(outputs: Sequence[Any]) -> list[list[Row]]:
    """The rows of each output, in order."""
    sinks = [output.node for output in outputs]
    return Naive(sinks).results


# ---- rows and Arrow ------------------------------------------------------------------------


def rows_of(table: pa.Table | pa.RecordBatch) -> list[Row]:
    """Rows in stored form: no datetimes, which cannot hold every timestamp."""
    columns = {}
    for field in table.schema:
        columns[field.name] = table.column(field.name).cast(_stored(field.type)).to_pylist()
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def _stored(kind: pa.DataType) -> pa.DataType:
    """What times and lists of them are stored as."""
    if pa.types.is_list(kind):
        return pa.list_(_stored(kind.value_type))
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(kind) else kind


def batch_of(rows: list[Row], schema: Schema) -> pa.RecordBatch:
    """The other way."""
    arrays = []
    for field in schema:
        long = ("timestamp", "duration", "time")
        stored = dict.fromkeys(long, pa.int64()) | {"date": pa.int32()}
        stored = stored.get(field.type.name)
        array = pa.array([row[field.name] for row in rows], stored or field.type.to_arrow())
        arrays.append(array.cast(field.type.to_arrow()))
    return pa.RecordBatch.from_arrays(arrays, schema=schema.to_arrow())


# ---- the plan ------------------------------------------------------------------------------


class Naive:
    """Interprets a plan; `results` has the rows of each of its sinks."""

    def __init__(self, sinks: Sequence[n.Node]) -> None:
        self._clocks = dict(_clocks(sinks))
        self._rows: dict[int, list[Timed]] = {}
        self._late: dict[int, list[Timed]] = {}  # of each window
        self._letters: dict[int, list[Timed]] = {}  # of each operator that leaves rows out
        for node in walk(sinks):
            self._rows[id(node)] = list(self._give(node))
        self.results = [[row for row, _ in self._rows[id(sink)]] for sink in sinks]

    def _give(self, node: n.Node) -> Iterator[Timed]:
        given = [timed for source in node.inputs for timed in self._rows[id(source)]]
        match node:
            case n.Source():
                yield from self._read(node)
            case n.Filter():
                yield from self._each(node, given, _passed)
            case n.Project():
                yield from self._each(node, given, _projected)
            case n.Limit():
                yield from _kept(given[: node.rows])
            case n.Dedup():
                yield from _kept(_without_repeated(node, given))
            case DedupWithin():
                yield from _without_near(node, given)
            case n.Process():
                yield from self._each(node, given, _processing(node))
            case n.FlatMap():
                yield from self._each(node, given, _call_generator)
            case n.TableJoin():
                yield from _join(node, given)
            case n.AsOfJoin():
                yield from _asof_join(node, _split_late(node, given)[0])
            case TimedProcess():
                on_time, self._late[id(node)] = _split_late(node, given)
                yield from _timed_process(node, [row for row, _ in on_time])
            case SortByTime():
                on_time, self._late[id(node)] = _split_late(node, given)
                rows = [row for row, _ in on_time]
                for row in sorted(rows, key=lambda row: (row[node.at], row[INPUT])):
                    yield row, row[node.at]
            case n.WindowJoin():
                yield from _stream_join(node, _split_late(node, given)[0])
            case n.WindowAggregate():
                on_time, late = _split_late(node, given)
                self._late[id(node)] = late
                yield from _aggregate(node, on_time)
            case n.Running():
                yield from _running(node, given)
            case n.Late():
                yield from self._late[id(node.input)]
            case n.DeadLetters():
                yield from self._letters[id(node.input)]
            case n.MapBatches():
                rows = batch_of([row for row, _ in given], node.input.schema)
                for row in rows_of(node.function(rows)):
                    yield row, None
            case n.Union() | n.KeyBy() | n.Watermark() | n.Sink() | Rebalance():
                yield from given
            case _:
                raise TypeError(f"{node.kind} is no operator that users write")

    def _each(
        self, node: n.Node, given: list[Timed], make: Callable[[Any, Row], Iterator[Row]]
    ) -> Iterator[Timed]:
        """What an operator makes of each row; of one that fails, what it gave before."""
        letters = self._letters[id(node)] = []
        for row, watermark in given:
            try:
                for made in make(node, row):
                    yield made, watermark
            except Exception as error:
                if node.on_error == n.FAIL:
                    raise
                kind = next(k for k in type(error).__mro__ if k.__module__ == "builtins")
                said = f"{kind.__name__}: {error}"
                letter = {**row, n.ERROR_OPERATOR: node.name, n.ERROR_MESSAGE: said}
                letters.append((letter, watermark))

    def _read(self, source: n.Source) -> Iterator[Timed]:
        clock = self._clocks.get(id(source))
        for channel in source.connector.channels():
            largest = None
            for row in _rows_of_channel(source.connector, channel):
                if clock is None:
                    yield row, None
                    continue
                yield row, None if largest is None else largest - clock.bound
                time = _value_at(clock.input, clock.column, source, row)
                if time is not None and (clock.latest is None or time <= clock.latest):
                    largest = time if largest is None else max(largest, time)


def _rows_of_channel(connector: Any, channel: str) -> Iterator[Row]:
    reader = connector.open(channel)
    while True:
        batch = reader.poll(1000, 1.0)
        if batch.rows is not None:
            yield from rows_of(batch.rows)
        if batch.ended:
            return


def _clocks(sinks: Sequence[n.Node]) -> Iterator[tuple[int, n.Watermark]]:
    """For every source the with_watermark that its rows come to."""
    for node in walk(sinks):
        if isinstance(node, n.Watermark):
            for source in walk([node]):
                if isinstance(source, n.Source):
                    yield id(source), node


def _value_at(node: n.Node, column: str, source: n.Source, row: Row) -> Any:
    """The value that a column of a node has for a row of a source, whatever filters say."""
    if node is source:
        return row[column]
    if isinstance(node, n.Union):
        side = next(side for side in node.inputs if any(each is source for each in walk([side])))
        return _value_at(side, column, source, row)
    if isinstance(node, n.Project):
        made = dict(node.columns)[column]
        lookup = lambda name: _value_at(node.input, name, source, row)  # noqa: E731
        try:
            return evaluate(made, lookup, node.input.schema)
        except Exception:
            if node.on_error == n.FAIL:
                raise
            return None
    return _value_at(node.input, column, source, row)


# ---- rows one by one, user functions, joins --------------------------------------------------


def _passed(node: n.Filter, row: Row) -> Iterator[Row]:
    if evaluate(node.predicate, row.__getitem__, node.schema) is True:
        yield row


def _projected(node: n.Project, row: Row) -> Iterator[Row]:
    yield {c: evaluate(x, row.__getitem__, node.input.schema) for c, x in node.columns}


def received(value: Any, kind: DataType) -> Any:
    """A value that a user function gave, in its column."""
    return None if value is None else cast(value, None, kind)


def _results(given: Any, kinds: Sequence[DataType]) -> list[Any]:
    values = given if isinstance(given, tuple) else (given,)
    return [received(value, kind) for value, kind in zip(values, kinds, strict=True)]


def _yielded(node: n.FlatMap | TimedProcess, given: Any) -> Row:
    """The columns of what a function yields: those of one of its outputs."""
    name, values = (given.name, given.values) if isinstance(given, Aside) else ("", given)
    number, output = next((k, o) for k, o in enumerate(node.outputs) if o.name == name)
    results = _results(values, [field.type for field in output.fields])
    made = dict(zip(output.columns, results, strict=True))
    return made if len(node.outputs) == 1 else {n.ASIDE: number, **made}


def _call_generator(node: n.FlatMap, row: Row, *state: Any) -> Iterator[Row]:
    carried = {name: row[name] for name in node.carry}
    for given in node.function.callable(*state, *(row[name] for name in node.arguments)):
        yield {**carried, **_yielded(node, given)}


class _Bounded(list[Any]):
    """A list of a state."""

    def __init__(self, limit: Limit) -> None:
        super().__init__()
        self.limit = limit

    def append(self, item: Any) -> None:
        if len(self) == self.limit.most:
            if self.limit.fails:
                raise ValueError("too many items")
            self.pop(0)
        super().append(item)

    def popleft(self) -> Any:
        return self.pop(0)

    def __iter__(self) -> Iterator[Any]:
        return iter(self[:])

    def __deepcopy__(self, known: Any) -> _Bounded:
        made = _Bounded(self.limit)
        made += self[:]
        return made


def _first_state(spec: StateSpec) -> SimpleNamespace:
    limits = dict(spec.limits)
    made = dict(zip([field.name for field in spec.fields], spec.initial, strict=True))
    return SimpleNamespace(**made | {name: _Bounded(limit) for name, limit in limits.items()})


def _processing(node: n.Process) -> Callable[[Any, Row], Iterator[Row]]:
    """A function of rows over the states of all keys; a row that fails changes none."""
    states: dict[Any, SimpleNamespace] = {}

    def process(node: n.Process, row: Row) -> Iterator[Row]:
        key = key_of(row, node.key)
        before = states.get(key)
        state = _first_state(node.function.state) if before is None else copy.deepcopy(before)
        yield from _call_generator(node, row, state)
        states[key] = state

    return process


def _kept(given: Sequence[Timed]) -> Iterator[Timed]:
    """Rows with the column that `limit` and `dedup` add, which is dropped behind them."""
    for row, watermark in given:
        yield {**row, KEPT: True}, watermark


def _without_repeated(node: n.Dedup, given: list[Timed]) -> list[Timed]:
    seen: set[Any] = set()
    kept = []
    for row, watermark in given:
        if key_of(row, node.key) not in seen:
            seen.add(key_of(row, node.key))
            kept.append((row, watermark))
    return kept


def _without_near(node: DedupWithin, given: list[Timed]) -> Iterator[Timed]:
    """Rows that are not late, and near to none of their key that was given."""
    times: dict[Any, list[int]] = {}
    within = node.window.size
    for row, watermark in given:
        time, given_before = row[node.at], times.setdefault(key_of(row, node.key), [])
        if time is not None:
            late = watermark is not None and time < watermark - within
            if late or any(abs(time - other) < within for other in given_before):
                continue
            given_before.append(time)
        yield row, watermark


def _join(node: n.TableJoin, given: list[Timed]) -> Iterator[Timed]:
    table = {key_of(row, node.right_on): row for row in rows_of(node.table.load())}
    for row, watermark in given:
        no_null = all(row[name] is not None for name in node.left_on)
        found = table.get(key_of(row, node.left_on)) if no_null else None
        if found is not None:
            yield {**row, **{name: found[column] for column, name in node.taken}}, watermark
        elif node.how == "left":
            yield {**row, **{name: None for _, name in node.taken}}, watermark


# ---- keys and windows ----------------------------------------------------------------------


def key_of(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    """A key that sorts as keys do: null, then values, then NaN; -0.0 is 0.0."""
    return tuple(order(row[name]) for name in names)


def order(value: Any) -> tuple[Any, ...]:
    """Something whose order is the order of values."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, str):
        return (1, value.encode())
    return (1, value)


def _windows_of(time: int, window: w.Window) -> list[tuple[int, int]]:
    """(start, end) of the windows that a time is in, in order."""
    match window:
        case Repeated():
            return _windows_of(time, window.whole)
        case Tumbling(size, offset):
            start = (time - offset) // size * size + offset
            return [(start, start + size)]
        case Sliding(size, every, offset):
            last = (time - offset) // every * every + offset
            starts = range(last, time - size, -every)
            return [(start, start + size) for start in reversed(starts)]
        case Calendar(every, zone):
            cut = lambda t: functions.of_time("truncate", t, [every], timestamp, zone)  # noqa: E731
            start, later = cut(time), time
            while cut(later) == start:
                later += DAY // 2
            return [(start, cut(later))]
    raise TypeError(f"{window} is no kind of windows that users write")


def _split_late(node: n.WindowAggregate, given: list[Timed]) -> tuple[list[Timed], list[Timed]]:
    """The rows that are in time for some window, and the others."""
    on_time, late = [], []
    bounds = [each.latest for each in walk([node]) if isinstance(each, n.Watermark)]
    latest = min((bound for bound in bounds if bound is not None), default=HIGHEST)
    for row, watermark in given:
        time = row[node.input.time] if node.window.uses_time else 0
        if time is None or (node.window.uses_time and time > latest):
            in_time = False
        elif watermark is None or not node.window.uses_time:
            in_time = True
        elif isinstance(node.window, Session | Interval | Waiting):
            in_time = time >= watermark
        else:
            kept = node.window.lateness if isinstance(node.window, Repeated) else 0
            in_time = _windows_of(time, node.window)[-1][1] + kept > watermark
        (on_time if in_time else late).append((row, watermark))
    return on_time, late


def _aggregate(node: n.WindowAggregate, rows: list[Timed]) -> Iterator[Timed]:
    """Results by the end of their window, then by key.

    The rows of a window are put together from parts, for sums of floats: each is added up, and then
    they are. Parts are rows that all windows have together, in order.
    """
    groups: dict[Any, list[list[Row]]] = {}
    if isinstance(node.window, Session):
        groups = _sessions(node, rows)
    elif isinstance(node.window, Repeated):
        yield from _repeated(node, rows)
    else:
        parts: dict[Any, list[Row]] = {}
        for row, watermark in rows:
            if not node.window.uses_time:
                windows = [(0, HIGHEST)]
            else:
                windows = _windows_of(row[node.input.time], node.window)
            open_ = tuple(w for w in windows if watermark is None or w[1] > watermark)
            ended = len(windows) - len(open_)
            parts.setdefault((windows[-1], windows[0], ended, open_), []).append(row)
        for (*_, open_), members in sorted(parts.items(), key=lambda part: part[0]):
            by_key: dict[Any, list[Row]] = {}
            for row in members:
                by_key.setdefault(key_of(row, node.key), []).append(row)
            for start, end in open_:
                for key, some in by_key.items():
                    groups.setdefault((end, key, start), []).append(some)
    for (end, _, start), parts in sorted(groups.items(), key=lambda group: group[0]):
        made = {name: _canonical(parts[0][0][name]) for name in node.key}
        said = {"window_start": start, "window_end": end}
        made |= {name: said[name] for name in node.window.columns}
        for name, aggregate in node.aggregates:
            made[name] = _aggregated(aggregate, parts, node.input)
        yield made, end - 1


def _repeated(node: n.WindowAggregate, rows: list[Timed]) -> Iterator[Timed]:
    """Results of windows that are given out at several moments, and with every so many rows.

    A row counts from the first moment that is behind its time and the watermark before it. At
    moments but the end only keys count that have rows since the moment before.
    """
    window, given, time = node.window, [], node.input.time
    members: dict[Any, list[tuple[int, Row]]] = {}  # of a window and key: first moment, and row

    def note(key: Any, start: int, end: int, moment: int, parts: list[list[Row]], early: bool):
        made = {name: _canonical(parts[0][0][name]) for name in node.key}
        said = {"window_start": start, "window_given": moment}
        said |= {"window_early": early, "window_updated": moment > end}
        made |= {name: said[name] for name in window.columns}
        for name, aggregate in node.aggregates:
            made[name] = _aggregated(aggregate, parts, node.input)
        given.append(((moment, key, not early), (made, moment - 1)))

    for row, watermark in rows:
        ((start, end),) = _windows_of(row[time], window)
        early = range(start + window.early, end, window.early) if window.early else ()
        moments = [*early, end, *([end + window.lateness] if window.lateness else [])]
        after = max(row[time], LOWEST if watermark is None else watermark)
        first = next(moment for moment in moments if moment > after)
        key = key_of(row, node.key)
        there = members.setdefault((key, start, end, tuple(moments)), [])
        there.append((first, row))
        if window.rows and first <= end and len(there) % window.rows == 0:
            note(key, start, end, end, [[other for _, other in there]], True)
    for (key, start, end, moments), there in members.items():
        for moment in moments:
            parts: dict[int, list[Row]] = {}
            for first, row in there:
                if first <= moment:
                    parts.setdefault(first, []).append(row)
            if moment in parts or (moment == end and parts):
                in_order = [parts[first] for first in sorted(parts)]
                note(key, start, end, moment, in_order, moment < end)
    yield from (timed for _, timed in sorted(given, key=lambda pair: pair[0]))


def _stream_join(node: n.WindowJoin, rows: list[Timed]) -> Iterator[Timed]:
    """All pairs; those of a window by its end, then by key. All of them come at the end here."""
    sides: tuple[list[Row], list[Row]] = ([], [])
    for row, _ in rows:
        sides[row[n.SIDE]].append(row)
    made: list[tuple[Any, Row]] = []
    paired: set[int] = set()

    def place(row: Row) -> tuple[int, int]:
        if isinstance(node.window, Interval):
            return 0, 0
        return _windows_of(row[n.SIDE_TIME], node.window)[0]

    def give(key_row: Row, left: Row | None, right: Row | None) -> None:
        start, end = place(key_row)
        pair = {name: _canonical(key_row[name]) for name in node.key}
        pair |= dict.fromkeys(node.window.columns, start)
        pair |= {name: left and left[name] for name in node.left}
        pair |= {name: right and right[name] for name in node.right}
        made.append(((end, key_of(key_row, node.key)), pair))

    for left in sides[0]:
        for right in sides[1]:
            apart = right[n.SIDE_TIME] - left[n.SIDE_TIME]
            if isinstance(node.window, Interval):
                near = -node.window.before <= apart <= node.window.after
            else:
                near = place(left) == place(right)
            nulls = any(left[name] is None for name in node.key)
            if near and not nulls and key_of(left, node.key) == key_of(right, node.key):
                paired |= {id(left), id(right)}
                give(left, left, right)
        if node.how != "inner" and id(left) not in paired:
            give(left, left, None)
    for right in sides[1] if node.how == "full" else []:
        if id(right) not in paired:
            give(right, None, right)
    for (end, _), pair in sorted(made, key=lambda pair: pair[0]):
        yield pair, end - 1


def _asof_join(node: n.AsOfJoin, rows: list[Timed]) -> Iterator[Timed]:
    """Rows on the left by time and key, each with the last row on the right up to then."""
    sides: tuple[list[Row], list[Row]] = ([], [])
    for row, _ in rows:
        sides[row[n.SIDE]].append(row)
    for left in sorted(sides[0], key=lambda row: (row[n.SIDE_TIME], key_of(row, node.key))):
        time, version = left[n.SIDE_TIME], None
        for right in sides[1]:
            nulls = any(left[name] is None for name in node.key)
            if nulls or key_of(left, node.key) != key_of(right, node.key):
                continue
            if right[n.SIDE_TIME] <= time and (
                version is None or right[n.SIDE_TIME] >= version[n.SIDE_TIME]
            ):
                version = right
        tolerance = node.window.kept
        if version and tolerance is not None and version[n.SIDE_TIME] < time - tolerance:
            version = None
        if version is None and node.how == "inner":
            continue
        made = {name: _canonical(left[name]) for name in node.key}
        made |= dict.fromkeys(node.window.columns, time + 1)
        made |= {name: left[name] for name in node.left}
        made |= {name: version and version[name] for name in node.right}
        yield made, time


def _timed_process(node: TimedProcess, rows: list[Row]) -> Iterator[Timed]:
    """Rows and timers by time and key, of one key timers before rows, each with the key's state."""
    waiting = sorted(rows, key=lambda row: (row[node.at], key_of(row, node.key)))
    states: dict[Any, SimpleNamespace] = {}
    used: dict[Any, int] = {}  # when each state was used last
    alarms: dict[Any, int] = {}  # the next timer of each key
    names = {}  # the columns of each key

    def due() -> list[Any]:
        return sorted((time, key) for key, time in alarms.items())[:1]

    def give(key: Any, time: int, function: Any, given: list[Any]) -> Iterator[Timed]:
        made = function.callable(states[key], *given)
        for results in made if function.is_generator else []:
            order = dict.fromkeys(node.window.columns, time + 1)
            yield {**names[key], **order, **_yielded(node, results)}, time

    def note(key: Any, time: int) -> None:
        used[key] = time
        set_for = [getattr(states[key], timer.field) for timer in node.timers]
        set_for = [max(moment, time + 1) for moment in set_for if moment is not None]
        alarms.pop(key, None)
        if set_for:
            alarms[key] = min(set_for)

    while waiting or alarms:
        row = waiting[0] if waiting else None
        if due() and (row is None or due()[0] <= (row[node.at], key_of(row, node.key))):
            time, key = due()[0]
            late = [getattr(states[key], timer.field) for timer in node.timers]
            for timer, moment in zip(node.timers, late, strict=True):
                if moment is None or moment > time or getattr(states[key], timer.field) is None:
                    continue
                if getattr(states[key], timer.field) > time:  # another timer has moved it
                    continue
                setattr(states[key], timer.field, None)
                known = {**names[key], node.at: time}
                given = [known[argument] for argument in timer.arguments]
                yield from give(key, time, timer.function, given)
        else:
            waiting.pop(0)
            time, key = row[node.at], key_of(row, node.key)
            names.setdefault(key, {name: _canonical(row[name]) for name in node.key})
            ttl = node.window.kept
            forgotten = ttl is not None and key not in alarms and used.get(key, time) + ttl <= time
            if key not in states or forgotten:
                states[key] = _first_state(node.state)
            yield from give(key, time, node.function, [row[name] for name in node.arguments])
        note(key, time)


def _running(node: n.Running, given: list[Timed]) -> Iterator[Timed]:
    """What aggregates are with each row, over all rows of its key so far, or since the last ones
    were given."""
    seen: dict[Any, list[Row]] = {}
    for row, watermark in given:
        members = seen.setdefault(key_of(row, node.key), [])
        members.append(row)
        if not node.every or len(members) == node.every:
            made = {name: row[name] for name in node.carry}
            for name, aggregate in node.aggregates:
                if name in node.schema:
                    made[name] = _aggregated(aggregate, [members], node.input)
            yield made, watermark
        if len(members) == node.every:
            members.clear()


def _sessions(node: n.WindowAggregate, rows: list[Timed]) -> dict[Any, list[list[Row]]]:
    """The sessions of each key; parts of a session are its rows by multiples of the gap."""
    gap, time, groups = node.window.gap, node.input.time, {}
    by_key: dict[Any, list[Row]] = {}
    for row, _ in rows:
        by_key.setdefault(key_of(row, node.key), []).append(row)
    for key, members in by_key.items():
        sessions: list[list[Row]] = []
        for row in sorted(members, key=lambda row: row[time]):
            if not sessions or row[time] - sessions[-1][-1][time] >= gap:
                sessions.append([])
            sessions[-1].append(row)
        for session in sessions:
            start, end = session[0][time], session[-1][time] + gap
            parts: dict[int, list[Row]] = {}
            for row in members:  # in the order in which they came
                if start <= row[time] < end:
                    parts.setdefault(row[time] // gap, []).append(row)
            groups[end, key, start] = [parts[number] for number in sorted(parts)]
    return groups


def _canonical(value: Any) -> Any:
    return 0.0 if isinstance(value, float) and value == 0.0 else value


def _aggregated(aggregate: e.Aggregate, parts: list[list[Row]], source: n.Node) -> Any:
    """An aggregate over the rows of a window, which come in parts."""
    if aggregate.operand is None:
        return sum(map(len, parts))
    schema, operand = source.schema, aggregate.operand
    rows = [row for part in parts for row in part]
    found = [(evaluate(operand, row.__getitem__, schema), row) for row in rows]
    values = [value for value, _ in found if value is not None]
    match aggregate.kind:
        case "count":
            return len(values)
        case "count_distinct" | "approx_count_distinct":
            return len({order(value) for value in values})
        case "user":
            return _by_functions(aggregate.argument, values)
        case "variance" | "stddev":
            return _spread(aggregate, values)
        case "collect" | "top_k" | "gather":
            return _listed(aggregate, schema, found)
    if not values:
        return None
    match aggregate.kind:
        case "min":
            return min(values, key=order)
        case "max":
            return max(values, key=order)
        case "quantile":
            ordered = sorted((float(value) for value in values), key=order)
            return ordered[math.floor(aggregate.argument.share * (len(values) - 1))]
        case "first" | "last":
            timed = [(row[source.time], value) for value, row in found if value is not None]
            timed = [pair for pair in timed if pair[0] is not None]
            if not timed:
                return None
            if aggregate.kind == "first":
                return min(timed, key=lambda pair: pair[0])[1]
            return max(reversed(timed), key=lambda pair: pair[0])[1]
    if type_of(operand, schema).is_integer:
        if aggregate.kind == "mean":
            return float(sum(values)) / len(values)
        return functools.reduce(lambda a, b: _whole(a + b), values, 0)
    total = 0.0
    for part in parts:
        given = [evaluate(operand, row.__getitem__, schema) for row in part]
        total += functools.reduce(lambda a, b: a + b, [x for x in given if x is not None], 0.0)
    return total if aggregate.kind == "sum" else total / len(values)


def _listed(aggregate: e.Aggregate, schema: Schema, found: list[tuple[Any, Row]]) -> list[Any]:
    """Values in their order, cut off at the limit, or an error."""
    ranks = [aggregate.by and evaluate(aggregate.by, row.__getitem__, schema) for _, row in found]
    ranked = [(rank, value) for rank, (value, _) in zip(ranks, found, strict=True)]
    if aggregate.kind != "gather":
        ranked = [pair for pair in ranked if pair[1] is not None]
    ranked = [pair for pair in ranked if aggregate.by is None or pair[0] is not None]
    limit = aggregate.argument
    if limit.fails and len(ranked) > limit.most:
        raise ValueError("there are more values than the limit of the list")
    if aggregate.kind != "top_k":
        ranked.sort(key=lambda pair: pair[0] or 0)
    else:
        ranked.sort(key=lambda pair: (order(pair[0]), order(pair[1])), reverse=True)
    return [value for _, value in ranked][: limit.most]


def _by_functions(custom: Any, values: list[Any]) -> Any:
    state = custom.initial
    for value in values:
        made = custom.add.callable(*state, value)
        state = made if isinstance(made, tuple) else (made,)
    return custom.result.callable(*state)


def _spread(aggregate: e.Aggregate, values: list[Any]) -> float | None:
    if len(values) <= aggregate.argument:
        return None
    mean = math.fsum(values) / len(values)
    made = math.fsum((value - mean) ** 2 for value in values) / (len(values) - aggregate.argument)
    return made if aggregate.kind == "variance" else math.sqrt(made)


# ---- expressions ---------------------------------------------------------------------------


def evaluate(x: e.Expression, row: Lookup, schema: Schema) -> Any:
    """The value of an expression; `row` gives the value of a column."""
    match x:
        case e.Column(name):
            return row(name)
        case e.Literal(value, kind):
            return float(value) if kind.is_float and value is not None else value
        case e.IsNull(operand):
            return evaluate(operand, row, schema) is None
        case e.Coalesce(operand, other):
            first = evaluate(operand, row, schema)
            chosen = evaluate(other, row, schema) if first is None else first
            return _alternative(chosen, x, schema)
        case e.When(conditions, values, otherwise):
            for condition, value in zip(conditions, values, strict=True):
                if evaluate(condition, row, schema) is True:
                    return _alternative(evaluate(value, row, schema), x, schema)
            if otherwise is None:
                return None
            return _alternative(evaluate(otherwise, row, schema), x, schema)
        case e.Binary(("&" | "|") as op, left, right):
            decides = op == "|"  # True decides an or, False an and
            first = evaluate(left, row, schema)
            if first is decides:
                return decides
            second = evaluate(right, row, schema)
            if second is decides:
                return decides
            return None if first is None or second is None else not decides
        case e.Call(function, operands, result):
            arguments = [evaluate(operand, row, schema) for operand in operands]
            return _results(function.callable(*arguments), function.outputs)[result]
        case e.Extreme(op, parts):
            found = [_alternative(evaluate(part, row, schema), x, schema) for part in parts]
            found = [value for value in found if value is not None]
            return None if not found else (min if op == "least" else max)(found, key=order)
    operands = [evaluate(part, row, schema) for part in x.parts() if not _is_choice(x, part)]
    if any(value is None for value in operands):
        return None
    kinds = [type_of(part, schema) for part in x.parts()]
    match x:
        case e.Binary(op):
            return _binary(op, *operands, kinds, type_of(x, schema))
        case e.Unary("~"):
            return not operands[0]
        case e.Unary(op):
            value = float(operands[0]) if kinds[0].is_float else operands[0]
            value = -value if op == "-" else abs(value)
            return value if kinds[0].is_float else _whole(value)
        case e.Cast(_, kind, strict):
            try:
                return cast(operands[0], kinds[0], kind)
            except (ValueError, OverflowError):
                if strict:
                    raise
                return None
        case e.IsIn(_, choices):
            return any(_compare("==", operands[0], choice.value) for choice in choices)
        case e.Builtin(op, _, zone):
            return _builtin(op, operands, kinds, zone, type_of(x, schema))
    raise TypeError(f"{x!r} is no expression that users write")


def _is_choice(x: e.Expression, part: e.Expression) -> bool:
    return isinstance(x, e.IsIn) and part is not x.operand


def _builtin(
    op: str, operands: list[Any], kinds: list[DataType], zone: str, result: DataType
) -> Any:
    if kinds[0].is_time:
        return functions.of_time(op, operands[0], operands[1:], kinds[0], zone)
    if op == "power":
        return functions.power(*operands, result.is_integer)
    if op == "total":
        return functions.total(*operands)
    return {**functions.NUMBERS, **functions.STRINGS}[op](*operands)


def _alternative(value: Any, x: e.Expression, schema: Schema) -> Any:
    """One of several values, in the type they have together."""
    return float(value) if value is not None and type_of(x, schema).is_float else value


def _whole(value: int, low: int = LOWEST, high: int = HIGHEST) -> int:
    if not low <= value <= high:
        raise OverflowError("does not fit")
    return value


def _compare(op: str, a: Any, b: Any) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        a, b = float(a), float(b)
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    return {
        "==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b
    }[op]  # fmt: skip


def _binary(op: str, a: Any, b: Any, kinds: list[DataType], result: DataType) -> Any:
    if op in e.COMPARISONS:
        return _compare(op, a, b)
    if result.is_float:
        a, b = float(a), float(b)
        if op in ("/", "//", "%") and b == 0.0:
            raise ZeroDivisionError("division by zero")
        return {
            "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b,
            "/": lambda: a / b, "//": lambda: a // b, "%": lambda: a % b,
        }[op]()  # fmt: skip
    if (kinds[0].name, kinds[1].name) == ("date", "duration"):
        b //= DAY
    made = {
        "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b,
        "//": lambda: a // b, "%": lambda: a % b,
    }[op]()  # fmt: skip
    return cast(_whole(made), None, result)


def cast(value: Any, source: DataType | None, kind: DataType) -> Any:
    """A value in another type; what does not fit is an error."""
    if source is not None and source.name != kind.name:
        if kind.name == "string":
            return functions.written(value, source)
        if source.name == "string" and kind.name != "binary":
            return cast(functions.read(value, kind), None, kind)
    if kind.name == "bool":
        return bool(value)
    if kind.name == "float32":
        return _float32(float(value))
    if kind.is_float:
        return float(value)
    if kind.name == "binary" and isinstance(value, str):
        return value.encode()
    if kind.is_text:
        return value
    if source is not None and (source.name, kind.name) == ("timestamp", "date"):
        return value // DAY
    if source is not None and (source.name, kind.name) == ("date", "timestamp"):
        return _whole(value * DAY)
    if isinstance(value, float):  # int() raises for infinity (OverflowError) and NaN (ValueError)
        value = _whole(int(value))
    if kind.name in ("timestamp", "duration"):
        return _whole(int(value))
    if kind.name.startswith("uint"):
        return _whole(int(value), 0, (1 << int(kind.name.removeprefix("uint"))) - 1)
    bits = 32 if kind.name == "date" else int(kind.name.removeprefix("int"))
    return _whole(int(value), -(1 << bits - 1), (1 << bits - 1) - 1)


def _float32(value: float) -> float:
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
