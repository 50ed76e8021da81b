"""Event time made physical: clocks at the sources, and a test for late rows before windows.

The watermark of a channel is a function of its rows alone, so its source computes it and every row
carries the watermark of its channel just before it, in a hidden column, to the windows that need
it. Whether a row is late is then a property of the row, whatever blocks, batches and workers do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..connector import is_unordered
from ..dedup import DedupWithin
from ..derive import time_expression
from ..errors import PipelineError
from ..expressions import Aggregate, Binary, Column, Expression, Literal, When
from ..graph import consumers, transform, walk
from ..nodes import (
    COUNTED,
    PANE,
    WATERMARK,
    Aside,
    Clock,
    Filter,
    FlatMap,
    KeyBy,
    Late,
    MapBatches,
    Node,
    OnTime,
    Process,
    Sink,
    Source,
    TableJoin,
    Union,
    Watermark,
    Windowed,
    extended,
    visible,
)
from ..rebalance import Rebalance
from ..schema import Field
from ..types import int64
from ..windows.base import Window
from .carrying import carry, only

CARRIED, PANED = Field(WATERMARK, int64), Field(PANE, int64)


def place_clocks(roots: Sequence[Node]) -> list[Node]:
    """Sources with clocks, OnTime before every window; no Watermark and KeyBy any more."""
    clocks = _clocks(roots)
    needed = _carriers(roots)
    on_time: dict[int, OnTime] = {}  # of each window, for its late rows

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        carries = id(node) in needed
        match node:
            case Source():
                clock = clocks.get(id(node))
                schema = extended(node.schema, CARRIED) if carries else node.schema
                return replace(node, clock=clock, schema=schema)
            case KeyBy() | Watermark():
                return inputs[0]
            case Late():
                return replace(node, inputs=(on_time[id(node.input)],))
            case Windowed():
                test = _on_time(node, inputs[0])
                on_time[id(node)] = test
                # results leave when the watermark has come to their end: it is just before that
                schema = extended(node.schema, CARRIED) if carries else node.schema
                return replace(
                    node,
                    inputs=(test,),
                    rows=test.schema,
                    schema=schema,
                    aggregates=node.aggregates + _measures(node),
                )
            case Sink() | MapBatches() | Filter() | TableJoin() | Union() | Rebalance() if (
                not carries
            ):
                # rows as the user knows them, for a reader whose rows reach no window
                sides = [
                    only(side, visible(side.schema).names, node, k) for k, side in enumerate(inputs)
                ]
                return node.with_inputs(*sides)
            case _ if carries:
                return carry(node, inputs, CARRIED)
        return node.with_inputs(*inputs)

    return transform(roots, change)


def _on_time(node: Windowed, source: Node) -> OnTime:
    return OnTime(
        (source,),
        extended(visible(source.schema), PANED),
        f"{node.name}.on_time",
        site=node.site,
        key=source.key,
        time=node.input.time if node.window.uses_time else None,
        window=node.window,
        latest=_latest(node) if node.window.uses_time else None,
    )


def _measures(node: Windowed) -> tuple[tuple[str, Aggregate], ...]:
    """What a kind of windows has to know of rows and their times, as aggregates."""
    time = Column(node.input.time or "")
    made = tuple((name, Aggregate(kind, time)) for name, kind in node.window.measures)
    return (*made, (COUNTED, Aggregate("count"))) if node.window.rows else made


def _clocks(roots: Sequence[Node]) -> dict[int, Clock]:
    """id of a source -> its clock."""
    found: dict[int, tuple[Clock, Watermark]] = {}
    below = _windows_below(roots)
    for node in walk(roots):
        if not isinstance(node, Watermark):
            continue
        windows, exact = below[id(node)]
        for source, time in time_expression(node.input, node.column):
            time = _believed(time, node)
            steady = is_unordered(source.connector)
            clock = Clock(time, node.bound, windows, exact, node.site, steady)
            known = found.get(id(source))
            if known is not None and (known[0].time, known[0].bound) != (time, node.bound):
                raise PipelineError(
                    f"{source.written} would have two watermarks",
                    operator=node.written,
                    site=node.site,
                    fix=f"the other one is at {known[1].site!r}: call with_watermark once, "
                    "before the stream branches",
                )
            if known is not None:
                both = tuple(dict.fromkeys(known[0].windows + windows))
                clock = replace(clock, windows=both, exact=exact or known[0].exact)
            found[id(source)] = clock, node
    return {source: clock for source, (clock, _) in found.items()}


def _believed(time: Expression, node: Watermark) -> Expression:
    """The time that moves a watermark: null, which does not, where it is beyond the latest."""
    if node.latest is None:
        return time
    latest = Literal(node.latest, node.schema[node.column].required)
    return When((Binary("<=", time, latest),), (time,), None)


def _latest(node: Node) -> int | None:
    """The latest time that the rows of an operator may have."""
    known = [n.latest for n in walk([node]) if isinstance(n, Watermark) and n.latest is not None]
    return min(known, default=None)


def _windows_below(roots: Sequence[Node]) -> dict[int, tuple[tuple[Window, ...], bool]]:
    """For each node the windows its rows reach, and whether a function may change their time."""
    readers = consumers(roots)
    found: dict[int, tuple[tuple[Window, ...], bool]] = {}
    for node in reversed(list(walk(roots))):
        windows: list[Window] = []
        exact = False
        for reader in readers.get(id(node), ()):
            if isinstance(reader, Windowed):
                if reader.window.uses_time:
                    windows.append(reader.window)
            elif not isinstance(reader, Aside):
                if isinstance(reader, DedupWithin):
                    windows.append(reader.window)
                more, strict = found[id(reader)]
                windows.extend(more)
                exact |= strict or (isinstance(reader, FlatMap | Process) and bool(more))
        found[id(node)] = tuple(dict.fromkeys(windows)), exact
    return found


def _carriers(roots: Sequence[Node]) -> set[int]:
    """The nodes whose rows reach a window: they carry the watermark of each row."""
    readers = consumers(roots)
    found: set[int] = set()
    for node in reversed(list(walk(roots))):
        for reader in readers.get(id(node), ()):
            if isinstance(reader, Windowed):
                reaches = reader.window.uses_time
            else:
                reaches = id(reader) in found or isinstance(reader, DedupWithin)
                reaches = reaches and not isinstance(reader, Aside)
            if reaches:
                found.add(id(node))
    return found
