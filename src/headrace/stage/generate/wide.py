"""Rows of many columns: most of them are written group by group, each by a function of its own.

Compilers take longer than in proportion for a function that is longer. So where rows have more
than some tens of columns, `rows` leaves them to functions of some tens each. Columns that cannot
fail are written for all rows that the loop is about to take; what can fail, and strings, whose
bytes may fill a block at any row, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.plan.expression_types import can_fail
from headrace.plan.expressions import Expression, RowPlace, columns_of
from headrace.plan.nodes import WATERMARK, Node, Project

from ..blocks.layout import Layout
from ..task import MAIN
from .context import Context, bind_columns, write_column
from .steps import apply_steps
from .writer import Writer

GROUP_COLUMNS = 64  # that one function writes
LEAST_COLUMNS = 2 * GROUP_COLUMNS  # below it, one loop over the rows does it all


@dataclass(frozen=True)
class Group:
    """Columns of the output that a function `columns_<number>` writes."""

    number: int
    names: tuple[str, ...]
    is_safe: bool  # can its columns be written for rows to which the loop may not come?

    def call(self, position: str, taken: str) -> str:
        """Code that writes the columns of so many rows."""
        return f"columns_{self.number}(task_address, {position}, {taken}, written)"


def column_groups(context: Context, nodes: Sequence[Node]) -> list[Group]:
    """The columns of the output that are written group by group; none where rows are not wide.

    nodes: what is done in the row loop. Every row that it takes must become one of the output.
    """
    schema = context.chain.last.schema
    projects = [node for node in nodes if isinstance(node, Project)]
    if len(schema) < LEAST_COLUMNS or len(projects) < len(nodes):
        return []
    inputs = frozenset(context.chain.input.names) - {WATERMARK}
    alone = _kept(projects, inputs, lambda e, node: not isinstance(e, RowPlace))
    safe = _kept(projects, inputs, lambda e, node: not can_fail(e, node.input.schema)) & alone
    safe -= {field.name for field in schema if field.type.is_view}
    made: list[Group] = []
    for names, is_safe in ((safe, True), (alone - safe, False)):
        ordered = [name for name in schema.names if name in names]
        for k in range(0, len(ordered), GROUP_COLUMNS):
            made.append(Group(len(made), tuple(ordered[k : k + GROUP_COLUMNS]), is_safe))
    _leave_to(context, projects, made)
    return made


def _kept(
    projects: Sequence[Project],
    names: frozenset[str],
    holds: Callable[[Expression, Project], bool],
) -> frozenset[str]:
    """The columns behind projections for which something holds, and for all that they come from."""
    for node in projects:
        names = frozenset(n for n, e in node.columns if columns_of(e) <= names and holds(e, node))
    return names


def _leave_to(context: Context, projects: Sequence[Project], groups: Sequence[Group]) -> None:
    """The loop need not compute what groups compute."""
    wanted = context.apart = frozenset().union(*(group.names for group in groups))
    for node in reversed(projects):
        context.computed_apart[node] = wanted
        wanted = frozenset().union(*(columns_of(e) for n, e in node.columns if n in wanted))


def group_text(context: Context, nodes: Sequence[Node], group: Group) -> str:
    """columns_<number>(task, position, taken, written): some columns of the rows that are taken."""
    part = _Part(context, nodes)
    writer, schema = part.writer, part.chain.last.schema
    with writer.block("for place in range(position, position + taken):"):
        part.begin_row()
        writer.line(f"row = {part.row_of('place')}")
        scope = apply_steps(part, part.input_scope(), nodes, "")
        for name in group.names:
            write_column(writer, "out", "written", schema, name, scope.column(name))
        writer.line("written += 1")
    body = part.finished()
    head = f"@compiled\ndef columns_{group.number}(task_address, position, taken, written):\n"
    return f"{head}{part.bindings_of(group.names)}{body}"


class _Part(Context):
    """A function beside `rows`, with names of its own; it computes what it writes."""

    def __init__(self, whole: Context, nodes: Sequence[Node]) -> None:
        super().__init__(whole.chain)
        self.made = whole.made
        self.computed_apart = {node: frozenset(node.schema.names) for node in nodes}

    def bindings_of(self, names: Sequence[str]) -> str:
        """The head of the function, written when its body is. names: the columns that it writes."""
        head, schema = Writer(), self.chain.last.schema
        head.line("task = Task(task_address)")
        head.line("block = BlockRecord(task.input)")
        head.line("first = task.first")
        bind_columns(head, "in", "block", self._input, self._inputs, first="first")
        head.line(f"out = BlockRecord(task.outputs[{MAIN}])")
        layout = Layout.of(schema)
        if layout.has_views:
            head.line("out_heap = Heap(out.heap)")
        bind_columns(head, "out", "out", layout, map(schema.index, names))
        if self.made.resources.literals:
            head.line("literals = views(task.literals)")
        if self.made.resources.creates_text:
            head.line("heap = Heap(task.heap)")
        if self.made.uses_selection:
            head.line("selection = i32s(task.selection)")
        return head.text()
