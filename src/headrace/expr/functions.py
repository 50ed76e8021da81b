"""User functions in expressions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, overload

from ..plan.errors import PipelineError
from ..plan.expressions import UnboundCall
from ..plan.functions import Function
from ..plan.site import caller_site
from ..plan.types import DataType
from .values import Expr, as_node, mistake, type_from


class Udf:
    """A Python function that can be part of an expression; compiled when a pipeline is built."""

    def __init__(self, function: Callable[..., Any], returns: DataType | None) -> None:
        functools.update_wrapper(self, function)
        self.function, self.returns = function, returns

    def __repr__(self) -> str:
        return f"udf({_name(self.function)})"

    def unfinished(self) -> PipelineError:
        """It is a function, not yet a value."""
        name = _name(self.function)
        return mistake(f"the function {name} is used without being called", f"{name}(col(...))")

    def __call__(self, *values: Any, **named: Any) -> Any:
        """An expression if a value is one; else what the Python function gives."""
        if not any(isinstance(value, Expr) for value in (*values, *named.values())):
            return self.function(*values, **named)
        try:
            bound = inspect.signature(self.function).bind(*values, **named)
        except TypeError as error:
            raise mistake(f"{_name(self.function)}: {error}", "") from None
        if bound.kwargs:  # given by keyword, behind one that is left out
            bound.apply_defaults()
        if bound.kwargs:
            raise mistake(
                f"{_name(self.function)} has parameters that can only be given by keyword",
                "leave out the * and ** in its parameters",
            )
        operands = tuple(map(as_node, bound.args))
        name = _name(self.function)
        return Expr(UnboundCall(self.function, name, operands, self.returns, caller_site()))


@overload
def udf(function: Callable[..., Any], /) -> Udf: ...


@overload
def udf(*, returns: Any = None) -> Callable[[Callable[..., Any]], Udf]: ...


def udf(
    function: Callable[..., Any] | None = None, /, *, returns: Any = None
) -> Udf | Callable[[Callable[..., Any]], Udf]:
    """Make a Python function of values usable in expressions, compiled by Numba.

    `returns` is found by the compiler where it is left out. Called with plain values, it is still
    the Python function.

    >>> from headrace.expr import col
    >>> @udf
    ... def clip(x, top):
    ...     return min(x, top)
    >>> clip(col("price"), 100)
    Expr(clip(price, 100))
    >>> clip(300, 100)
    100
    """
    kind = None if returns is None else type_from(returns)
    if function is None:
        return lambda given: _udf(given, kind)
    return _udf(function, kind)


def _udf(function: Callable[..., Any], returns: DataType | None) -> Udf:
    function = plain(function)
    if not callable(function):
        raise mistake(f"@udf needs a function, not {function!r}", "put @hr.udf above a def")
    return Udf(function, returns)


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """The Python function behind a udf; any other function as it is."""
    return function.function if isinstance(function, Udf) else function


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def check_function(
    callable: Callable[..., Any], inputs: Sequence[DataType], **options: Any
) -> Function:
    """Check a user function with the compiler, which is loaded only when there is one to check."""
    from ..stage.functions.checking import check

    checked: Function = check(callable, inputs, **options)
    return checked
