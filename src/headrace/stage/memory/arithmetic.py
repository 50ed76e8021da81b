"""Arithmetic of generated expressions: the same results and errors, compiled and interpreted.

Integers are int64 and never wrap around: what does not fit raises OverflowError.  Division follows
Python (floor, ZeroDivisionError, also for floats).  Error messages are constant, so that nothing
is formatted in a kernel.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable

from llvmlite import ir

from headrace.stage.memory.instructions import WORD, intrinsic, register_instruction
from headrace.stage.memory.records import compiled

LOWEST, HIGHEST = -(2**63), 2**63 - 1
WORD_BITS = 64
TWO_63 = float(2**63)

INTEGER_OVERFLOW = "the result does not fit in int64"
DIVISION_BY_ZERO = "division by zero"


# ---- instructions that Numba does not offer ------------------------------------------------


def _checked(value: int) -> int:
    if not LOWEST <= value <= HIGHEST:
        raise OverflowError(INTEGER_OVERFLOW)
    return value


def _emit_checked(instruction: str) -> Callable:
    def emit(context, b, left, right):
        pair = ir.LiteralStructType([WORD, ir.IntType(1)])
        function = intrinsic(b, f"llvm.{instruction}.with.overflow.i64", pair, WORD, WORD)
        done = b.call(function, [left, right])
        with b.if_then(b.extract_value(done, 1), likely=False):
            context.call_conv.return_user_exc(b, OverflowError, (INTEGER_OVERFLOW,))
        return b.extract_value(done, 0)

    return emit


def add(a: int, b: int) -> int:
    """The sum; OverflowError if it is no int64.

    >>> add(2, 3)
    5
    """
    return _checked(a + b)


def subtract(a: int, b: int) -> int:
    """The difference; OverflowError if it is no int64.

    >>> subtract(2, 3)
    -1
    """
    return _checked(a - b)


def multiply(a: int, b: int) -> int:
    """The product; OverflowError if it is no int64.

    >>> multiply(2, 3)
    6
    """
    return _checked(a * b)


register_instruction(add, 2, "int64", _emit_checked("sadd"))
register_instruction(subtract, 2, "int64", _emit_checked("ssub"))
register_instruction(multiply, 2, "int64", _emit_checked("smul"))


def float_bits(value: float) -> int:
    """The 64 bits of a float, as an int64.

    >>> float_bits(1.0) == 0x3FF << 52
    True
    """
    return ctypes.c_int64.from_buffer(ctypes.c_double(value)).value


def to_float32(value: float) -> float:
    """The nearest number that a float32 can hold.

    >>> to_float32(0.1)
    0.10000000149011612
    """
    return ctypes.c_float(value).value


def _round_trip(context, b, value):
    return b.fpext(b.fptrunc(value, ir.FloatType()), ir.DoubleType())


register_instruction(float_bits, 1, "int64", lambda context, b, x: b.bitcast(x, WORD), "float64")
register_instruction(to_float32, 1, "float64", _round_trip, "float64")


# ---- integers ------------------------------------------------------------------------------


@compiled
def negate(a):
    """Minus a; OverflowError for the lowest int64.

    >>> negate(5)
    -5
    """
    return subtract(0, a)


@compiled
def absolute(a):
    """The absolute value; OverflowError for the lowest int64.

    >>> absolute(-5)
    5
    """
    return subtract(0, a) if a < 0 else a


@compiled
def floor_divide(a, b):
    """a // b of integers, rounded down.

    >>> floor_divide(-7, 2)
    -4
    """
    if b == -1:  # the machine's division traps on lowest // -1
        return subtract(0, a)
    if b == 0:
        raise ZeroDivisionError(DIVISION_BY_ZERO)
    return a // b


@compiled
def remainder(a, b):
    """a % b of integers, with the sign of b.

    >>> remainder(-7, 2)
    1
    """
    if b == -1:
        return 0
    if b == 0:
        raise ZeroDivisionError(DIVISION_BY_ZERO)
    return a % b


@compiled
def left_shift(a, bits):
    """a << bits of integers; OverflowError if it is no int64.

    >>> left_shift(-3, 2), left_shift(0, 100)
    (-12, 0)
    """
    if bits < 0:
        raise ValueError("negative shift count")
    bits = min(bits, WORD_BITS)
    half = bits // 2  # a power of two that is an int64
    return multiply(multiply(a, 1 << half), 1 << (bits - half))


@compiled
def right_shift(a, bits):
    """a >> bits of integers.

    >>> right_shift(-5, 1), right_shift(-5, 100)
    (-3, -1)
    """
    if bits < 0:
        raise ValueError("negative shift count")
    return a >> min(bits, WORD_BITS - 1)


@compiled
def narrow(value, low, high):
    """The value; OverflowError unless low <= value <= high.

    >>> narrow(100, -128, 127)
    100
    """
    if value < low or value > high:
        raise OverflowError("the value does not fit in the narrower type")
    return value


@compiled
def to_signed(stored):
    """A value of uint64 as int64; OverflowError where it is too large.

    It is stored with its highest bit turned, as an int64: so the order of values is theirs.

    >>> to_signed(-(2**63) + 5)
    5
    """
    if stored >= 0:
        raise OverflowError("the value does not fit in int64")
    return stored + 9223372036854775807 + 1


@compiled
def to_unsigned(value):
    """An int64 as uint64 is stored; OverflowError where it is negative.

    >>> to_unsigned(5) == -(2**63) + 5
    True
    """
    if value < 0:
        raise OverflowError("a negative value does not fit in uint64")
    return value - 9223372036854775807 - 1


# ---- floats --------------------------------------------------------------------------------


@compiled
def true_divide(a, b):
    """a / b of floats, or of integers that are made floats first.

    >>> true_divide(1, 4)
    0.25
    """
    divisor = float(b)
    if divisor == 0.0:
        raise ZeroDivisionError(DIVISION_BY_ZERO)
    return float(a) / divisor


@compiled
def float_floor_divide(a, b):
    """a // b of floats.

    >>> float_floor_divide(-7.5, 2.0)
    -4.0
    """
    divisor = float(b)
    if divisor == 0.0:
        raise ZeroDivisionError(DIVISION_BY_ZERO)
    return float(a) // divisor


@compiled
def float_remainder(a, b):
    """a % b of floats, with the sign of b.

    >>> float_remainder(-7.5, 2.0)
    0.5
    """
    divisor = float(b)
    if divisor == 0.0:
        raise ZeroDivisionError(DIVISION_BY_ZERO)
    return float(a) % divisor


@compiled
def float_to_int(value):
    """The integer without the fraction; ValueError for NaN, OverflowError beyond int64.

    >>> float_to_int(-2.9)
    -2
    """
    number = float(value)
    if math.isnan(number):
        raise ValueError("cannot convert NaN to an integer")
    if number < -TWO_63 or number >= TWO_63:
        raise OverflowError("the number does not fit in int64")
    return int(number)


@compiled
def float_less(a, b):
    """a < b in the total order where NaN is larger than every number and -0.0 equals 0.0.

    >>> float_less(1.0, float("nan")), float_less(float("nan"), 1.0)
    (True, False)
    """
    return a < b or (b != b and a == a)


@compiled
def float_order(value):
    """An int64 whose order is the total order of floats: equal exactly for equal floats and NaNs.

    >>> float_order(-1.0) < float_order(-0.0) == float_order(0.0) < float_order(float("nan"))
    True
    """
    if value != value:
        return HIGHEST
    if value == 0.0:
        return 0
    bits = float_bits(value)
    return bits if bits >= 0 else bits ^ HIGHEST  # negative floats grow away from zero
