"""Operators that give at most one row for a row: filter, projection, static join, late test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from headrace.plan.expressions import Expression
from headrace.plan.nodes import PANE, WATERMARK, Filter, Node, OnTime, Project, TableJoin
from headrace.plan.types import int64

from .context import Context
from .expressions import Scope
from .formulas import Formulas
from .layouts import table_layout
from .stores import call_arguments, local_entry, located
from .values import hash_code, zero
from .writer import Value, Writer


def apply_steps(
    context: Context, scope: Scope, nodes: Sequence[Node], skip: str, *, resuming: bool = False
) -> Scope:
    """Code of some operators; `skip` are the lines that go on with the next row.

    A row that is resumed has passed its filters and found its matches before.
    """
    for node in nodes:
        match node:
            case Filter():
                if not resuming:
                    _skip_if(context.writer, f"not ({is_true(scope, node.predicate)})", skip)
            case Project():
                scope = _project(context, scope, node)
            case TableJoin():
                scope = _join(context, scope, node, "" if resuming else skip)
            case OnTime():
                scope = _on_time(context, scope, node, skip)
            case _:
                raise TypeError(f"{node.kind} cannot stand inside a chain")
    return scope


def is_true(scope: Scope, predicate: Expression) -> str:
    """Code of "the condition is true": not false, and not null."""
    condition = scope.value(predicate)
    if condition.valid is None:
        return condition.word
    return f"{condition.valid} and {condition.word}"


def _skip_if(writer: Writer, condition: str, skip: str) -> None:
    with writer.block(f"if {condition}:"):
        _lines(writer, skip)


def _lines(writer: Writer, text: str) -> None:
    for line in text.split("\n"):
        writer.line(line)


def _project(context: Context, scope: Scope, node: Project) -> Scope:
    """What can fail is computed here, as the user wrote it; the rest where it is needed."""
    columns: dict[str, Value | Callable[[], Value]] = {}
    apart = context.computed_apart.get(node, ())
    for name, expression in node.columns:
        if scope.can_fail(expression) and name not in apart:
            columns[name] = scope.value(expression)
        else:
            columns[name] = partial(scope.value, expression)
    return Scope(context.writer, node.schema, columns, context.made.resources, scope)


def match_number(context: Context, node: TableJoin, keys: Sequence[Value]) -> str:
    """The number of the table's record that has a key, or -1; a null key matches nothing."""
    writer = context.writer
    layout = table_layout(node, context.made.tables.index(node))
    valid = " and ".join(key.valid for key in keys if key.valid is not None)
    plain = [Value(key.type.required, key.words) for key in keys]
    where, find = located(layout), "probe"
    if layout.keys_beside_slots:
        p, find = layout.prefix, "match"
        where = f"{p}_index, {p}_mask, {p}_keys"
    arguments = ", ".join([where, hash_code(plain), *call_arguments(plain)])
    probe = f"{layout.prefix}_{find}({arguments})"
    return writer.let(f"{probe} if {valid} else -1" if valid else probe, "m")


def _join(context: Context, scope: Scope, node: TableJoin, skip: str) -> Scope:
    writer = context.writer
    layout = table_layout(node, context.made.tables.index(node))
    early = node is context.early_join  # then rows without a match are gone
    if early:
        number = writer.let("matches[place]", "m")
    else:
        number = match_number(context, node, [scope.column(name) for name in node.left_on])
    found = None
    if node.how == "left":
        found = writer.let(f"{number} >= 0", "n")
    elif skip and not early:
        _skip_if(writer, f"{number} < 0", skip)
    safe = number if node.how == "inner" and (skip or early) else f"max({number}, 0)"
    entry = writer.let(local_entry(layout, safe), "e")
    columns: dict[str, Value | Callable[[], Value]] = {
        name: partial(scope.column, name) for name in scope.schema.names
    }
    for j, (_, name) in enumerate(node.taken):
        columns[name] = partial(_taken, writer, layout.value(f"value_{j}", entry), found)
    return Scope(writer, node.schema, columns, context.made.resources, scope)


def _taken(writer: Writer, value: Value, found: str | None) -> Value:
    """A column of a table's record; where a left join found none, null."""
    if found is None:
        words = tuple(writer.let(word) for word in value.words)
        valid = None if value.valid is None else writer.let(value.valid, "n")
        return Value(value.type, words, valid)
    names = tuple(writer.fresh() for _ in value.words)
    valid = writer.let("False", "n")
    writer.line(f"{', '.join(names)} = {', '.join(zero(value.type))}")
    with writer.block(f"if {found}:"):
        for name, word in zip(names, value.words, strict=True):
            writer.line(f"{name} = {word}")
        writer.line(f"{valid} = {value.valid or 'True'}")
    return Value(value.type, names, valid)


def _on_time(context: Context, scope: Scope, node: OnTime, skip: str) -> Scope:
    """The pane of a row. It is late if no window of it was open by the watermark before it, or if
    it has no time."""
    writer, kind, words = context.writer, node.window, Formulas(context.made.resources)
    if node.time is None:
        pane = writer.let(kind.pane(words, ""), "w")
        return _with_pane(context, scope, node, pane)
    time = scope.column(node.time)
    context.tests_lateness = True
    mistaken = [f"not {time.valid}"] if time.valid is not None else []
    if node.latest is not None:
        mistaken.append(f"{time.word} > {node.latest}")
    late = writer.let(" or ".join(mistaken) or "False", "b")
    pane = writer.let(kind.pane(words, time.word), "w")
    with scope.branch("if marked:"):  # in most blocks no row can be late
        watermark = scope.column(WATERMARK).word
        writer.line(f"{late} = {late} or {kind.late(words, time.word, pane, watermark)}")
        shortened = kind.shortened(words, pane, watermark)
        if shortened is not None:
            with writer.block(f"if not {late}:"):
                writer.line(f"{pane} = {shortened}")
    with scope.branch(f"if {late}:"):
        writer.line("task.late += 1")
        if context.chain.late_schema is not None:
            context.write_late(scope, context.chain.late_schema)
        _lines(writer, skip)
    return _with_pane(context, scope, node, pane)


def _with_pane(context: Context, scope: Scope, node: OnTime, pane: str) -> Scope:
    columns: dict[str, Value | Callable[[], Value]] = {
        name: partial(scope.column, name) for name in scope.schema.names
    }
    columns[PANE] = Value(int64, (pane,))
    return Scope(context.writer, node.schema, columns, context.made.resources, scope)
