"""Arithmetic of 64 bits inside functions, for hashes and random numbers: what does not fit is cut.

    >>> from headrace import wrapping
    >>> wrapping.multiply(2**62, 6), wrapping.add(2**63 - 1, 1) == -(2**63)
    (-9223372036854775808, True)

Everywhere else a result that does not fit in 64 bits is an OverflowError. They work in compiled
functions and in plain Python; bits are combined with `&`, `|`, `^` and `>>`, which always fit.
"""

from __future__ import annotations

from .stage.memory.instructions import shift_right as _shift_right
from .stage.memory.instructions import signed as _signed
from .stage.memory.records import compiled

__all__ = ["add", "left_shift", "multiply", "right_shift", "subtract"]

_BITS = 63  # of a place


@compiled
def add(a, b):  # type: ignore[no-untyped-def]
    """The low 64 bits of a sum.

    >>> add(2**63 - 1, 2)
    -9223372036854775807
    """
    return _signed(a + b)


@compiled
def subtract(a, b):  # type: ignore[no-untyped-def]
    """The low 64 bits of a difference.

    >>> subtract(-(2**63), 1)
    9223372036854775807
    """
    return _signed(a - b)


@compiled
def multiply(a, b):  # type: ignore[no-untyped-def]
    """The low 64 bits of a product.

    >>> multiply(6364136223846793005, 3)
    645664597830827399
    """
    return _signed(a * b)


@compiled
def left_shift(a, bits):  # type: ignore[no-untyped-def]
    """The low 64 bits, moved up by 0 to 63.

    >>> left_shift(3, 62)
    -4611686018427387904
    """
    return _signed(a << (bits & _BITS))


@compiled
def right_shift(a, bits):  # type: ignore[no-untyped-def]
    """The 64 bits, moved down by 0 to 63, with zeros in front: `a >> bits` keeps the sign.

    >>> right_shift(-1, 60)
    15
    """
    return _shift_right(a, bits & _BITS)
