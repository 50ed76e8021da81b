"""The logical plan: one frozen node per operator, joined by their inputs.

A node is compared by identity: two equal filters of one stream are two operators. Checks live in
`build.py`, which makes nodes from what users write; rewrites make nodes directly.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from .expressions import Aggregate, Expression
from .functions import Function, Output
from .partition import Partition
from .schema import HIDDEN_PREFIX, Field, Schema
from .site import Site
from .windows.base import Window

WATERMARK = f"{HIDDEN_PREFIX}watermark"  # the watermark of its channel just before a row
TIME = f"{HIDDEN_PREFIX}time"  # the event time, where the source computes it
KEY_HASH = f"{HIDDEN_PREFIX}hash"  # the hash of the key, behind an exchange
PLACE = f"{HIDDEN_PREFIX}place"  # the place of a row among all that cross an exchange
PANE = f"{HIDDEN_PREFIX}pane"  # the pane of its window that a row enters
SIDE = f"{HIDDEN_PREFIX}side"  # of a join: is a row one of the right side?
SIDE_TIME = f"{HIDDEN_PREFIX}at"  # and its event time, whatever it is called there
ASIDE = f"{HIDDEN_PREFIX}aside"  # the number of the output that a row is for
COUNTED = f"{HIDDEN_PREFIX}rows"  # of a key since it began anew
HIDDEN = (WATERMARK, TIME, KEY_HASH, PLACE, PANE)

# What happens to a row that an operator fails on.
FAIL, SKIP, DEAD_LETTER = "fail", "skip", "dead_letter"
ERROR_OPERATOR, ERROR_MESSAGE = "error_operator", "error_message"  # columns of dead letters


# In which order a sink sees rows: as one worker would give them, those of each key so, or any.
TOTAL, KEY, NONE = ORDERINGS = ("total", "key", "none")
# How workers share the keys of an operator with state (Ordered §4.2, §4.3, §4.1).
OWNERS, HYBRID, SHARED = PARTITIONINGS = ("owners", "hybrid", "shared")


class OperatorClass(enum.Enum):
    """How far an operator can be parallel (Ordered, section 2)."""

    STATELESS = "SL"  # any number of workers
    PARTITIONED = "PS"  # one worker per key group
    STATEFUL = "SF"  # one worker


@dataclass(frozen=True)
class Clock:
    """How a source tells time: the watermark of a channel is the maximum so far minus `bound`.

    `exact` asks for the watermark of every row; otherwise rows that no window of `windows` can
    find late may carry any earlier watermark, which saves a pass over most blocks. `steady`: the
    rows have no order, so the watermark moves only where the host says that a batch is over.
    """

    time: Expression
    bound: int
    windows: tuple[Window, ...] = ()
    exact: bool = False
    site: Site | None = field(default=None, compare=False)
    steady: bool = False


@dataclass(frozen=True, eq=False)
class Node:
    """An operator: its inputs, the schema it gives, its key, and where the user wrote it.

    partition: of one that declares the key or keeps state by it: how keys lie in parts; None: by
    their hash.
    """

    inputs: tuple[Node, ...]
    schema: Schema
    name: str
    site: Site | None = field(default=None, kw_only=True)
    key: tuple[str, ...] = field(default=(), kw_only=True)
    partition: Partition | None = field(default=None, kw_only=True)
    time: str | None = field(default=None, kw_only=True)  # the event-time column, once declared
    on_error: str = field(default=FAIL, kw_only=True)

    kind: ClassVar[str] = "node"
    operator_class: ClassVar[OperatorClass] = OperatorClass.STATELESS

    @property
    def input(self) -> Node:
        """The only input."""
        (only,) = self.inputs
        return only

    @property
    def written(self) -> str:
        """The operator as the user wrote it, for errors: `with_columns`, or `map 'totals'`."""
        return self.site.operator if self.site is not None and self.site.operator else self.kind

    @property
    def tolerates(self) -> bool:
        """Does it leave out rows that it fails on?"""
        return self.on_error != FAIL

    def with_inputs(self, *inputs: Node) -> Node:
        """The same operator over other inputs of the same schema."""
        return self if inputs == self.inputs else replace(self, inputs=inputs)

    def detail(self) -> str:
        """What `explain()` says of it."""
        return ""


@dataclass(frozen=True, eq=False)
class Source(Node):
    """Rows from a connector (`plan.connector.Source`)."""

    connector: Any = None
    clock: Clock | None = None
    predicate: Expression | None = None  # a hint: what later filters keep
    kind: ClassVar[str] = "source"

    @property
    def given(self) -> Schema:
        """The columns that its connector gives."""
        return visible(self.schema)

    def detail(self) -> str:
        said = str(self.connector)
        if self.clock is not None:
            said += f", watermark {self.clock.time} - {self.clock.bound}"
        if self.predicate is not None:
            said += f", only where {self.predicate}"
        return said


@dataclass(frozen=True, eq=False)
class Filter(Node):
    """The rows for which a condition is true."""

    predicate: Expression = None  # type: ignore[assignment]
    kind: ClassVar[str] = "filter"

    def detail(self) -> str:
        return str(self.predicate)


@dataclass(frozen=True, eq=False)
class Project(Node):
    """New columns from the columns of each row: select, with_columns, drop, rename and map."""

    columns: tuple[tuple[str, Expression], ...] = ()
    kind: ClassVar[str] = "project"

    def detail(self) -> str:
        return ", ".join(
            name if str(made) == name else f"{name}={made}" for name, made in self.columns
        )


@dataclass(frozen=True, eq=False)
class FlatMap(Node):
    """Zero or more rows for each row; `carry` names input columns that go along with each."""

    function: Function = None  # type: ignore[assignment]
    arguments: tuple[str, ...] = ()
    carry: tuple[str, ...] = ()
    outputs: tuple[Output, ...] = ()
    kind: ClassVar[str] = "flat_map"

    def detail(self) -> str:
        return f"{self.function.name}({', '.join(self.arguments)})"


@dataclass(frozen=True, eq=False)
class Process(FlatMap):
    """Like flat_map, over a state record per key."""

    identity: str = ""
    kind: ClassVar[str] = "process"
    operator_class: ClassVar[OperatorClass] = OperatorClass.PARTITIONED

    def detail(self) -> str:
        return f"{super().detail()} by {', '.join(self.key)}"


@dataclass(frozen=True, eq=False)
class Limit(Process):
    """The first rows; with all of them in one place."""

    rows: int = 0
    kind: ClassVar[str] = "limit"

    def detail(self) -> str:
        return f"{self.rows} rows"


@dataclass(frozen=True, eq=False)
class Dedup(Process):
    """The first row of each key."""

    kind: ClassVar[str] = "dedup"

    def detail(self) -> str:
        return ", ".join(self.key)


@dataclass(frozen=True, eq=False)
class Union(Node):
    """The rows of all inputs."""

    kind: ClassVar[str] = "union"


@dataclass(frozen=True, eq=False)
class Branches(Node):
    """Of each row what branches make of it, one after the other (`rewrites/branches.py`)."""

    ways: tuple[tuple[Node, ...], ...] = ()
    kind: ClassVar[str] = "union"

    def detail(self) -> str:
        return " | ".join(" -> ".join(n.name for n in way) or "as it is" for way in self.ways)


@dataclass(frozen=True, eq=False)
class TableJoin(Node):
    """Each row with the row of a static table that has its key."""

    table: Any = None  # plan.table.Table
    left_on: tuple[str, ...] = ()
    right_on: tuple[str, ...] = ()
    how: str = "inner"
    taken: tuple[tuple[str, str], ...] = ()  # (table column, output name)
    kind: ClassVar[str] = "join"

    def detail(self) -> str:
        pairs = zip(self.left_on, self.right_on, strict=True)
        on = ", ".join(a if a == b else f"{a}={b}" for a, b in pairs)
        return f"{self.how}, {self.table} on {on}"


@dataclass(frozen=True, eq=False)
class KeyBy(Node):
    """Declares the key; moves nothing by itself."""

    kind: ClassVar[str] = "key_by"

    def detail(self) -> str:
        return said_key(self)


@dataclass(frozen=True, eq=False)
class Watermark(Node):
    """Declares the event-time column and how far rows may be out of order."""

    column: str = ""
    bound: int = 0
    latest: int | None = None  # times beyond it are taken for mistakes
    kind: ClassVar[str] = "watermark"

    def detail(self) -> str:
        until = "" if self.latest is None else f", up to {self.latest}"
        return f"{self.column} - {self.bound}{until}"


@dataclass(frozen=True, eq=False)
class Ordered(Node):
    """Declares in which order sinks behind it see rows; moves nothing by itself (`orders`)."""

    ordering: str = TOTAL
    kind: ClassVar[str] = "ordering"

    def detail(self) -> str:
        return self.ordering


@dataclass(frozen=True, eq=False)
class OnTime(Node):
    """Rows in panes of windows that are open by the watermark they carry; others are late rows."""

    window: Window = None  # type: ignore[assignment]
    latest: int | None = None  # rows with a time beyond it are late, too
    kind: ClassVar[str] = "on_time"

    def detail(self) -> str:
        return f"{self.time or 'rows'} in {self.window}"


@dataclass(frozen=True, eq=False)
class Windowed(Node):
    """What keeps records by key and pane until the watermark has come to the end of a window.

    phase: "complete" takes rows and gives results; "partial" gives accumulators, which "final"
    merges.
    """

    window: Window = None  # type: ignore[assignment]
    aggregates: tuple[tuple[str, Aggregate], ...] = ()
    phase: str = "complete"
    identity: str = ""
    rows: Schema = None  # type: ignore[assignment]  # what comes in, whatever the phase
    operator_class: ClassVar[OperatorClass] = OperatorClass.PARTITIONED


@dataclass(frozen=True, eq=False)
class WindowAggregate(Windowed):
    """Aggregates by key and window.

    sorted: are the results of a window given by key? Nobody may need it (`rewrites/orders.py`).
    """

    reproducible: bool = True
    sorted: bool = True
    kind: ClassVar[str] = "window"

    def detail(self) -> str:
        measures = {COUNTED, *dict(self.window.measures)}
        shown = [pair for pair in self.aggregates if pair[0] not in measures]
        made = ", ".join(f"{name}={aggregate}" for name, aggregate in shown)
        keys = ", ".join(self.key)
        phase = "" if self.phase == "complete" else f" ({self.phase})"
        return f"{made} by {keys or 'nothing'} in {self.window}{phase}"


@dataclass(frozen=True, eq=False)
class WindowJoin(Windowed):
    """Pairs of rows of two streams by key and window, from one stream of both (`SIDE`).

    left, right: the columns of each side. how: "inner", or with rows that have no partner: "left"
    or "full".
    """

    how: str = "inner"
    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    kind: ClassVar[str] = "window_join"

    def detail(self) -> str:
        return f"{self.how}, by {', '.join(self.key)} in {self.window}"


@dataclass(frozen=True, eq=False)
class AsOfJoin(WindowJoin):
    """Each row on the left with the last row of its key on the right, by event time."""

    kind: ClassVar[str] = "asof_join"

    def detail(self) -> str:
        within = "" if self.window == type(self.window)() else f" in {self.window}"
        return f"{self.how}, by {', '.join(self.key)}{within}"


@dataclass(frozen=True, eq=False)
class Running(Node):
    """Aggregates by key so far: `carry` of a row, and what they are with it.

    every: only each so many rows of a key, and then it begins anew; 0: with every row.
    """

    aggregates: tuple[tuple[str, Aggregate], ...] = ()
    carry: tuple[str, ...] = ()
    every: int = 0
    identity: str = ""
    rows: Schema = None  # type: ignore[assignment]  # the rows aggregated
    kind: ClassVar[str] = "running"
    operator_class: ClassVar[OperatorClass] = OperatorClass.PARTITIONED

    def detail(self) -> str:
        shown = [pair for pair in self.aggregates if pair[0] != COUNTED]
        made = ", ".join(f"{name}={aggregate}" for name, aggregate in shown)
        every = f" of every {self.every} rows" if self.every else ""
        return f"{made} by {', '.join(self.key) or 'nothing'}{every}"


@dataclass(frozen=True, eq=False)
class Aside(Node):
    """Rows that its input gives besides its own."""


@dataclass(frozen=True, eq=False)
class Late(Aside):
    """The late rows of its input, a WindowAggregate or (after planning) an OnTime."""

    kind: ClassVar[str] = "late"


@dataclass(frozen=True, eq=False)
class DeadLetters(Aside):
    """The rows that its input failed on, as they came to it, with the operator and the error."""

    kind: ClassVar[str] = "dead_letters"

    def with_inputs(self, *inputs: Node) -> Node:
        """See Node; the operator may have got others behind it."""
        (source,) = inputs
        while not source.tolerates:
            source = source.input
        return super().with_inputs(source)


@dataclass(frozen=True, eq=False)
class MapBatches(Node):
    """Any Python over Arrow record batches; takes the GIL.

    stateless: what it gives for a batch depends on that batch alone. max_in_flight: the most calls
    at a time; None: one, or if it is stateless as many as there are workers.
    """

    function: Callable[..., Any] = None  # type: ignore[assignment]
    stateless: bool = False
    max_in_flight: int | None = None
    kind: ClassVar[str] = "map_batches"

    def detail(self) -> str:
        return f"{getattr(self.function, '__name__', 'function')} (plain Python)"


@dataclass(frozen=True, eq=False)
class Exchange(Node):
    """Where rows change owner: by key, or (no key) to one owner.

    owned: the stage behind it has a copy for each owner of key groups. order: what the copies of
    the stage before it give is brought together by these columns; without any, by place.
    unordered: whoever reads it may have its rows in any order.
    """

    owned: bool = False
    order: tuple[str, ...] = ()
    unordered: bool = False
    kind: ClassVar[str] = "exchange"

    def detail(self) -> str:
        return f"by {said_key(self)}" if self.key else "to one owner"


@dataclass(frozen=True, eq=False)
class Received(Node):
    """The far side of an exchange: rows that another stage sent."""

    exchange: int = 0  # its number in the plan
    owned: bool = False  # see Exchange
    kind: ClassVar[str] = "received"

    def detail(self) -> str:
        return f"exchange {self.exchange}"


@dataclass(frozen=True, eq=False)
class Sink(Node):
    """Rows leave to a connector (`plan.connector.Sink`).

    ordering: the order that was asked for; "": none was, so it is what the engine gives.
    """

    connector: Any = None
    ordering: str = ""
    kind: ClassVar[str] = "sink"

    def detail(self) -> str:
        return str(self.connector)


Stateful = Process | Windowed | Running


def said_key(node: Node) -> str:
    """The key of an operator, and how keys lie in parts where it is not by their hash."""
    said = ", ".join(node.key)
    return said if node.partition is None else f"{said}, by {node.partition}"


def visible(schema: Schema) -> Schema:
    """A schema without its hidden columns."""
    return Schema(tuple(f for f in schema if f.name not in HIDDEN))


def extended(schema: Schema, *more: Field) -> Schema:
    """A schema with columns added behind."""
    return Schema((*schema.fields, *more))
