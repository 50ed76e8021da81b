"""Mathematical functions of expressions: those of the C library, the same in both modes.

Nothing here raises where C gives NaN or an infinity, so `sqrt` of a negative number is NaN.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from llvmlite import ir

from headrace.stage.memory.arithmetic import TWO_63, multiply
from headrace.stage.memory.instructions import intrinsic, register_instruction
from headrace.stage.memory.records import compiled

_libm = ctypes.CDLL("libm.so.6")


def _register_c(function: Callable, name: str, arity: int = 1) -> Callable[..., float]:
    """Compiled code calls the C function `name`; gives the same function for the interpreter."""
    double = ir.DoubleType()

    def emit(context, b, *values):
        return b.call(intrinsic(b, name, double, *[double] * arity), values)

    register_instruction(function, arity, "float64", emit, "float64")
    found = getattr(_libm, name.removeprefix("llvm.").removesuffix(".f64"))
    found.restype, found.argtypes = ctypes.c_double, [ctypes.c_double] * arity
    return found


def float_sqrt(x: float) -> float:
    """The square root; NaN of negative numbers.

    >>> float_sqrt(2.25), float_sqrt(-1.0)
    (1.5, nan)
    """
    return _sqrt(x)


def float_exp(x: float) -> float:
    """e to the power of x.

    >>> float_exp(0.0), float_exp(1e9)
    (1.0, inf)
    """
    return _exp(x)


def float_log(x: float) -> float:
    """The natural logarithm; -inf of 0, NaN of negative numbers.

    >>> float_log(1.0), float_log(0.0), float_log(-1.0)
    (0.0, -inf, nan)
    """
    made = _log(x)
    return made if made == made else float("nan")  # C may give a NaN with a sign


def float_log10(x: float) -> float:
    """The logarithm to base 10.

    >>> float_log10(1000.0)
    3.0
    """
    made = _log10(x)
    return made if made == made else float("nan")


def float_power(x: float, y: float) -> float:
    """x to the power of y, as C's pow.

    >>> float_power(2.0, 0.5) == 2**0.5, float_power(0.0, -1.0)
    (True, inf)
    """
    return _pow(x, y)


def float_floor(x: float) -> float:
    """The largest whole number that is not above.

    >>> float_floor(-1.5)
    -2.0
    """
    return _floor(x)


def float_ceil(x: float) -> float:
    """The smallest whole number that is not below.

    >>> float_ceil(-1.5)
    -1.0
    """
    return _ceil(x)


def float_rint(x: float) -> float:
    """The nearest whole number; of two, the even one.

    >>> float_rint(2.5), float_rint(3.5)
    (2.0, 4.0)
    """
    return _rint(x)


_sqrt = _register_c(float_sqrt, "llvm.sqrt.f64")
_exp = _register_c(float_exp, "exp")
_log = _register_c(float_log, "log")
_log10 = _register_c(float_log10, "log10")
_pow = _register_c(float_power, "pow", 2)
_floor = _register_c(float_floor, "llvm.floor.f64")
_ceil = _register_c(float_ceil, "llvm.ceil.f64")
_rint = _register_c(float_rint, "llvm.rint.f64")

EXACT = 2.0**52  # floats from here on are whole numbers
MOST_DECIMALS = 308


@compiled
def round_float(x, decimals):
    """Rounded to some decimals, half to even: the nearest float to the scaled and rounded number.

    >>> round_float(2.346, 2), round_float(2.5, 0), round_float(1234.0, -2)
    (2.35, 2.0, 1200.0)
    """
    if decimals == 0:
        return float_rint(x)
    if decimals < 0:
        scale = float_power(10.0, float(min(-decimals, MOST_DECIMALS)))
        return float_rint(x / scale) * scale
    scale = float_power(10.0, float(min(decimals, MOST_DECIMALS)))
    scaled = x * scale
    if not -EXACT < scaled < EXACT:  # nothing to round, or not a number
        return x
    return float_rint(scaled) / scale


@compiled
def whole_power(x, exponent):
    """x ** exponent of integers, exponent >= 0; OverflowError if it is no int64.

    >>> whole_power(-3, 3), whole_power(0, 0)
    (-27, 1)
    """
    made = 1
    while exponent > 0:
        if exponent & 1:
            made = multiply(made, x)
        exponent >>= 1
        if exponent > 0:
            x = multiply(x, x)
    return made


@compiled
def is_finite(x):
    """Neither NaN nor infinite?

    >>> is_finite(1.0), is_finite(float("inf")), is_finite(float("nan"))
    (True, False, False)
    """
    return x - x == 0.0


@compiled
def float_fits(x):
    """Is there an int64 for a float without its fraction?

    >>> float_fits(-2.9), float_fits(1e19), float_fits(float("nan"))
    (True, False, False)
    """
    return -TWO_63 <= x < TWO_63
