"""Aggregates into code: the fields they keep for a key, and how rows and partial results enter.

All new values are computed before the first is stored, so that a row that fails (a sum that
overflows) leaves the record as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from headrace.plan.accumulators import Accumulator, accumulators, operand_type
from headrace.plan.aggregates.base import Change, Held, Rewriting
from headrace.plan.aggregates.kinds import kind_of
from headrace.plan.expression_types import aggregate_type
from headrace.plan.expressions import Aggregate
from headrace.plan.functions import Function
from headrace.plan.schema import Schema
from headrace.plan.types import DataType

from .expressions import Resources, Scope
from .stores import value_of
from .values import hash_code, zero
from .writer import Value, Writer

Room = Callable[[str], None]  # asks for the bytes of a string
Changes = Sequence[Change | Rewriting]


@dataclass(frozen=True)
class Update:
    """A field of the record and the words of its new value; `only_if` says when it changes.

    Of a string that is copied, or bytes that are written, `room` is how many fresh bytes it takes.
    """

    target: Value
    words: tuple[str, ...]
    only_if: str | None = None
    room: str = ""
    rewritten: Callable[[str], str] | None = None  # see Rewriting


class AggregateCode:
    """The code of all aggregates of one operator over records of a layout."""

    def __init__(
        self, aggregates: tuple[tuple[str, Aggregate], ...], rows: Schema, resources: Resources
    ) -> None:
        self._resources = resources
        self.names = [name for name, _ in aggregates]
        self.aggregates = [aggregate for _, aggregate in aggregates]
        self.kinds = [kind_of(aggregate) for aggregate in self.aggregates]
        self.operands = [operand_type(aggregate, rows) for aggregate in self.aggregates]
        self.types = [aggregate_type(aggregate, rows) for aggregate in self.aggregates]
        self.fields = accumulators(tuple(self.aggregates), rows)

    @property
    def parts(self) -> list[Accumulator]:
        """The accumulators of all aggregates."""
        return [part for parts in self.fields for part in parts]

    def initial(self) -> dict[str, tuple[str, ...]]:
        """The first words of all fields."""
        made = {part.field: zero(part.type) for part in self.parts}
        for kind, operand, parts in zip(self.kinds, self.operands, self.fields, strict=True):
            first = kind.initial(operand)
            made |= {part.field: (first[part.role],) for part in parts if part.role in first}
        return made

    def update(self, scope: Scope, entry: str, room: Room) -> None:
        """Let one row into a record. `room(bytes)` is called where a string must be kept."""
        updates: list[Update] = []
        for aggregate, kind, parts in zip(self.aggregates, self.kinds, self.fields, strict=True):
            given = None if aggregate.operand is None else scope.value(aggregate.operand)
            by = None if aggregate.by is None else scope.value(aggregate.by)
            kept = _fields(parts, entry)
            asked = (by,) if kind.keeps_nulls else (given, by)
            there = [each.valid for each in asked if each is not None and each.valid]
            valid = " and ".join(there) or None

            def add(kind=kind, kept=kept, given=given, by=by) -> Changes:
                return kind.add(kept, given, by, self._code(scope.writer))

            updates.extend(_computed(scope.writer, kept, add, valid))
        _store(scope.writer, updates, room)

    def merge(
        self,
        writer: Writer,
        entry: str,
        other: Callable[[Accumulator], Value],
        room: Room,
        store: str = "store",
    ) -> None:
        """Let other fields into a record of a store."""
        updates: list[Update] = []
        for kind, parts in zip(self.kinds, self.fields, strict=True):
            kept, given = _fields(parts, entry), {part.role: other(part) for part in parts}

            def merge(kind=kind, kept=kept, given=given) -> Changes:
                return kind.merge(kept, given, self._code(writer))

            updates.extend(_computed(writer, kept, merge))
        _store(writer, updates, room, store)

    def results(self, writer: Writer, entry: str) -> dict[str, Value]:
        """The results by name, from a record."""
        made = {}
        for name, kind, parts, type_ in zip(
            self.names, self.kinds, self.fields, self.types, strict=True
        ):
            result = kind.result(_fields(parts, entry), self._code(writer))
            made[name] = Value(type_, result.words, result.valid)
        return made

    def _code(self, writer: Writer) -> _Code:
        return _Code(writer, self._resources)

    def field_of(self, name: str, role: str, entry: str) -> Value:
        """A field of a named aggregate, in a record."""
        parts = self.fields[self.names.index(name)]
        return _fields(parts, entry)[role]


@dataclass(frozen=True)
class _Code:
    """The kernel in the making, as kinds of aggregates see it."""

    writer: Writer
    resources: Resources

    def let(self, expression: str) -> str:
        """Give an expression a name."""
        return self.writer.let(expression)

    def function(self, function: Function) -> str:
        """The name of a user's function."""
        return self.resources.function(function)

    def received(self, given: str, kind: DataType) -> Value:
        """What a user's function gave, as a value of a type."""
        return Scope(self.writer, Schema(()), {}, self.resources).result(given, kind)

    def hash(self, given: Held) -> str:
        """The hash of a value that is not null."""
        return self.let(hash_code([Value(given.type.required, given.words)]))

    def heap(self) -> str:
        """The name of a heap for the bytes of results."""
        self.resources.creates_text = True
        return "heap"


def _fields(parts: Sequence[Accumulator], entry: str) -> dict[str, Value]:
    return {part.role: value_of(part.field, part.type, entry) for part in parts}


def _computed(
    writer: Writer,
    kept: dict[str, Value],
    changes: Callable[[], Changes],
    valid: str | None = None,
) -> list[Update]:
    """New values of fields, under names; where `valid` is false they are the old ones."""
    names = {role: writer.fresh() for role in kept}
    if valid is not None:
        for role, field in kept.items():
            first = "False" if field.type.is_view else field.word
            writer.line(f"{names[role]} = {first}")
    made: list[Update] = []
    with writer.block(f"if {valid}:") if valid is not None else nullcontext():
        for change in changes():
            name, field = names[change.field], kept[change.field]
            if isinstance(change, Rewriting):
                writer.line(f"{name} = True")
                made.append(Update(field, (), name, change.room, change.words))
            elif field.type.is_view:  # whether it changes: it is copied when all else has gone well
                writer.line(f"{name} = {change.only_if or 'True'}")
                room = f"kept_bytes({change.words[0]})"
                made.append(Update(field, change.words, name, room))
            else:
                kept_word = (
                    "" if change.only_if is None else f" if {change.only_if} else {field.word}"
                )
                writer.line(f"{name} = {change.words[0]}{kept_word}")
                made.append(Update(field, (name,)))
    return made


def _store(writer: Writer, updates: list[Update], room: Room, store: str = "store") -> None:
    asked = [f"({u.room} if {u.only_if} else 0)" for u in updates if u.room]
    if asked:
        room(" + ".join(asked))  # asked for at once: a row enters whole, or not yet
    heap = f"Heap({store}.heap)"
    for update in updates:
        kept = update.target.words
        if not update.room:
            writer.line(f"{kept[0]} = {update.words[0]}")
            continue
        with writer.block(f"if {update.only_if}:"):
            if update.rewritten is not None:
                head, tail = writer.fresh(), writer.fresh()
                writer.line(f"{head}, {tail} = {update.rewritten(heap)}")
            else:
                head, tail = update.words[0], f"keep_words({', '.join(update.words)}, {heap})"
            writer.line(f"{kept[1]} = {tail}")
            writer.line(f"{kept[0]} = {head}")
