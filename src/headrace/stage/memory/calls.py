"""Calls of compiled functions by their address, as a worker does that knows no kernel by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_builtin
from numba.extending import type_callable

from .instructions import WORD
from .lives import Compiled, is_compiled

_STATUS = ir.IntType(32)
_BYTES = ir.IntType(8).as_pointer()
_functions: dict[int, Callable[[int], int]] = {}  # for the interpreted life


def address_of(function: Any) -> int:
    """The address of a compiled function of one integer, which gives an integer.

    The function must live as long as the address is used. A plain function gets a number that
    only the interpreted `call` understands.
    """
    if not is_compiled(function):
        address = id(function)
    elif isinstance(function, Compiled):
        address = function.load()
    else:
        function.compile((types.int64,))
        compiled = function.overloads[(types.int64,)]
        address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    _functions[address] = function
    return address


def call(address: int, argument: int) -> tuple[int, int]:
    """(status, result) of a function at an address; a status other than 0 is an exception.

    >>> from headrace.stage.memory.lives import compiled
    >>> double = compiled(lambda x: 2 * x)
    >>> call(address_of(double), 21)
    (0, 42)
    """
    try:
        return 0, _functions[address](argument)
    except Exception:
        return 1, 0


@type_callable(call)
def _type_call(context):
    pair = types.UniTuple(types.int64, 2)
    return lambda address, argument: pair if isinstance(address, types.Integer) else None


@lower_builtin(call, types.Integer, types.Integer)
def _lower_call(context, b, sig, args):
    # the way Numba's own functions call each other: int32 f(int64* result, char** error, int64)
    kind = ir.FunctionType(_STATUS, [WORD.as_pointer(), _BYTES.as_pointer(), WORD])
    result, error = cgutils.alloca_once(b, WORD), cgutils.alloca_once(b, _BYTES)
    b.store(WORD(0), result)
    status = b.call(b.inttoptr(args[0], kind.as_pointer()), [result, error, args[1]])
    return context.make_tuple(b, sig.return_type, [b.sext(status, WORD), b.load(result)])
