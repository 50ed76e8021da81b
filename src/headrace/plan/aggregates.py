"""What an aggregate keeps for a key: accumulators, which partial results carry over an exchange."""

from __future__ import annotations

from dataclasses import dataclass

from .expression_types import type_of
from .expressions import Aggregate
from .schema import HIDDEN_PREFIX, Field, Schema
from .types import DataType, float64, int64


@dataclass(frozen=True)
class Accumulator:
    """One kept value. role: "count" (of rows, or of values not null), "total" or "value"."""

    number: int  # of the aggregate
    role: str
    type: DataType

    @property
    def field(self) -> str:
        """Its name in a record."""
        return f"{self.role}_{self.number}"

    @property
    def column(self) -> str:
        """Its name as a column of partial results; hidden, so that it meets no user's name."""
        return f"{HIDDEN_PREFIX}{self.field}"


def accumulators(
    aggregates: tuple[Aggregate, ...], rows: Schema
) -> tuple[tuple[Accumulator, ...], ...]:
    """The accumulators of each aggregate over rows of a schema.

    >>> from headrace.plan.expressions import Column
    >>> (mean,) = accumulators((Aggregate("mean", Column("x")),), Schema.of({"x": int}))
    >>> [(part.field, part.type) for part in mean]
    [('total_0', int64), ('count_0', int64)]
    """
    return tuple(_parts(k, aggregate, rows) for k, aggregate in enumerate(aggregates))


def _parts(k: int, aggregate: Aggregate, rows: Schema) -> tuple[Accumulator, ...]:
    count = Accumulator(k, "count", int64)
    if aggregate.kind == "count":
        return (count,)
    assert aggregate.operand is not None
    kind = type_of(aggregate.operand, rows)
    total = Accumulator(k, "total", int64 if kind.is_integer else float64)
    if aggregate.kind == "mean":
        return total, count
    if aggregate.kind == "sum":
        return (total, count) if kind.nullable else (total,)
    value = Accumulator(k, "value", kind.required)
    return (value, count) if kind.nullable or kind.is_text else (value,)


def merges_exactly(aggregates: tuple[Aggregate, ...], rows: Schema) -> bool:
    """Do partial results in any order give the same result? Floating sums do not."""
    return all(
        not (part.role == "total" and part.type.is_float)
        for parts in accumulators(aggregates, rows)
        for part in parts
    )


def partial_schema(
    keys: Schema, time: Field, aggregates: tuple[Aggregate, ...], rows: Schema
) -> Schema:
    """The columns of partial results: key, window start, accumulators."""
    parts = [
        Field(part.column, part.type) for parts in accumulators(aggregates, rows) for part in parts
    ]
    return Schema((*keys.fields, time, *parts))
