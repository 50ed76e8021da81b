"""Running aggregates: a row enters the record of its key, and gives what is kept there by then."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headrace.plan.nodes import COUNTED, Running

from .aggregates import AggregateCode
from .context import Context
from .expressions import Scope
from .layouts import window_layout
from .stores import assign
from .writer import Value


def update_running(context: Context, scope: Scope, node: Running) -> Scope:
    """Let a row into the record of its key; the columns that it gives then, if it gives some."""
    writer, layout = context.writer, window_layout(node)
    code = AggregateCode(node.aggregates, node.rows, context.made.resources)
    context.prefetch(layout)
    number, entry = context.find_or_insert(scope, node.key, layout)
    writer.line(f"task.number = {number}")

    def room(count: str) -> None:
        with writer.block(f"if lacks_bytes(store, {count}):"):
            context.need_store("place")

    counted = code.field_of(COUNTED, "count", entry).word if node.every else ""
    if node.every:
        with writer.block(f"if {counted} == {node.every}:"):  # it was given out: begin anew
            for field, words in code.initial().items():
                kept = layout.value(field, entry)
                assign(writer, kept, Value(kept.type, words))
    code.update(scope, entry, room)
    context.note_change(entry, number)
    if node.every:
        with writer.block(f"if {counted} < {node.every}:"):
            writer.line("continue")
    columns: dict[str, Value | Callable[[], Value]] = {
        name: partial(scope.column, name) for name in node.carry
    }
    columns |= code.results(writer, entry)
    return Scope(writer, node.schema, columns, context.made.resources, scope)
