"""Where an event time comes from: the column as an expression over each source's own columns.

A watermark is a function of the rows of a source's channel, before any filter. So the time must be
computable from a source's row alone.
"""

from __future__ import annotations

from dataclasses import replace

from .by_column import Explode, uses_columns
from .errors import PipelineError
from .expression_types import can_fail
from .expressions import Cast, Column, Expression, columns_of, substitute
from .nodes import (
    Filter,
    KeyBy,
    Late,
    Node,
    Project,
    Source,
    TableJoin,
    Union,
    Watermark,
    Windowed,
)
from .rebalance import Rebalance


def time_expression(node: Node, column: str) -> list[tuple[Source, Expression]]:
    """For each source below a node, the expression over its columns that gives a column.

    A PipelineError where there is none: behind a flat_map, process, map_batches or window, or
    where the column comes from a table.
    """
    return _derive(node, Column(column), column)


def _derive(node: Node, made: Expression, column: str) -> list[tuple[Source, Expression]]:
    match node:
        case Source():
            if uses_columns(made):
                raise _underivable(
                    node,
                    column,
                    f"{made} is computed over whole columns, behind the source",
                    "read it in the row loop: ISO 8601 with .str.to_datetime(), or numbers with "
                    ".str.slice(...).cast(int)",
                )
            return [(node, made)]
        case Filter() | KeyBy() | Watermark() | Rebalance():
            return _derive(node.input, made, column)
        case Project():
            made = substitute(made, dict(node.columns))
            return _derive(node.input, _or_null(made, node, column), column)
        case Union():
            found: list[tuple[Source, Expression]] = []
            for side in node.inputs:
                for pair in _derive(side, made, column):
                    if pair not in found:  # one stream may be on two sides
                        found.append(pair)
            return found
        case TableJoin():
            taken = columns_of(made) & {output for _, output in node.taken}
            if taken:
                raise _underivable(
                    node,
                    column,
                    f"{sorted(taken)[0]!r} comes from the table {node.table}",
                    "take the event time from the stream: a table's rows have no order in time",
                )
            return _derive(node.input, made, column)
        case Explode() if node.column not in columns_of(made):
            return _derive(node.input, made, column)
        case Late() | Windowed():
            raise _underivable(
                node,
                column,
                "it lies behind a window",
                "declare the event time before the window; its results have 'window_start'",
            )
    raise _underivable(
        node,
        column,
        f"it is made by a {node.kind}",
        f"call with_watermark before the {node.kind}; the event time goes on through it if the "
        "function gives a column of the same name and type",
    )


def _or_null(made: Expression, node: Project, column: str) -> Expression:
    """A column where an operator leaves out rows that it fails on: for them it is null, which
    moves no watermark."""
    if not node.tolerates:
        return made
    made = _without_errors(made)
    if can_fail(made, node.input.schema):
        raise _underivable(
            node,
            column,
            f'{made} can fail, and on_error="{node.on_error}" leaves the row out behind the source',
            "compute the time in an operator of its own, with .cast(..., strict=False) where it is "
            "read from text",
        )
    return made


def _without_errors(made: Expression) -> Expression:
    made = made.rebuild(_without_errors)
    return replace(made, strict=False) if isinstance(made, Cast) else made


def _underivable(node: Node, column: str, why: str, fix: str) -> PipelineError:
    return PipelineError(
        f"the event time {column!r} cannot be computed from the source's columns: {why}",
        operator=node.written,
        site=node.site,
        fix=fix,
    )
