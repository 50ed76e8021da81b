"""Windows: a row enters the record of its window and key; closed windows are given out."""

from __future__ import annotations

from headrace.plan.nodes import WindowAggregate

from ..task import MAIN
from .aggregates import AggregateCode
from .context import PREFETCH_AHEAD, Context, bind_output, stop_when_full, write_row
from .expressions import Scope
from .layouts import window_layout
from .steps import start_of_window
from .stores import StoreLayout, assign, entry_code, locate, size_name
from .values import zero
from .writer import Value, Writer

START = "window_start"


def update_window(context: Context, scope: Scope, node: WindowAggregate) -> None:
    """Let a row, or a partial result, into its window."""
    writer, layout = context.writer, window_layout(node)
    code = AggregateCode(node.aggregates, node.rows)
    start = context.window_start
    if node.phase == "final":
        start = scope.column(START).word
    elif start is None:  # the test for late rows was made elsewhere
        start = start_of_window(writer, scope.column(node.input.time or ""), node.window)
    if context.chain.gives_single_rows:
        with scope.branch("if direct:"):
            _give_single_row(context, scope, node, start)
    with writer.block(f"if {start} != pane_start:"):
        writer.line(f"pane = find_pane(panes, {start})")
        with writer.block("if pane == 0:"):
            writer.line(f"task.need_window = {start}")
            writer.line("task.needs_window = 1")
            context.leave("NEED_MEMORY", "place")
        writer.line("store = Store(pane)")
        writer.line("epoch = store.epoch")
        if context.made.uses_known:
            writer.line("serial = store.serial")
        locate(writer, layout, "store")
        writer.line(f"pane_start = {start}")
    context.prefetch(layout)
    find = context.find_by_match if context.made.uses_known else context.find_or_insert
    number, entry = find(scope, node.key, layout)

    def room(count: str) -> None:
        """Memory for the bytes of a string, or the row is run again when there is some."""
        with writer.block(f"if lacks_bytes(store, {count}):"):
            context.need_store("place")

    enter = code.merge if node.phase == "final" else code.update
    enter(scope, entry, room)
    context.note_change(entry, number)


def _give_single_row(context: Context, scope: Scope, node: WindowAggregate, start: str) -> None:
    """A row as the partial result of its window and key: where keys hardly repeat, looking for
    them here only adds to what is done behind the exchange."""
    writer, layout = context.writer, window_layout(node)
    code = AggregateCode(node.aggregates, node.rows)
    writer.line(f"single = {layout.entry}(task.single)")
    first = code.initial()
    parts = [part for parts in code.fields for part in parts]
    for part in parts:
        words = first.get(part.field, zero(part.type))
        assign(writer, layout.value(part.field, "single"), Value(part.type, words, "False"))
    code.update(scope, "single", lambda count: None)
    values = {name: scope.column(name) for name in node.key}
    values[START] = Value(node.schema[START], (start,))
    values |= {part.column: layout.value(part.field, "single") for part in parts}
    write_row(writer, "out", "written", node.schema, values.__getitem__)
    writer.line("written += 1")
    context.leave_if_full("out", node.schema)
    writer.line("continue")


def advance_text(node: WindowAggregate) -> str:
    """advance(task): give the results of the windows that are due, ordered by key."""
    layout, writer, head = window_layout(node), Writer(), Writer()
    head.line("task = Task(task_address)")
    bind_output(head, "out", MAIN, "written", "room", node.schema)
    with writer.block("while task.firing < task.due_count:"):
        writer.line("store = Store(i64s(task.due)[task.firing])")
        if node.phase != "partial":
            _sort(writer)
        with writer.block("while task.place < store.count:"):
            with writer.block("if written == room:"):
                writer.line("out.rows = written")
                writer.line("return OUTPUT_FULL")
            number = "task.place"
            if node.phase != "partial":
                number = writer.let("pairs[2 * (task.ordered + task.place) + 1]", "m")
            writer.line(f"entry = {entry_code(layout, 'store', number)}")
            if node.phase != "partial":
                _ask_ahead(writer, layout)
            _fire(writer, node, layout)
            writer.line("written += 1")
            stop_when_full(writer, node.schema)
            writer.line("task.place += 1")
        writer.line("task.place = 0")
        writer.line("task.ordered = -1")
        writer.line("task.firing += 1")
    writer.line("out.rows = written")
    writer.line("return CONSUMED")
    return f"@compiled\ndef advance(task_address):\n{head.text()}{writer.text()}"


def _ask_ahead(writer: Writer, layout: StoreLayout) -> None:
    """Records that are given out by key lie anywhere: ask for one that comes soon."""
    ahead = f"task.place + {PREFETCH_AHEAD}"
    with writer.block(f"if {ahead} < store.count:"):
        soon = f"pairs[2 * (task.ordered + {ahead}) + 1]"
        writer.line(f"prefetch(entry_address(store, {soon}, {size_name(layout)}))")


def _sort(writer: Writer) -> None:
    with writer.block("if task.ordered < 0:"):
        with writer.block("if task.order_room < store.count:"):
            writer.line("task.needs_order = store.count")
            writer.line("out.rows = written")
            writer.line("return NEED_MEMORY")
        writer.line("counters = task.order + 4 * task.order_room * WORD_BYTES")
        writer.line("task.ordered = window_sort(store, task.order, counters)")
    writer.line("pairs = i64s(task.order)")


def _fire(writer: Writer, node: WindowAggregate, layout: StoreLayout) -> None:
    values = dict(zip(node.key, layout.key_values("entry"), strict=True))
    values[START] = Value(node.schema[START], ("store.window",))
    code = AggregateCode(node.aggregates, node.rows)
    if node.phase == "partial":
        for part in (part for parts in code.fields for part in parts):
            values[part.column] = layout.value(part.field, "entry")
    else:
        names = [name for name, _ in node.aggregates]
        values.update(zip(names, code.results(writer, layout, "entry"), strict=True))
    write_row(writer, "out", "written", node.schema, values.__getitem__)
