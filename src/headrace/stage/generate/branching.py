"""Branches: of each row what one makes of it, then the next one, into one output.

There may be no room in the middle of a row; then `task.way` says which branch is next.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.plan.nodes import Branches, Node
from headrace.stage.blocks.layout import Layout

from .context import Context
from .steps import apply_steps


def branching_loop(context: Context, nodes: Sequence[Node]) -> None:
    """The loop over rows of a chain that ends in branches."""
    writer, (*steps, last) = context.writer, nodes
    assert isinstance(last, Branches)
    texts = Layout.of(last.schema).has_views
    writer.line("way = task.way")
    with writer.block("for place in range(position, selected):"):
        context.begin_row()
        writer.line(f"row = {context.row_of('place')}")
        context.note_row("place")
        scope = apply_steps(context, context.input_scope(), steps, "continue")
        for number, way in enumerate(last.ways):
            # a loop of one round, so that a row that a filter leaves out goes on behind it
            with scope.branch(f"for _ in range(1 if way <= {number} else 0):"):
                with writer.block("if written == room:"):
                    leave_at(context, number)
                context.write_columns(apply_steps(context, scope, way, "continue"))
                if texts:
                    with writer.block("if has_overflown(out_heap):"):
                        leave_at(context, number + 1)
        writer.line("way = 0")
    writer.line("task.way = 0")
    writer.line("task.row = selected")
    context.keep_counts()
    writer.line("return CONSUMED")


def leave_at(context: Context, way: int) -> None:
    """There is no room for what the other branches make of the row."""
    context.writer.line(f"task.way = {way}")
    context.leave("OUTPUT_FULL", "place")
