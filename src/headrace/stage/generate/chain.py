"""A chain of operators into one kernel: `rows`, a loop over the rows of a block.

Filters in front that cannot fail make a selection first, without branches; everything else runs
row by row over what they left. A chain ends in an output block, in a function that yields rows
(`flat_map`, `process`; other steps may follow it), or in the update of windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from headrace.plan.by_time import SortByTime
from headrace.plan.dedup import DedupWithin
from headrace.plan.expression_types import can_fail, type_of
from headrace.plan.expressions import Column, Expression, KeyHash, columns_of, substitute
from headrace.plan.nodes import (
    KEY_HASH,
    AsOfJoin,
    Branches,
    Filter,
    Node,
    OnTime,
    Process,
    Project,
    Running,
    Stateful,
    TableJoin,
    WindowAggregate,
    Windowed,
    WindowJoin,
)
from headrace.plan.timed import TimedProcess
from headrace.plan.windows.base import MergingWindow

from .aggregates import AggregateCode
from .branching import branching_loop
from .by_time import enter_numbered_row, sorted_text
from .context import Chain, Context, KernelText
from .emitting import emitter_loop, frame_text
from .expressions import Resources
from .firing import advance_text
from .joining import enter_row, joined_text, unsorted_rows
from .layouts import records_layout, state_layout, table_layout, window_layout
from .moving import compact_text
from .near import forget_text, skip_repeated
from .ordering import order_text
from .running import update_running
from .steps import apply_steps, is_true, match_number
from .stores import find_text, insert_text, match_text, record_text
from .timers import enter_timed_row, timers_text
from .values import hash_code
from .versions import enter_side, versions_text
from .wide import Group, column_groups, group_text
from .windowing import update_window
from .writer import Writer


def kernel_text(chain: Chain) -> KernelText:
    """The module of a chain: its stores, `rows`, and `frame` or `advance` where it needs them."""
    context = Context(chain)
    made, writer = context.made, context.writer
    front, rest = _split_front(chain)
    early = _early_hash(chain, rest)
    parts = _stores(chain, made)
    match = _early_join(chain, rest)
    context.early_join = None if match is None else match[0]
    made.uses_selection = bool(front) or chain.is_owned
    made.uses_selection |= match is not None and match[0].how == "inner"
    made.uses_hashes, made.uses_matches = early is not None, match is not None
    made.uses_known = match is not None and _key_is_taken(chain, match[0])
    writer.line("position = task.row")
    _selection(context, front, match)
    if early is not None:
        _hash_pass(context, early)
    groups = column_groups(context, rest)
    parts += [group_text(context, rest, group) for group in groups]
    if chain.emitter is not None:
        emitter_loop(context, rest)
    else:
        _plain_loop(context, rest, groups)
    body = context.finished()
    parts.append(f"@compiled\ndef rows(task_address):\n{context.bindings()}{body}")
    if chain.emitter is not None:
        parts.append(frame_text(context))
    if chain.windowed is not None:
        parts.append(_given_out(chain.windowed, made.resources))
    elif chain.keeps_panes:
        parts.append(forget_text())
    if chain.stateful is not None and records_layout(chain.stateful).keeps_text:
        parts.append(compact_text(records_layout(chain.stateful)))
    made.text = "\n\n".join(parts)
    return made


def _given_out(node: Windowed, resources: Resources) -> str:
    """What an operator gives when time goes on."""
    match node:
        case AsOfJoin():
            return versions_text(node, resources)
        case TimedProcess():
            return timers_text(node, resources)
        case SortByTime():
            return sorted_text(node, resources)
        case WindowJoin():
            return joined_text(node, resources)
        case _:
            return advance_text(node, resources)


def _stores(chain: Chain, made: KernelText) -> list[str]:
    """The records of the chain's operators, and how they are found."""
    parts: list[str] = []
    for node in chain.nodes:
        if isinstance(node, TableJoin):
            layout = table_layout(node, len(made.tables))
            made.tables.append(node)
            parts += [record_text(layout)]
            parts.append((match_text if layout.keys_beside_slots else find_text)(layout))
        elif isinstance(node, Process):
            layout = state_layout(node)
            parts += [record_text(layout), find_text(layout), insert_text(layout, {})]
        elif isinstance(node, Windowed | Running):
            layout = window_layout(node)
            code = AggregateCode(node.aggregates, node.rows, made.resources)
            parts += [record_text(layout), find_text(layout), insert_text(layout, code.initial())]
            if isinstance(node, Windowed):
                left_out = unsorted_rows(node) if isinstance(node, WindowJoin) else "False"
                parts.append(order_text(layout, _end(node, code), left_out))
    return parts


def _end(node: Windowed, code: AggregateCode) -> str:
    """The field by which the records of a pane end, if they end by themselves."""
    if not isinstance(node.window, MergingWindow):
        return ""
    return code.field_of(node.window.record_order, "value", "").word


def _split_front(chain: Chain) -> tuple[list[Filter], list[Node]]:
    """The filters in front that cannot fail, and the other operators."""
    nodes = list(chain.nodes)
    front: list[Filter] = []
    while nodes and isinstance(first := nodes[0], Filter):
        if can_fail(first.predicate, chain.input):
            break
        front.append(first)
        del nodes[0]
    return front, nodes


def _selection(
    context: Context,
    front: Sequence[Filter],
    match: tuple[TableJoin, list[Expression]] | None,
) -> None:
    """The rows that the filters in front keep, and that find a match in the first table."""
    writer = context.writer
    filtered = bool(front) or context.chain.is_owned
    if not filtered and match is None:
        writer.line("selected = task.last - task.first")
        return
    with writer.block("if task.selected == NOT_SELECTED:"):
        if filtered:
            _filter_pass(context, front)
        else:
            writer.line("chosen = task.last - task.first")
        if match is not None:
            _match_pass(context, *match, filtered=filtered)
        writer.line("task.selected = chosen")
    writer.line("selected = task.selected")


def _filter_pass(context: Context, front: Sequence[Filter]) -> None:
    writer = context.writer
    writer.line("chosen = 0")
    with writer.block("for row in range(task.last - task.first):"):
        context.begin_row()
        writer.line("selection[chosen] = row")
        scope = context.input_scope()
        tests: list[Callable[[], str]] = [partial(is_true, scope, node.predicate) for node in front]
        if context.chain.is_owned:
            key_hash = scope.column(KEY_HASH).word
            owned = f"low_group <= key_group({key_hash}) < high_group"
            tests.insert(0, lambda: owned)
        for test in tests[:-1]:
            with writer.block(f"if not ({test()}):"):
                writer.line("continue")
        writer.line(f"chosen += 1 if {tests[-1]()} else 0")


def _early_join(chain: Chain, rest: Sequence[Node]) -> tuple[TableJoin, list[Expression]] | None:
    """The first join and its key over the input's columns, where its matches can be found first.

    A short loop that only looks rows up keeps many more of them in flight than one that does
    everything: waiting for memory is most of a join's time.
    """
    made: dict[str, Expression] = {name: Column(name) for name in chain.input.names}
    for node in rest:
        if isinstance(node, TableJoin):
            keys = [made[name] for name in node.left_on]
            safe = not any(can_fail(key, chain.input) for key in keys)
            return (node, keys) if safe else None
        if not isinstance(node, Project):
            return None
        if any(can_fail(e, node.input.schema) for _, e in node.columns):
            return None  # it must fail before the join drops the row
        made = {name: substitute(e, made) for name, e in node.columns}
    return None


def _key_is_taken(chain: Chain, join: TableJoin) -> bool:
    """Does the key of the chain's window come from the records that an inner join finds?"""
    window = chain.windowed
    if window is None or not window.key or join.how != "inner" or window.phase == "final":
        return False
    made: dict[str, Expression] = {name: Column(name) for _, name in join.taken}
    for node in chain.nodes[chain.nodes.index(join) + 1 :]:
        if isinstance(node, Project):
            made = {
                name: substitute(e, made)
                for name, e in node.columns
                if columns_of(e) <= made.keys() and not can_fail(e, node.input.schema)
            }
    return made.keys() >= set(window.key)


def _match_pass(
    context: Context, node: TableJoin, keys: list[Expression], *, filtered: bool
) -> None:
    """The number of each row's match; an inner join keeps only the rows that have one."""
    writer, inner = context.writer, node.how == "inner"
    row = "selection[place]" if filtered else "place"
    if _can_guess(context, node, keys):
        _guess_matches(context, node, keys[0], row)
        if inner:
            with writer.block("if misses > 0:"):
                _keep_matched(writer, row)
            if not filtered:
                with writer.block("else:"), writer.block("for place in range(chosen):"):
                    writer.line("selection[place] = place")
        return
    writer.line("found = 0")
    with writer.block("for place in range(chosen):"):
        context.begin_row()
        writer.line(f"row = {row}")
        scope = context.input_scope()
        number = match_number(context, node, [scope.value(key) for key in keys])
        _note_match(writer, number, inner)
    writer.line("chosen = found")


def _note_match(writer: Writer, number: str, inner: bool) -> None:
    writer.line(f"matches[found] = {number}")
    if inner:
        writer.line("selection[found] = row")
    writer.line(f"found += 1 if {number} >= 0 else 0" if inner else "found += 1")


def _keep_matched(writer: Writer, row: str) -> None:
    writer.line("found = 0")
    with writer.block("for place in range(chosen):"):
        writer.line(f"row = {row}")
        _note_match(writer, writer.let("matches[place]", "m"), inner=True)
    writer.line("chosen = found")


def _can_guess(context: Context, node: TableJoin, keys: list[Expression]) -> bool:
    layout = table_layout(node, context.made.tables.index(node))
    nullable = any(type_of(key, context.chain.input).nullable for key in keys)
    return layout.keys_beside_slots and not nullable


def _guess_matches(context: Context, node: TableJoin, key: Expression, row: str) -> None:
    """Look at the first slot of every key, then search for the few keys that do not lie there.

    The first look has no branches. A processor that has to foresee which keys share a slot is
    often wrong, and pays more for that than for the look.
    """
    writer = context.writer
    context.made.uses_retry = True
    table = table_layout(node, context.made.tables.index(node)).prefix
    writer.line(f"slots = i64s({table}_index)")
    writer.line("again = 0")
    with writer.block("for place in range(chosen):"):
        writer.line(f"row = {row}")
        value = context.input_scope().value(key)
        at = writer.let(f"first_slot({hash_code([value])}, {table}_mask)", "a")
        number = writer.let(f"number_in(slots[{at}])", "m")
        writer.line(f"matches[place] = {number}")
        writer.line("retry[again] = place")
        writer.line(f"again += 1 if ({number} < 0) | ({table}_keys[{at}] != {value.word}) else 0")
    writer.line("misses = 0")
    with writer.block("for guess in range(again):"):
        writer.line("place = retry[guess]")
        writer.line(f"row = {row}")
        number = match_number(context, node, [context.input_scope().value(key)])
        writer.line(f"matches[place] = {number}")
        writer.line(f"misses += 1 if {number} < 0 else 0")


def _early_hash(chain: Chain, rest: Sequence[Node]) -> Expression | None:
    """The hash of the key over the input's columns, where it can be made before the row loop.

    Then the records of the rows ahead are prefetched, which hides most cache misses.
    """
    made: dict[str, Expression] = {name: Column(name) for name in chain.input.names}
    for node in rest:
        if isinstance(node, Stateful):
            key = KeyHash(tuple(made[name] for name in node.key))
            hashed = made.get(KEY_HASH, key)  # of rows that carry it already
            return hashed if node.key and not can_fail(hashed, chain.input) else None
        if isinstance(node, Project):
            made = {name: substitute(e, made) for name, e in node.columns}
        elif not isinstance(node, OnTime):
            return None
    return None


def _hash_pass(context: Context, hashed: Expression) -> None:
    """All hashes are made when the rows come, and kept for the calls that go on with them."""
    writer = context.writer
    with writer.block("if position == 0 and task.suspended == RUNNING:"):
        with writer.block("for place in range(selected):"):
            context.begin_row()
            writer.line(f"row = {context.row_of('place')}")
            writer.line(f"hashes[place] = {context.input_scope().value(hashed).word}")


def _plain_loop(context: Context, nodes: Sequence[Node], groups: Sequence[Group]) -> None:
    """Chains that give at most one row for a row. groups: columns that other functions write."""
    writer, chain = context.writer, context.chain
    if isinstance(chain.last, Branches):
        branching_loop(context, nodes)
        return
    bounds = ["selected - position"]
    if context.has_output:
        bounds.append("room - written")
    if chain.late_wanted:
        bounds.append("late_room - late_written")
    taken = f"min({', '.join(bounds)})" if len(bounds) > 1 else bounds[0]
    # as many rows as surely fit: no test inside the loop (variable batching, Enjima 3.1.2)
    writer.line(f"taken = {taken}")
    with writer.block("while taken > 0:"):
        for group in groups:
            if group.is_safe:
                writer.line(group.call("position", "taken"))
        with writer.block("for place in range(position, position + taken):"):
            context.begin_row()
            writer.line(f"row = {context.row_of('place')}")
            context.note_row("place")
            for group in groups:
                if not group.is_safe:
                    writer.line(group.call("place", "1"))
            _plain_row(context, nodes)
        writer.line("position += taken")
        writer.line(f"taken = {taken}")
    writer.line("task.row = position")
    context.keep_counts()
    writer.line("return CONSUMED if position >= selected else OUTPUT_FULL")


def _plain_row(context: Context, nodes: Sequence[Node]) -> None:
    windowed, running = context.chain.windowed, context.chain.running
    steps = [node for node in nodes if node not in (windowed, running)]
    scope = apply_steps(context, context.input_scope(), steps, "continue")
    match windowed:
        case AsOfJoin():
            enter_side(context, scope, windowed)
            return
        case TimedProcess():
            enter_timed_row(context, scope, windowed)
            return
        case SortByTime():
            enter_numbered_row(context, scope, windowed)
            return
        case WindowJoin():
            enter_row(context, scope, windowed)
            return
        case WindowAggregate():
            update_window(context, scope, windowed)
            return
    if isinstance(running, DedupWithin):
        scope = skip_repeated(context, scope, running)
    elif running is not None:
        scope = update_running(context, scope, running)
    context.write(scope)
