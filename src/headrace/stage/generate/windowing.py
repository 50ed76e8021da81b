"""Windows: a row enters the record of its pane and key."""

from __future__ import annotations

from headrace.plan.nodes import COUNTED, KEY_HASH, PANE, WATERMARK, WindowAggregate, Windowed
from headrace.plan.types import int64

from .aggregates import AggregateCode
from .context import Context, write_row
from .expressions import Scope
from .formulas import Formulas
from .layouts import window_layout
from .stores import assign, locate
from .writer import Value


def update_window(context: Context, scope: Scope, node: WindowAggregate) -> None:
    """Let a row, or a partial result, into its pane."""
    writer, layout = context.writer, window_layout(node)
    code = AggregateCode(node.aggregates, node.rows, context.made.resources)
    pane = scope.column(PANE).word
    if context.chain.gives_single_rows:
        with scope.branch("if direct:"):
            _give_single_row(context, scope, node)
    open_pane(context, node, pane)
    context.prefetch(layout)
    find = context.find_by_match if context.made.uses_known else context.find_or_insert
    number, entry = find(scope, node.key, layout)

    def room(count: str) -> None:
        """Memory for the bytes of strings, or the row is run again when there is some."""
        with writer.block(f"if lacks_bytes(store, {count}):"):
            context.need_store("place")

    if node.phase == "final":
        code.merge(writer, entry, lambda part: scope.column(part.column), room)
    else:
        code.update(scope, entry, room)
    context.note_change(entry, number)
    if context.chain.gives_early_rows:
        _give_early(context, node, pane, entry)


def _give_early(context: Context, node: WindowAggregate, pane: str, entry: str) -> None:
    """Every so many rows of a key, what its record has by now."""
    writer, resources, window = context.writer, context.made.resources, node.window
    code, words = AggregateCode(node.aggregates, node.rows, resources), Formulas(resources)
    counted = code.field_of(COUNTED, "count", entry).word
    with writer.block(f"if {counted} % {window.rows} == 0 and {window.counts(words, pane)}:"):
        values = dict(zip(node.key, window_layout(node).key_values(entry), strict=True))
        made = window.results_with_row(words, pane)
        values |= {name: Value(node.schema[name], (word,)) for name, word in made.items()}
        values[WATERMARK] = Value(int64, (f"{window.first_end(words, pane)} - 1",))
        values |= code.results(writer, entry)
        write_row(writer, "out", "written", node.schema, values.__getitem__)
        writer.line("written += 1")
        context.leave_if_full("out", node.schema)


def open_pane(context: Context, node: Windowed, pane: str) -> None:
    """Let `store` be the pane that a row enters; it is opened where there is none."""
    writer = context.writer
    with writer.block(f"if {pane} != pane_number:"):
        writer.line(f"pane = find_pane(panes, {pane})")
        with writer.block("if pane == 0:"):
            words = Formulas(context.made.resources)
            first = node.window.first_use if node.phase == "partial" else node.window.first_end
            ask_for_pane(context, pane, first(words, pane), node.window.last_end(words, pane))
        writer.line("store = Store(pane)")
        writer.line("epoch = store.epoch")
        if context.made.uses_known:
            writer.line("serial = store.serial")
        locate(writer, window_layout(node), "store")
        writer.line(f"pane_number = {pane}")


def ask_for_pane(context: Context, pane: str, first: str, last: str) -> None:
    """Leave, because a pane is to be opened: its number, and the ends of its windows."""
    context.writer.line(f"task.need_window = {pane}")
    context.writer.line(f"task.need_first = {first}")
    context.writer.line(f"task.need_last = {last}")
    context.writer.line("task.needs_window = 1")
    context.leave("NEED_MEMORY", "place")


def _give_single_row(context: Context, scope: Scope, node: WindowAggregate) -> None:
    """A row as the partial result of its pane and key: where keys hardly repeat, looking for
    them here only adds to what is done behind the exchange."""
    writer, layout = context.writer, window_layout(node)
    code = AggregateCode(node.aggregates, node.rows, context.made.resources)
    writer.line(f"single = {layout.entry}(task.single)")
    first = code.initial()
    for part in code.parts:
        words = first[part.field]
        assign(writer, layout.value(part.field, "single"), Value(part.type, words, "False"))
    code.update(scope, "single", lambda count: None)
    values = {name: scope.column(name) for name in (*node.key, PANE)}
    hashed = context.key_hash(scope, [values[name] for name in node.key])
    values[KEY_HASH] = Value(int64, (hashed,))
    values |= {part.column: layout.value(part.field, "single") for part in code.parts}
    write_row(writer, "out", "written", node.schema, values.__getitem__)
    writer.line("written += 1")
    context.leave_if_full("out", node.schema)
    writer.line("continue")
