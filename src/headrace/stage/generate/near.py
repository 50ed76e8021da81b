"""`dedup` within a time: a row is given, and remembered in its pane, if none near it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headrace.plan.dedup import DedupWithin
from headrace.plan.nodes import WATERMARK

from .context import Context
from .expressions import Scope
from .formulas import Formulas
from .layouts import AT, window_layout
from .stores import call_arguments, entry_code
from .windowing import ask_for_pane
from .writer import Value


def skip_repeated(context: Context, scope: Scope, node: DedupWithin) -> Scope:
    """Leave out a row that repeats one, or is late; one without a time repeats none."""
    time = scope.column(node.at)
    if time.valid is None:
        _remember(context, scope, node, time.word)
    else:
        with scope.branch(f"if {time.valid}:"):
            _remember(context, scope, node, time.word)
    columns: dict[str, Value | Callable[[], Value]] = {
        name: partial(scope.column, name) for name in node.carry
    }
    return Scope(context.writer, node.schema, columns, context.made.resources, scope)


def _remember(context: Context, scope: Scope, node: DedupWithin, time: str) -> None:
    writer, layout, window = context.writer, window_layout(node), node.window
    words = Formulas(context.made.resources)
    pane = writer.let(window.pane(words, time), "w")
    context.tests_lateness = True
    with scope.branch("if marked:"):  # in most blocks no row can be late
        late = window.late(words, time, pane, scope.column(WATERMARK).word)
        with writer.block(f"if {late}:"):
            writer.line("task.late += 1")
            writer.line("continue")
    keys = [scope.column(name) for name in node.key]
    key_hash = writer.let(context.key_hash(scope, keys), "h")
    arguments = ", ".join([key_hash, *call_arguments(keys)])
    for other in (pane, *window.beside(pane)):
        writer.line(f"pane = find_pane(panes, {other})")
        with writer.block("if pane != 0:"):
            number = writer.let(f"window_find(Store(pane), {arguments})", "m")
            with writer.block(f"if {number} >= 0:"):
                given = f"{entry_code(layout, 'Store(pane)', number)}.{AT}"
                with writer.block(f"if abs({given} - {time}) < {window.size}:"):
                    writer.line("continue")
    writer.line(f"pane = find_pane(panes, {pane})")
    with writer.block("if pane == 0:"):
        ask_for_pane(context, pane, window.first_end(words, pane), window.last_end(words, pane))
    writer.line("store = Store(pane)")
    writer.line("epoch = store.epoch")
    record = writer.let(f"window_insert(store, {arguments})", "m")
    with writer.block(f"if {record} < 0:"):
        context.need_store("place")
    entry = writer.let(entry_code(layout, "store", record), "e")
    writer.line(f"{entry}.{AT} = {time}")
    context.note_change(entry, record)


def forget_text() -> str:
    """advance(task): forget the panes that are due."""
    return """@compiled
def advance(task_address):
    task = Task(task_address)
    while task.due_count > 0:
        next_window(task)
    return CONSUMED
"""
