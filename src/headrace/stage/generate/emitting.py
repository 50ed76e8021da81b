"""Functions that yield rows: flat_map, and process over a state record.

The user's function stays a generator, which LLVM inlines into the loop. When the output is full,
its frame is saved and the next call goes on inside the row. State is changed in a copy, which is
written back when the row has succeeded: a row that fails leaves the state as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from headrace.plan.nodes import FlatMap, Node, Process

from .context import Context, stop_when_full, write_row
from .expressions import Scope
from .given import given_columns
from .layouts import state_layout
from .steps import apply_steps
from .stores import StoreLayout, both_words, local_entry
from .values import argument, nothing
from .writer import Value


def emitter_loop(context: Context, nodes: Sequence[Node]) -> None:
    """The loop stands twice: to go on with a row that was suspended, and for all others."""
    writer, emitter = context.writer, context.chain.emitter
    assert emitter is not None
    at = list(nodes).index(emitter)
    before, behind = nodes[:at], nodes[at + 1 :]
    if isinstance(emitter, Process) and state_layout(emitter).keeps_text_values:
        with writer.block("if task.suspended == BEFORE_COMMIT:"):
            _commit(context, emitter, "position")
            writer.line("task.suspended = RUNNING")
            writer.line("position += 1")
    with writer.block("if task.suspended == IN_ROW and written < room:"):
        writer.line("place = position")
        writer.line(f"row = {context.row_of('place')}")
        scope = apply_steps(context, context.input_scope(), before, "", resuming=True)
        again = f"resume({_generator(context, scope, emitter)}, task.frame)"
        _yields(context, scope, emitter, behind, again, fresh=False)
        _finish_row(context, emitter)
    with writer.block("while position < selected and written < room:"):
        context.begin_row()
        writer.line("place = position")
        writer.line(f"row = {context.row_of('place')}")
        context.note_row("place")
        scope = apply_steps(context, context.input_scope(), before, "position += 1\ncontinue")
        if isinstance(emitter, Process):
            _load_state(context, scope, emitter)
        writer.line(f"generator = {_generator(context, scope, emitter)}")
        _yields(context, scope, emitter, behind, "generator", fresh=True)
        _finish_row(context, emitter)
    writer.line("task.row = position")
    context.keep_counts()
    writer.line("return CONSUMED if position >= selected else OUTPUT_FULL")


def _generator(context: Context, scope: Scope, emitter: FlatMap) -> str:
    arguments = [argument(scope.column(name)) for name in emitter.arguments]
    if isinstance(emitter, Process):
        arguments.insert(0, "State(task.scratch)")
    name = context.made.resources.function(emitter.function)
    return f"{name}({', '.join(arguments)})"


def _yields(
    context: Context,
    scope: Scope,
    emitter: FlatMap,
    behind: Sequence[Node],
    generator: str,
    fresh: bool,
) -> None:
    writer = context.writer
    with scope.branch(f"for result in {generator}:"):
        inner = apply_steps(context, _results(context, scope, emitter), behind, "continue")
        write_row(writer, "out", "written", context.chain.last.schema, inner.column)
        writer.line("written += 1")
        if context.chain.numbers_rows:
            writer.line("place_number += 1")
        context.keep_row()
        stop_when_full(writer, context.chain.last.schema)
        with writer.block("if written == room:"):
            if fresh:
                writer.line("suspend(generator, task.frame)")
                writer.line("task.suspended = IN_ROW")
            context.leave("OUTPUT_FULL", "place")


def _results(context: Context, scope: Scope, emitter: FlatMap) -> Scope:
    """The columns of a yielded row: those that are carried along, and the results."""
    columns: dict[str, Value | Callable[[], Value]] = {
        name: partial(scope.column, name) for name in emitter.carry
    }
    columns |= given_columns(scope, emitter, emitter.function, "result")
    return Scope(context.writer, emitter.schema, columns, context.made.resources, scope)


def _finish_row(context: Context, emitter: FlatMap) -> None:
    if isinstance(emitter, Process):
        _commit(context, emitter, "place")
    context.writer.line("task.suspended = RUNNING")
    context.writer.line("position += 1")


def _load_state(context: Context, scope: Scope, emitter: Process) -> None:
    """A copy of the state record of the row's key."""
    writer, layout = context.writer, state_layout(emitter)
    context.prefetch(layout)
    number, entry = context.find_or_insert(scope, emitter.key, layout)
    writer.line(f"task.number = {number}")
    writer.line(f"copy_record(State(task.scratch), {entry}.state)")
    if layout.keeps_text_values:
        context.made.resources.creates_text = True
        writer.line("State(task.scratch).heap = task.heap")


def _commit(context: Context, emitter: Process, place: str) -> None:
    """The row has succeeded: its state is the key's state now, strings copied."""
    writer, layout = context.writer, state_layout(emitter)
    writer.line(f"entry = {local_entry(layout, 'task.number')}")
    texts = [name for name, kind in layout.values if kind.is_view]
    if texts:
        _keep_strings(context, layout, texts, place)
    writer.line("copy_record(entry.state, State(task.scratch))")
    context.note_change("entry", "task.number")


def _keep_strings(context: Context, layout: StoreLayout, texts: Sequence[str], place: str) -> None:
    writer = context.writer
    writer.line("new, kept = StateFields(task.scratch), StateFields(entry.state.address)")
    pairs = [(layout.value(name, "new"), layout.value(name, "kept")) for name in texts]
    both = both_words(writer, pairs)
    wanted = " + ".join(f"changed_bytes({words})" for words in both)
    with writer.block(f"if lacks_bytes(store, {wanted}):"):
        writer.line("task.suspended = BEFORE_COMMIT")
        context.need_store(place)
    for (new, _), words in zip(pairs, both, strict=True):
        writer.line(f"{new.words[1]} = keep_changed({words}, Heap(store.heap))")


def frame_text(context: Context) -> str:
    """frame(task): the bytes that the generator of the chain needs when it is suspended."""
    emitter = context.chain.emitter
    assert emitter is not None
    heap = "Heap(Task(task_address).heap)"
    arguments = [argument(nothing(kind), heap) for kind in emitter.function.inputs]
    if isinstance(emitter, Process):
        arguments.insert(0, "State(Task(task_address).scratch)")
    name = context.made.resources.function(emitter.function)
    call = f"{name}({', '.join(arguments)})"
    return f"@compiled\ndef frame(task_address):\n    return frame_bytes({call})\n"
