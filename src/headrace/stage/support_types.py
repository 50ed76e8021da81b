"""Numba's side of `support`."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload, type_callable

from headrace.stage.memory.numba_internals import cgutils, impl_ret_borrowed, lower_builtin

from .support import frame_bytes, only, present, resume, suspend

# ---- optional values and results -----------------------------------------------------------


@intrinsic
def _unwrap(typingctx, value):
    def lower(context, builder, signature, args):
        made = context.cast(builder, args[0], value, value.type)
        return impl_ret_borrowed(context, builder, value.type, made)

    return value.type(value), lower


@overload(present, inline="always")
def _present(value):
    if isinstance(value, types.Optional):
        return lambda value: _unwrap(value)
    if isinstance(value, types.NoneType):
        return lambda value: 0  # of a result that is always None, which nobody reads
    return lambda value: value


@overload(only, inline="always")
def _only(result):
    if isinstance(result, types.BaseTuple):
        return lambda result: result[0]
    return lambda result: result


# ---- generators kept between calls ---------------------------------------------------------


@type_callable(suspend)
def _type_suspend(context):
    return lambda generator, address: types.none if isinstance(generator, types.Generator) else None


@type_callable(resume)
def _type_resume(context):
    return lambda like, address: like if isinstance(like, types.Generator) else None


@type_callable(frame_bytes)
def _type_frame_bytes(context):
    return lambda generator: types.intp if isinstance(generator, types.Generator) else None


def _size(context, generator_type) -> ir.Constant:
    size = context.get_abi_sizeof(context.get_data_type(generator_type))
    return ir.Constant(ir.IntType(64), size)


@lower_builtin(suspend, types.Generator, types.Integer)
def _lower_suspend(context, b, sig, args):
    byte = ir.IntType(8).as_pointer()
    target, source = b.inttoptr(args[1], byte), b.bitcast(args[0], byte)
    cgutils.raw_memcpy(b, target, source, _size(context, sig.args[0]), 1)
    return context.get_dummy_value()


@lower_builtin(resume, types.Generator, types.Integer)
def _lower_resume(context, b, sig, args):
    return b.inttoptr(args[1], args[0].type)


@lower_builtin(frame_bytes, types.Generator)
def _lower_frame_bytes(context, b, sig, args):
    return _size(context, sig.args[0])
