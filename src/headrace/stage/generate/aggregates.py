"""Aggregates into code: the fields they keep for a key, and how rows and partial results enter.

All new values are computed before the first is stored, so that a row that fails (a sum that
overflows) leaves the record as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from headrace.plan.accumulators import Accumulator, accumulators, operand_type
from headrace.plan.aggregates.base import Change
from headrace.plan.aggregates.kinds import kind_of
from headrace.plan.expression_types import aggregate_type
from headrace.plan.expressions import Aggregate
from headrace.plan.functions import Function
from headrace.plan.schema import Schema
from headrace.plan.types import DataType

from .expressions import Resources, Scope
from .stores import value_of
from .values import zero
from .writer import Value, Writer

Room = Callable[[str], None]  # asks for the bytes of a string


@dataclass(frozen=True)
class Update:
    """A field of the record and the words of its new value; `only_if` says when it changes."""

    target: Value
    words: tuple[str, ...]
    only_if: str | None = None


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
            time = None if aggregate.time is None else scope.value(aggregate.time)
            kept = _fields(parts, entry)
            there = [each.valid for each in (given, time) if each is not None and each.valid]
            valid = " and ".join(there) or None

            def add(kind=kind, kept=kept, given=given, time=time) -> list[Change]:
                return kind.add(kept, given, time, self._code(scope.writer))

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

            def merge(kind=kind, kept=kept, given=given) -> list[Change]:
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


def _fields(parts: Sequence[Accumulator], entry: str) -> dict[str, Value]:
    return {part.role: value_of(part.field, part.type, entry) for part in parts}


def _computed(
    writer: Writer,
    kept: dict[str, Value],
    changes: Callable[[], list[Change]],
    valid: str | None = None,
) -> list[Update]:
    """New values of fields, under names; where `valid` is false they are the old ones."""
    names = {role: writer.fresh() for role in kept}
    if valid is not None:
        for role, field in kept.items():
            first = "False" if field.type.is_text else field.word
            writer.line(f"{names[role]} = {first}")
    words: dict[str, tuple[str, ...]] = {}
    with writer.block(f"if {valid}:") if valid is not None else nullcontext():
        for change in changes():
            name, field, only_if = names[change.field], kept[change.field], change.only_if
            words[change.field] = change.words
            if field.type.is_text:  # whether it changes: it is copied when all else has gone well
                writer.line(f"{name} = {only_if or 'True'}")
            elif only_if is None:
                writer.line(f"{name} = {change.words[0]}")
            else:
                writer.line(f"{name} = {change.words[0]} if {only_if} else {field.word}")
    made = []
    for role, new in words.items():
        if kept[role].type.is_text:
            made.append(Update(kept[role], new, names[role]))
        else:
            made.append(Update(kept[role], (names[role],)))
    return made


def _store(writer: Writer, updates: list[Update], room: Room, store: str = "store") -> None:
    texts = [update for update in updates if update.target.type.is_text]
    if texts:
        bytes_ = [f"(kept_bytes({u.words[0]}) if {u.only_if} else 0)" for u in texts]
        room(" + ".join(bytes_))  # asked for at once: a row enters whole, or not yet
    for update in updates:
        if not update.target.type.is_text:
            writer.line(f"{update.target.word} = {update.words[0]}")
            continue
        (head, tail), kept = update.words, update.target.words
        with writer.block(f"if {update.only_if}:"):
            writer.line(f"{kept[1]} = keep_words({head}, {tail}, Heap({store}.heap))")
            writer.line(f"{kept[0]} = {head}")
