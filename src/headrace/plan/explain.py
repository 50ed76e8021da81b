"""A plan as text, for people."""

from __future__ import annotations

from collections.abc import Sequence

from .by_column import Columnwise
from .fusion import chains, is_stateless
from .graph import consumers, walk
from .nodes import OWNERS, Exchange, Node, OperatorClass, Received, Sink, WindowAggregate, said_key
from .planner import Plan, StagePlan
from .rewrites.orders import is_mixed, promised, said_order
from .rewrites.owners import is_collected
from .schema import Schema


def render(roots: Sequence[Node]) -> str:
    """The operators below some roots as trees, one line each, inputs indented below.

    A line has the operator's name (or kind and number), its class, what it does, its columns, its
    key and time, and the user's line. A node with several readers is shown once; further readers
    refer to it.

    >>> from .schema import Schema
    >>> from .nodes import Filter, Source
    >>> from .expressions import Column
    >>> source = Source((), Schema.of({"a": bool}), "events", connector="memory")
    >>> print(render([Filter((source,), source.schema, "", predicate=Column("a"))]))
    filter-1 [SL] a  -> a: bool
    └─ events (source) [SL] memory  -> a: bool
    """
    labels = _labels(roots)
    readers = consumers(roots)
    shared = {node for node, found in readers.items() if len(found) > 1}
    shared |= {id(root) for root in roots if id(root) in readers}
    shown: set[int] = set()
    lines: list[str] = []
    for root in roots:
        # (node, what stands before it, what stands before its inputs)
        stack = [(root, "", "")]
        while stack:
            node, before, below = stack.pop()
            if id(node) in shown:
                lines.append(f"{before}{labels[id(node)]} (shown above)")
                continue
            mark = " (shared)" if id(node) in shared else ""
            lines.append(f"{before}{_line(node, labels[id(node)], mark)}")
            shown.add(id(node))
            last = len(node.inputs) - 1
            for number in range(last, -1, -1):
                corner, bar = ("└─ ", "   ") if number == last else ("├─ ", "│  ")
                stack.append((node.inputs[number], below + corner, below + bar))
    return "\n".join(lines)


def _labels(roots: Sequence[Node]) -> dict[int, str]:
    """Each node's own name, or its kind and number among those without a name."""
    labels: dict[int, str] = {}
    numbers: dict[str, int] = {}
    for node in walk(roots):
        if node.name:
            labels[id(node)] = f"{node.name} ({node.kind})"
        else:
            numbers[node.kind] = numbers.get(node.kind, 0) + 1
            labels[id(node)] = f"{node.kind}-{numbers[node.kind]}"
    return labels


def _line(node: Node, label: str, mark: str) -> str:
    parts = [f"{label}{mark} [{_class(node).value}]"]
    if node.detail():
        parts.append(node.detail())
    if node.tolerates:
        parts.append(f"(on error: {node.on_error})")
    said = " ".join(parts) + f"  -> {_columns(node.schema)}"
    if node.key:
        said += f" | key {said_key(node)}"
    if node.time is not None:
        said += f" | time {node.time}"
    if node.site is not None:
        said += f"  @ {node.site.file}:{node.site.line}"
    return said


def _class(node: Node) -> OperatorClass:
    """Its class; a window without a key has one owner."""
    if isinstance(node, WindowAggregate) and not node.key:
        return OperatorClass.STATEFUL
    return node.operator_class


def _columns(schema: Schema) -> str:
    return ", ".join(map(repr, schema))


def explain_plan(plan: Plan, *, owned: bool = False) -> str:
    """A plan as it was written, as it was rewritten, and as it is cut into stages and kernels.

    owned: for several workers of the node engine, whose keyed stages have several owners.
    """
    parts = [
        "As written",
        render(plan.logical),
        "",
        "Rewritten",
        render(plan.optimized),
        "",
        f'Stages (fuse="{plan.fuse}")',
    ]
    for stage in plan.owned_stages() if owned else plan.stages():
        parts.extend(_stage_lines(stage, owned))
    return "\n".join([*parts, "", "Order of rows", *_orders(plan)])


def _orders(plan: Plan) -> list[str]:
    """In which order each sink sees rows, on each engine."""
    on_spark, lines = plan.orders_on_spark(), []
    for node in plan.optimized:
        if isinstance(node, Sink):
            here, there = said_order(promised(node)), said_order(on_spark[node.name])
            asked = f'ordering="{node.ordering}"' if node.ordering else "as no ordering was asked"
            lines.append(f"  {node.name}: {here} on threads, {there} on Spark ({asked})")
    return lines


def _copies(stage: StagePlan) -> str:
    """How many copies of a stage run, and why."""
    if stage.is_replicated:
        return "replicated: it reads sources, so every worker runs a copy on its own splits"
    if stage.has_parts:
        queue = f"a {stage.partitioning} queue"
        return f"one copy: workers share the key groups of its state by {queue}"
    if stage.is_owned:
        owned = "owned: it keeps state by key, so every owner of key groups runs a copy"
        asked = stage.partitioning != OWNERS
        return f"{owned}; no {stage.partitioning} queue: {stage.needs_owners}" if asked else owned
    if stage.is_shared:
        return "one copy: its workers share the rows anew"
    received = [node for node in stage.inputs if isinstance(node, Received)]
    if len(received) > 1:
        return "one copy: several inputs meet in it"
    return "one copy: its rows have an order, and no key to share them by"


def _degree(stage: StagePlan, chain: Sequence[Node]) -> str:
    """On how many workers a kernel of a stage with one copy may run at once."""
    if stage.is_replicated or stage.is_owned:
        return ""
    if stage.has_parts:
        return ", on as many workers at once as there are key groups, its rows in order"
    if is_stateless(chain) and stage.width != 1:
        most = "any number of" if stage.width is None else f"up to {stage.width}"
        return f", on {most} workers at once, its rows in order"
    return ", on one worker at a time"


def _gathered(node: Node) -> str:
    """How the rows of owners come together."""
    if is_collected(node):
        return "as they come"
    order = node.order if isinstance(node, Exchange) else ()
    return f"by {', '.join(order) or 'place in the input'}"


def _stage_lines(stage: StagePlan, owned: bool) -> list[str]:
    lines = [f"stage {stage.number}, {_copies(stage)}"]
    for node in stage.inputs:
        lines.append(f"  in      {node.name}: {node.detail()}")
    for chain in chains(stage.roots, stage.fuse):
        degree = _degree(stage, chain) if owned else ""
        lines.append(f"  kernel  {' -> '.join(node.name for node in chain)}{degree}")
    for node in walk(stage.roots):
        if isinstance(node, Columnwise):
            lines.append(f"  columns {node.name}: {node.detail()}")
    for node in stage.roots:
        order = ""
        if stage.is_owned:
            order = f", brought together {_gathered(node)}"
        elif stage.is_replicated and owned and is_mixed(node):
            order = ", as it comes"
        lines.append(f"  out     {node.name}: {node.detail()}{order}, {_columns(node.schema)}")
    return lines
