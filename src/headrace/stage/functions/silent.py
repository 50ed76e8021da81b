"""What Numba compiles to something else than Python means, without a word: refused here, or put
right. Whole numbers of more than 64 bits raise: see `whole`."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import overload

from headrace.plan.site import Site
from headrace.stage.functions.fingerprint import instructions
from headrace.stage.functions.handlers import caught_as
from headrace.stage.functions.refusals import (
    WAY_OUT,
    Refusal,
    find_site,
    line_site,
    without_colours,
)
from headrace.stage.functions.whole import checked_abs, checked_pow
from headrace.stage.memory.arithmetic import float_to_int
from headrace.stage.memory.numba_internals import Dispatcher, NumbaWarning, ir
from headrace.stage.strings.text_numbers import float_of_str, float_of_words, int_of_str
from headrace.stage.strings.text_types import TextType

_POWERS = (operator.pow, operator.ipow, pow, checked_pow)
_HAVE_TEXT = (
    types.Integer,
    types.Float,
    types.Boolean,
    types.UnicodeType,
    types.StringLiteral,
    TextType,
)


def _checked_int(x=0, base=10):
    return int(x)


def _checked_float(x=0.0):
    return float(x)


def _checked_round(x, digits=None):
    return round(x, digits)


@overload(_checked_int)
def _overload_int(x=0, base=10):
    if isinstance(x, types.Float):
        return lambda x=0, base=10: float_to_int(x)
    if isinstance(x, types.UnicodeType) and isinstance(base, int | types.Omitted):
        return lambda x=0, base=10: int_of_str(x)
    if isinstance(base, int | types.Omitted):
        return lambda x=0, base=10: int(x)
    return lambda x=0, base=10: int(x, base)


@overload(_checked_float)
def _overload_float(x=0.0):
    if isinstance(x, TextType):
        return lambda x=0.0: float_of_words(x.head, x.tail)
    if isinstance(x, types.UnicodeType):
        return lambda x=0.0: float_of_str(x)
    return lambda x=0.0: float(x)


@overload(_checked_round)
def _overload_round(x, digits=None):
    if digits is not None and not isinstance(digits, types.Omitted | types.NoneType):
        return lambda x, digits=None: round(x, digits)
    if isinstance(x, types.Float):
        return lambda x, digits=None: float_to_int(np.rint(x))
    return lambda x, digits=None: round(x)


# Builtins that give any number for what Python refuses (the int of a NaN), and better ones.
_REPLACED = {
    "abs": checked_abs,
    "float": _checked_float,
    "int": _checked_int,
    "pow": checked_pow,
    "round": _checked_round,
}
for _name, _function in _REPLACED.items():
    _function.__name__ = _name


def replaced_builtins(function: FunctionType) -> dict[str, Any]:
    """What to put in place of the builtins that a function uses.

    >>> sorted(replaced_builtins(lambda x: int(x) + min(x, 3)))
    ['int']
    """
    loads = [i for i, _ in instructions(function.__code__) if i.opname == "LOAD_GLOBAL"]
    passed_on = {
        i.argval for i in loads if not (i.arg or 0) & 1
    }  # not just called, as in dtype=int
    used = {i.argval for i in loads} - passed_on - set(function.__globals__)
    return {name: made for name, made in _REPLACED.items() if name in used} | caught_as(function)


@contextmanager
def quiet() -> Iterator[None]:
    """Compile without Numba's warnings, which are about its inside and not for users."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaWarning)
        yield


@contextmanager
def assigned_variables(functions: Sequence[FunctionType]) -> Iterator[None]:
    """Compile; refuse functions that use a variable which may have no value, not even a wrong one.

    Numba knows of them, and tells if asked to warn; without that they hold anything.
    """
    before = numba.config.ALWAYS_WARN_UNINIT_VAR
    numba.config.ALWAYS_WARN_UNINIT_VAR = 1
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", NumbaWarning)
            yield
    finally:
        numba.config.ALWAYS_WARN_UNINIT_VAR = before
    for warning in seen:
        text = without_colours(warning.message)
        said, _, name = text.partition("\n")[0].rpartition(" ")
        if said != "Detected uninitialized variable":
            continue
        assert isinstance(warning.message, Warning)
        site = find_site(warning.message, text, functions)
        if site is not None:  # else it is inside of Numba
            name = name.partition(".")[0]
            what = f"uses {name!r}, which may have no value there"
            where = _checked_by_python(name, site, functions) or site
            raise Refusal(what, where, f"give it a value on every path, {WAY_OUT}")


def _checked_by_python(name: str, near: Site, functions: Sequence[FunctionType]) -> Site | None:
    """The first line, from one in the same function on, where Python looks whether a variable has a
    value. Numba may name the loop before it; Python 3.11 looks everywhere, and does not say so."""
    for step, code in (each for f in functions for each in instructions(f.__code__)):
        line = step.positions.lineno if step.positions else None
        if step.opname == "LOAD_FAST_CHECK" and step.argval == name and line is not None:
            if code.co_firstlineno <= near.line <= line:
                return line_site(code, line)
    return None


def check_meaning(dispatcher: Dispatcher) -> None:
    """Refuse a compiled function in which something does not mean what it means in Python."""
    for compiled in dispatcher.overloads.values():
        typed = compiled.type_annotation
        _check_frame(compiled.signature.return_type, dispatcher, typed)
        for target, value in _assignments(typed):
            if isinstance(value, ir.Expr):
                found = _strange(value, typed)
                if found is not None:
                    site = line_site(dispatcher.py_func.__code__, target.loc.line)
                    raise Refusal(found[0], site, f"{found[1]}, {WAY_OUT}")


def _assignments(typed: Any) -> Iterator[tuple[ir.Var, Any]]:
    for block in typed.blocks.values():
        for assigned in block.find_insts(ir.Assign):
            yield assigned.target, assigned.value


def _strange(value: ir.Expr, typed: Any) -> tuple[str, str] | None:
    """What is strange about an operation, and what to write instead."""
    function, operands = _operation(value, typed)
    kinds = [typed.typemap[operand.name] for operand in operands]
    if function in _POWERS and all(isinstance(kind, types.Integer) for kind in kinds[:2]):
        if getattr(kinds[1], "literal_value", -1) < 0:  # may be negative: then Python has a float
            return "raises an integer to a power that may be negative", "write float(x) ** y"
    if function in (str, repr, format) and kinds and not isinstance(kinds[0], _HAVE_TEXT):
        return f"makes text of {_said(kinds[0])}, which Numba cannot", "give the number itself"
    if function is operator.invert and isinstance(kinds[0], types.Boolean):
        return "uses ~ on a bool, which is a number in Python", "write `not x`"
    return None


def _operation(value: ir.Expr, typed: Any) -> tuple[Callable[..., Any] | None, list[ir.Var]]:
    if value.op in ("binop", "inplace_binop"):
        return value.fn, [value.lhs, value.rhs]
    if value.op == "unary":
        return value.fn, [value.value]
    if value.op == "call":
        called = typed.typemap.get(value.func.name)
        return getattr(called, "typing_key", None), list(value.args)
    return None, []


def _said(kind: types.Type) -> str:
    return "a value that may be None" if isinstance(kind, types.Optional) else f"a {kind}"


def _check_frame(result: types.Type, dispatcher: Dispatcher, typed: Any) -> None:
    """Generators that keep what Numba cannot keep across a yield would crash."""
    if not isinstance(result, types.Generator) or not any(map(_is_fragile, result.state_types)):
        return
    for target, _ in _assignments(typed):
        if _is_fragile(typed.typemap.get(target.name)):
            raise Refusal(
                "yields inside a loop over a dict or an nditer, which Numba cannot do",
                line_site(dispatcher.py_func.__code__, target.loc.line),
                f"loop over a list, as in `for key in list(d.keys())`, {WAY_OUT}",
            )


def _is_fragile(kind: Any) -> bool:
    """Is this an iterator whose place in its container is lost when a generator stops?"""
    if isinstance(kind, types.DictIteratorType | types.NumpyNdIterType):
        return True
    sources = getattr(kind, "source_types", (getattr(kind, "source_type", None),))
    return any(_is_fragile(source) for source in sources if source is not None)
