"""Expressions against a schema: user functions get their types, mistakes get their place.

Only the compiler knows what a Python function gives, and it lies above the plan. So who builds a
plan hands in a `FunctionChecker`; `headrace.stream` hands in `stage.functions.check`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol

from .errors import PipelineError
from .expression_types import ExpressionError, type_of
from .expressions import (
    COMPARISONS,
    Binary,
    Builtin,
    Call,
    Cast,
    Coalesce,
    Expression,
    IsIn,
    Literal,
    UnboundCall,
)
from .functions import Function, StateSpec, Wanted
from .literals import to_literal
from .schema import Schema
from .site import Site
from .types import DataType


class FunctionChecker(Protocol):
    """Checks that a user function compiles for argument types, and finds what it gives."""

    def __call__(
        self,
        callable: Callable[..., Any],
        inputs: Sequence[DataType],
        *,
        operator: str,
        site: Site,
        generator: bool,
        state: StateSpec | None = None,
        declared: Sequence[DataType] | None = None,
        names: Sequence[str] | None = None,
        asides: Mapping[str, Wanted] | None = None,
    ) -> Function:
        """The checked function; a PipelineError where it cannot be compiled."""
        ...


def bind(
    expression: Expression, schema: Schema, operator: str, site: Site, check: FunctionChecker
) -> Expression:
    """The expression with every call of a user function resolved against a schema.

    >>> from .expressions import Column
    >>> from .site import Site
    >>> def check(function, inputs, **rest):
    ...     return Function("twice", "f1", ("x",), tuple(inputs), False, tuple(inputs))
    >>> call = UnboundCall(lambda x: 2 * x, "twice", (Column("a"),), None, Site("p.py", 1))
    >>> bound = bind(call, Schema.of({"a": int}), "filter", Site("p.py", 1), check)
    >>> bound.function.outputs
    (int64,)
    """
    expression = expression.rebuild(lambda part: bind(part, schema, operator, site, check))
    if not isinstance(expression, UnboundCall):
        return _with_decimals(expression, schema, operator, site)
    inputs = [column_type(part, schema, operator, expression.site) for part in expression.operands]
    function = check(
        expression.callable,
        inputs,
        operator=operator,
        site=expression.site,
        generator=False,
        declared=None if expression.returns is None else [expression.returns],
    )
    if len(function.outputs) != 1:
        raise PipelineError(
            f"{function.name} gives {len(function.outputs)} values, and an expression has one",
            operator=operator,
            site=expression.site,
            fix="use stream.map(...) to make several columns",
        )
    return Call(function, expression.operands)


def _with_decimals(expression: Expression, schema: Schema, operator: str, site: Site) -> Expression:
    """Casts of decimals are functions over whole columns; constants take the type of the decimals
    that they stand beside."""

    def beside(constant: Any, other: Expression) -> Any:
        kind = column_type(other, schema, operator, site)
        exact = isinstance(constant, Literal) and isinstance(constant.value, int | Decimal)
        if not exact or not kind.is_decimal:
            return constant
        try:
            return to_literal(constant.value, kind)
        except ExpressionError as error:
            fix = "give it as many digits, or cast the column to float"
            raise PipelineError(error.what, operator=operator, site=site, fix=fix) from None

    match expression:
        case Cast(operand, target, strict):
            kind = column_type(operand, schema, operator, site)
            if (kind.is_decimal or target.is_decimal) and kind.name != target.name:
                return Builtin("cast" if strict else "try_cast", (operand,), type=target)
        case Binary(op, left, right) if op in COMPARISONS:
            return Binary(op, beside(left, right), beside(right, left))
        case Coalesce(operand, other):
            return Coalesce(operand, beside(other, operand))
        case IsIn(operand, choices):
            return IsIn(operand, tuple(beside(choice, operand) for choice in choices))
    return expression


def column_type(expression: Expression, schema: Schema, operator: str, site: Site) -> DataType:
    """The type of an expression that becomes a column or an argument; else a PipelineError."""
    try:
        return type_of(expression, schema)
    except ExpressionError as error:
        raise PipelineError(error.what, operator=operator, site=site, fix=error.fix) from None
