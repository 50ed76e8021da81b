"""What an aggregate keeps for a key: accumulators, which partial results carry over an exchange."""

from __future__ import annotations

from dataclasses import dataclass

from .aggregates.kinds import kind_of
from .expression_types import type_of
from .expressions import Aggregate
from .schema import HIDDEN_PREFIX, Field, Schema
from .types import DataType


@dataclass(frozen=True)
class Accumulator:
    """One kept value: a field of a kind of aggregate."""

    number: int  # of the aggregate
    role: str  # the name that its kind has for it
    type: DataType

    @property
    def field(self) -> str:
        """Its name in a record."""
        return f"{self.role}_{self.number}"

    @property
    def column(self) -> str:
        """Its name as a column of partial results; hidden, so that it meets no user's name."""
        return f"{HIDDEN_PREFIX}{self.field}"


def operand_type(aggregate: Aggregate, rows: Schema) -> DataType | None:
    """The type of the values that are aggregated; None: rows are."""
    return None if aggregate.operand is None else type_of(aggregate.operand, rows)


def accumulators(
    aggregates: tuple[Aggregate, ...], rows: Schema
) -> tuple[tuple[Accumulator, ...], ...]:
    """The accumulators of each aggregate over rows of a schema.

    >>> from headrace.plan.expressions import Column
    >>> (total,) = accumulators((Aggregate("sum", Column("x")),), Schema.of({"x": int}))
    >>> [(part.field, part.type) for part in total]
    [('total_0', int64)]
    """
    return tuple(
        tuple(
            Accumulator(k, role, kind)
            for role, kind in kind_of(aggregate).fields(operand_type(aggregate, rows))
        )
        for k, aggregate in enumerate(aggregates)
    )


def merges_exactly(aggregates: tuple[Aggregate, ...], rows: Schema) -> bool:
    """Do partial results in any order give the same result? Floating sums do not."""
    return all(kind_of(a).merges_exactly(operand_type(a, rows)) for a in aggregates)


def ignores_order(aggregates: tuple[Aggregate, ...], rows: Schema) -> bool:
    """Are the results the same, in whatever order rows come?"""
    return all(kind_of(a).ignores_order(operand_type(a, rows)) for a in aggregates)


def reduces(aggregates: tuple[Aggregate, ...]) -> bool:
    """Are partial results smaller than the rows that entered them? A set of values is not."""
    return all(kind_of(aggregate).reduces for aggregate in aggregates)


def partial_schema(
    keys: Schema, pane: Field, aggregates: tuple[Aggregate, ...], rows: Schema
) -> Schema:
    """The columns of partial results: key, pane, accumulators."""
    parts = [
        Field(part.column, part.type) for parts in accumulators(aggregates, rows) for part in parts
    ]
    return Schema((*keys.fields, pane, *parts))
