"""What happens to rows that an operator fails on: `on_error=`, and dead letters as a stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from .asides import emitter_of
from .by_column import uses_columns
from .checks import Place
from .errors import PipelineError
from .expression_types import can_fail
from .nodes import (
    DEAD_LETTER,
    ERROR_MESSAGE,
    ERROR_OPERATOR,
    FAIL,
    SKIP,
    DeadLetters,
    Filter,
    Node,
    Project,
    extended,
)
from .schema import Field
from .types import string

Made = TypeVar("Made", bound=Node)


def tolerating(node: Made, on_error: Any) -> Made:
    """The same operator; what it does with rows that it fails on."""
    if on_error == FAIL:
        return node
    if on_error not in (SKIP, DEAD_LETTER):
        raise _mistake(
            node,
            f"on_error={on_error!r} says nothing about rows that fail",
            f'use "{FAIL}", "{SKIP}" or "{DEAD_LETTER}"',
        )
    expressions = []
    if isinstance(node, Filter):
        expressions = [node.predicate]
    elif isinstance(node, Project):
        expressions = [made for _, made in node.columns]
    for made in expressions:
        if uses_columns(made) and can_fail(made, node.inputs[0].schema):
            raise _mistake(
                node,
                f"{made} is computed over whole columns, so no single row can be left out",
                "make it null, with strict=False or null_on_oob=True, and filter on is_not_null()",
            )
    return replace(node, on_error=on_error)


def dead_letters(node: Node, name: str | None = None) -> DeadLetters:
    """The rows that an operator failed on."""
    place = Place("dead_letters", name)
    node = emitter_of(node)
    if node.on_error != DEAD_LETTER:
        raise place.error(
            f"{node.written} keeps no rows that it fails on",
            f'give it on_error="{DEAD_LETTER}", and keep the stream that it gives in a variable',
        )
    rows = node.inputs[0].schema
    told = [Field(ERROR_OPERATOR, string), Field(ERROR_MESSAGE, string)]
    schema = place.schema(extended(rows, *told), "rename it before the operator that may fail")
    return DeadLetters((node,), schema, place.name, site=place.site)


def _mistake(node: Node, what: str, fix: str) -> PipelineError:
    return PipelineError(what, operator=node.written, site=node.site, fix=fix)
