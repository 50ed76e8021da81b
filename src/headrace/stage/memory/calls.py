"""Calls of compiled functions by their address, as a worker does that knows no kernel by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .extensions import extension
from .modes import Compiled, is_compiled

_functions: dict[int, Callable[[int], int]] = {}  # for the interpreted mode


def address_of(function: Any) -> int:
    """The address of a compiled function of one integer, which gives an integer.

    The function must live as long as the address is used. A plain function gets a number that
    only the interpreted `call` understands.
    """
    if not is_compiled(function):
        address = id(function)
    elif isinstance(function, Compiled):
        code = function.load(int)
        if code is None or code.result != "integer":
            raise TypeError(f"{function} does not give an integer")
        address = code.address
    else:
        from numba import types

        function.compile((types.int64,))
        compiled = function.overloads[(types.int64,)]
        address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    _functions[address] = function
    return address


def call(address: int, argument: int) -> tuple[int, int]:
    """(status, result) of a function at an address; a status other than 0 is an exception.

    >>> from headrace.stage.memory.modes import compiled
    >>> double = compiled(lambda x: 2 * x)
    >>> call(address_of(double), 21)
    (0, 42)
    """
    try:
        return 0, _functions[address](argument)
    except Exception:
        return 1, 0


@extension
def _register() -> None:
    from . import call_types  # noqa: F401
