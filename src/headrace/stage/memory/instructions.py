"""Machine instructions that Numba does not offer, as functions of both modes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from llvmlite import ir

from headrace.stage.memory.extensions import extension

WORD = ir.IntType(64)
BYTE = ir.IntType(8)
BYTES = BYTE.as_pointer()

SIGN = -(2**63)


def register_instruction(
    function: Callable,
    arity: int,
    result: str,
    emit: Callable,
    parameter: str = "int64",
) -> None:
    """Numba: function(*numbers) is `emit(context, b, *values)`, values of the type `parameter`.
    Types are given by their names."""

    @extension
    def register_extensions() -> None:
        from headrace.stage.memory.instruction_types import register_numba

        register_numba(function, arity, result, emit, parameter)


def intrinsic(b, name: str, result: ir.Type, *parameters: ir.Type):
    """An LLVM intrinsic or C function by name, declared in the module being built."""
    from headrace.stage.memory.numba_internals import cgutils

    return cgutils.get_or_insert_function(b.module, ir.FunctionType(result, parameters), name)


def signed(value: int) -> int:
    """The low 64 bits as an int64, which is what compiled code computes with anyway."""
    return (value - SIGN) % 2**64 + SIGN


def word(address: int) -> int:
    """8 bytes at any address, aligned or not."""
    return ctypes.c_int64.from_address(address).value


def half_word(address: int) -> int:
    """4 bytes at any address, as a signed integer."""
    return ctypes.c_int32.from_address(address).value


def shift_right(value: int, bits: int) -> int:
    """Shift in zeros; bits < 64.

    >>> shift_right(-1, 60)
    15
    """
    return signed(value % 2**64 >> bits)


def swap_bytes(value: int) -> int:
    """The bytes in reverse order.

    >>> swap_bytes(1) == 1 << 56
    True
    """
    return int.from_bytes(value.to_bytes(8, "little", signed=True), "big", signed=True)


def bit_length(value: int) -> int:
    """The bits of a value that is not negative.

    >>> bit_length(0), bit_length(63), bit_length(64)
    (0, 6, 7)
    """
    return value.bit_length()


def prefetch(address: int) -> None:
    """A hint that the cache line at an address will be needed at once."""


def copy_bytes(target: int, source: int, count: int) -> None:
    """Copy memory from address to address; the two must not overlap."""
    ctypes.memmove(target, source, count)


def clear_bytes(target: int, count: int) -> None:
    """Fill memory with zeros."""
    ctypes.memset(target, 0, count)


def _emit_half_word(context, b, address):
    half = ir.IntType(32)
    return b.sext(b.load(b.inttoptr(address, half.as_pointer()), align=1), WORD)


def _emit_bit_length(context, b, value):
    zero_is_fine = ir.IntType(1)(0)
    return b.sub(WORD(WORD.width), b.ctlz(value, zero_is_fine))


_ALL_CACHES = 3  # LLVM's degree of locality


def _emit_prefetch(context, b, address):
    number = ir.IntType(32)
    hint = intrinsic(b, "llvm.prefetch.p0", ir.VoidType(), BYTES, number, number, number)
    b.call(hint, [b.inttoptr(address, BYTES), number(0), number(_ALL_CACHES), number(1)])


def _emit_copy(context, b, target, source, count):
    from headrace.stage.memory.numba_internals import cgutils

    cgutils.raw_memcpy(b, b.inttoptr(target, BYTES), b.inttoptr(source, BYTES), count, 1)


def _emit_clear(context, b, target, count):
    from headrace.stage.memory.numba_internals import cgutils

    cgutils.memset(b, b.inttoptr(target, BYTES), count, 0)


register_instruction(signed, 1, "int64", lambda context, b, x: x)
register_instruction(
    word,
    1,
    "int64",
    lambda context, b, a: b.load(b.inttoptr(a, WORD.as_pointer()), align=1),
)
register_instruction(half_word, 1, "int64", _emit_half_word)
register_instruction(shift_right, 2, "int64", lambda context, b, x, bits: b.lshr(x, bits))
register_instruction(swap_bytes, 1, "int64", lambda context, b, x: b.bswap(x))
register_instruction(bit_length, 1, "int64", _emit_bit_length)
register_instruction(prefetch, 1, "none", _emit_prefetch)
register_instruction(copy_bytes, 3, "none", _emit_copy)
register_instruction(clear_bytes, 2, "none", _emit_clear)
