"""Aggregates into code: the fields they keep for a key, and how rows and partial results enter.

All new values are computed before the first is stored, so that a row that fails (a sum that
overflows) leaves the record as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.plan.aggregates import Accumulator, accumulators
from headrace.plan.expressions import Aggregate
from headrace.plan.schema import Schema
from headrace.plan.types import DataType, int64

from .expressions import Scope
from .stores import StoreLayout, value_of
from .writer import Value, Writer


@dataclass(frozen=True)
class Update:
    """A field of the record and the words of its new value; `only_if` says when it changes."""

    target: Value
    words: tuple[str, ...]
    only_if: str | None = None


class AggregateCode:
    """The code of all aggregates of one operator over records of a layout."""

    def __init__(self, aggregates: tuple[tuple[str, Aggregate], ...], rows: Schema) -> None:
        self.aggregates = [aggregate for _, aggregate in aggregates]
        self.fields = accumulators(tuple(self.aggregates), rows)

    def initial(self) -> dict[str, tuple[str, ...]]:
        """The first words of the fields that do not start as zero."""
        made = {}
        for aggregate, parts in zip(self.aggregates, self.fields, strict=True):
            for part in parts:
                if part.role == "value" and not part.type.is_text:
                    made[part.field] = (_neutral(aggregate.kind, part.type),)
        return made

    def update(self, scope: Scope, entry: str, room: Callable[[str], None]) -> None:
        """Let one row into a record. `room(bytes)` is called where a string must be kept."""
        updates: list[Update] = []
        for aggregate, parts in zip(self.aggregates, self.fields, strict=True):
            given = None if aggregate.operand is None else scope.value(aggregate.operand)
            valid = None if given is None else given.valid
            updates.extend(self._enter(scope.writer, aggregate.kind, parts, entry, given, valid, 1))
        self._store(scope.writer, updates, room)

    def merge(self, scope: Scope, entry: str, room: Callable[[str], None]) -> None:
        """Let a partial result, whose columns are named as the fields, into a record."""
        updates: list[Update] = []
        for aggregate, parts in zip(self.aggregates, self.fields, strict=True):
            columns = {part.role: scope.column(part.column) for part in parts}
            count = columns["count"].word if "count" in columns else "1"
            valid = f"{count} > 0" if "count" in columns else None
            given = columns.get("value", columns.get("total"))
            updates.extend(
                self._enter(scope.writer, aggregate.kind, parts, entry, given, valid, count)
            )
        self._store(scope.writer, updates, room)

    def _enter(
        self,
        writer: Writer,
        kind: str,
        parts: tuple[Accumulator, ...],
        entry: str,
        given: Value | None,
        valid: str | None,
        count: object,
    ) -> list[Update]:
        made = []
        for part in parts:
            field = value_of(part.field, part.type, entry)
            if part.role == "count":
                new = self._guarded(writer, f"{field.words[0]} + {count}", field, valid)
                made.append(Update(field, (new,)))
            elif part.role == "total":
                word = given.word if not part.type.is_float else f"float({given.word})"
                code = (
                    f"{field.word} + {word}" if part.type.is_float else f"add({field.word}, {word})"
                )
                made.append(Update(field, (self._guarded(writer, code, field, valid),)))
            else:
                first = next((p for p in parts if p.role == "count"), None)
                seen = None if first is None else value_of(first.field, first.type, entry).word
                made.append(_extreme(writer, kind, field, given, valid, seen))
        return made

    @staticmethod
    def _guarded(writer: Writer, code: str, field: Value, valid: str | None) -> str:
        if valid is None:
            return writer.let(code)
        name = writer.let(field.words[0])
        with writer.block(f"if {valid}:"):
            writer.line(f"{name} = {code}")
        return name

    @staticmethod
    def _store(writer: Writer, updates: list[Update], room: Callable[[str], None]) -> None:
        for update in updates:
            if update.target.type.is_text:
                with writer.block(f"if {update.only_if}:"):
                    room(f"kept_bytes({update.words[0]})")
        for update in updates:
            if not update.target.type.is_text:
                writer.line(f"{update.target.word} = {update.words[0]}")
                continue
            (head, tail), kept = update.words, update.target.words
            with writer.block(f"if {update.only_if}:"):
                writer.line(f"{kept[1]} = keep_words({head}, {tail}, Heap(store.heap))")
                writer.line(f"{kept[0]} = {head}")

    def results(self, writer: Writer, layout: StoreLayout, entry: str) -> list[Value]:
        """The results, one value per aggregate, from a record."""
        made = []
        for aggregate, parts in zip(self.aggregates, self.fields, strict=True):
            fields = {part.role: layout.value(part.field, entry) for part in parts}
            count = fields.get("count")
            valid = None if count is None else writer.let(f"{count.word} > 0", "n")
            if aggregate.kind == "count":
                made.append(fields["count"])
            elif aggregate.kind == "mean":
                total = writer.let(f"float({fields['total'].word})")
                mean = writer.let("0.0")
                with writer.block(f"if {count.word} > 0:"):
                    writer.line(f"{mean} = {total} / {count.word}")
                made.append(Value(fields["total"].type, (mean,), valid))
            else:
                value = fields.get("total", fields.get("value"))
                made.append(Value(value.type, value.words, valid))
        return made


def _neutral(kind: str, of: DataType) -> str:
    """What min or max starts from, so that no flag is needed where values are never null."""
    least = kind == "max"
    if of.is_float:
        return "(-INFINITY)" if least else "NAN"
    if of.name == "bool":
        return repr(not least)
    stored = int64 if of.name == "uint64" or not of.is_whole else of
    return f"({stored.integer_range[0 if least else 1]})"


def _extreme(
    writer: Writer, kind: str, field: Value, given: Value, valid: str | None, seen: str | None
) -> Update:
    """min or max: strings by their bytes, floats with NaN above all numbers."""
    sign = "<" if kind == "min" else ">"
    if field.type.is_text:
        better = f"compare_words({', '.join(given.words + field.words)}) {sign} 0"
    elif field.type.is_float:
        pair = (given.word, field.word) if kind == "min" else (field.word, given.word)
        better = f"float_less({', '.join(pair)})"
    else:
        better = f"{given.word} {sign} {field.word}"
    if seen is not None:
        better = f"{seen} == 0 or {better}"
    if valid is not None:
        better = f"{valid} and ({better})"
    if field.type.is_text:
        return Update(field, given.words, writer.let(better, "b"))
    value = writer.let(f"{given.word} if {better} else {field.word}")
    return Update(field, (value,))
