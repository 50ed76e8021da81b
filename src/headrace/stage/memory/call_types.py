"""Numba's side of a call by address."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import type_callable

from headrace.stage.memory.numba_internals import cgutils, lower_builtin

from .calls import call
from .instructions import BYTES, WORD

_STATUS = ir.IntType(32)


@type_callable(call)
def _type_call(context):
    pair = types.UniTuple(types.int64, 2)
    return lambda address, argument: pair if isinstance(address, types.Integer) else None


@lower_builtin(call, types.Integer, types.Integer)
def _lower_call(context, b, sig, args):
    # the way Numba's own functions call each other: int32 f(int64* result, char** error, int64)
    kind = ir.FunctionType(_STATUS, [WORD.as_pointer(), BYTES.as_pointer(), WORD])
    result, error = cgutils.alloca_once(b, WORD), cgutils.alloca_once(b, BYTES)
    b.store(WORD(0), result)
    status = b.call(b.inttoptr(args[0], kind.as_pointer()), [result, error, args[1]])
    return context.make_tuple(b, sig.return_type, [b.sext(status, WORD), b.load(result)])
