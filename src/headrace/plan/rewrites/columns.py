"""Functions that no kernel computes get a step of their own in front of the operator that uses
them, which then reads their results as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..by_column import ArrowColumns, Computation, is_by_column, uses_columns
from ..expression_types import type_of
from ..expressions import Builtin, Column, Expression
from ..graph import transform
from ..nodes import Filter, Late, Node, Project, Running, WindowAggregate, extended
from ..schema import HIDDEN_PREFIX, Field, Schema


def compute_columns(roots: Sequence[Node]) -> list[Node]:
    """An ArrowColumns in front of each filter and projection that needs one."""

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        made = node.with_inputs(*inputs)
        if isinstance(made, Filter) and uses_columns(made.predicate):
            return _only(_lifted(made), made.schema)
        if isinstance(made, Project) and any(map(uses_columns, expressions_of(made))):
            return _lifted(made)
        return made

    return transform(roots, change)


def lift_operands(roots: Sequence[Node]) -> list[Node]:
    """What a window aggregates is a column where it needs such a function, as if the user had
    written it with with_columns. Late rows stay without it."""
    lifted: set[int] = set()

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        made = node.with_inputs(*inputs)
        if isinstance(made, WindowAggregate | Running):
            operands = [operand for _, a in made.aggregates for operand in a.operands()]
            found = [operand for operand in operands if uses_columns(operand)]
            if found:
                lifted.add(id(node))
                return _over_columns(made, found)
        if isinstance(made, Late) and id(node.inputs[0]) in lifted:
            rows = replace(made, schema=made.input.inputs[0].schema)
            return _only(rows, node.schema)
        return made

    return transform(roots, change)


def _over_columns(
    node: WindowAggregate | Running, operands: Sequence[Expression]
) -> WindowAggregate | Running:
    names = {
        e: f"{HIDDEN_PREFIX}operand_{k}" for k, e in enumerate(dict.fromkeys(operands), start=1)
    }
    below = _project(node.input, names, f"{node.name}.operands", node)

    def lifted(operand: Expression | None) -> Expression | None:
        return Column(names[operand]) if operand in names else operand

    aggregates = tuple(
        (column, replace(a, operand=lifted(a.operand), by=lifted(a.by)))
        for column, a in node.aggregates
    )
    return replace(node, inputs=(below,), aggregates=aggregates)


def _project(source: Node, names: Mapping[Expression, str], name: str, node: Node) -> Project:
    """The rows with more columns."""
    kept: list[tuple[str, Expression]] = [
        (column, Column(column)) for column in source.schema.names
    ]
    made = [(column, expression) for expression, column in names.items()]
    fields = [Field(column, type_of(e, source.schema)) for column, e in made]
    return Project(
        (source,),
        extended(source.schema, *fields),
        name,
        site=node.site,
        key=source.key,
        time=source.time,
        columns=(*kept, *made),
    )


def _lifted(node: Filter | Project) -> Filter | Project:
    """The operator over layers of computed columns, one for each level of functions in another."""
    layer = 1
    while any(map(uses_columns, expressions_of(node))):
        node = _lift(node, layer)
        layer += 1
    return node


def expressions_of(node: Filter | Project) -> list[Expression]:
    """The expressions of an operator."""
    return [node.predicate] if isinstance(node, Filter) else [e for _, e in node.columns]


def _innermost(expression: Expression) -> Iterator[Builtin]:
    """The functions over whole columns whose operands need none."""
    if is_by_column(expression) and not any(map(uses_columns, expression.parts())):
        assert isinstance(expression, Builtin)
        yield expression
        return
    for part in expression.parts():
        yield from _innermost(part)


@dataclass
class _Lifted:
    """What is computed in front of an operator, under names that no column has."""

    schema: Schema
    operands: dict[Expression, str] = field(default_factory=dict)
    results: dict[Expression, tuple[str, Builtin]] = field(default_factory=dict)

    def add(self, call: Builtin) -> None:
        if call in self.results:
            return
        value, *constants = call.operands
        if not isinstance(value, Column):
            value = Column(self.operands.setdefault(value, self._name("operand")))
        column = replace(call, operands=(value, *constants))
        self.results[call] = self._name(call.op), column

    def _name(self, said: str) -> str:
        taken = {
            *self.schema.names,
            *self.operands.values(),
            *(n for n, _ in self.results.values()),
        }
        return next(n for k in range(1, 10**6) if (n := f"{HIDDEN_PREFIX}{said}_{k}") not in taken)

    def put(self, expression: Expression) -> Expression:
        """An expression that reads the results."""
        found = self.results.get(expression)
        return Column(found[0]) if found else expression.rebuild(self.put)


def _lift(node: Filter | Project, layer: int) -> Filter | Project:
    """One layer of functions computed in front of an operator."""
    source = node.input
    number = "" if layer == 1 else f"_{layer}"
    lifted = _Lifted(source.schema)
    for expression in expressions_of(node):
        for call in _innermost(expression):
            lifted.add(call)
    below: Node = source
    if lifted.operands:
        below = _project(source, lifted.operands, f"{node.name}.operands{number}", node)
    calls = tuple(lifted.results.values())
    fields = [Field(name, type_of(call, below.schema)) for name, call in calls]
    below = ArrowColumns(
        (below,),
        extended(below.schema, *fields),
        f"{node.name}.columns{number}",
        site=node.site,
        key=source.key,
        time=source.time,
        function=Computation(calls, f"{node.written}\n  at {node.site!r}"),
        columns=calls,
    )
    if isinstance(node, Filter):
        predicate = lifted.put(node.predicate)
        return replace(node, inputs=(below,), schema=below.schema, predicate=predicate)
    columns = tuple((name, lifted.put(made)) for name, made in node.columns)
    return replace(node, inputs=(below,), columns=columns)


def _only(node: Node, schema: Schema) -> Project:
    """The rows without what was computed for the filter."""
    return Project(
        (node,),
        schema,
        f"{node.name}.rows",
        site=node.site,
        key=node.key,
        time=node.time,
        columns=tuple((name, Column(name)) for name in schema.names),
    )
