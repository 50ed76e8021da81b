"""The two lives of a function: compiled by Numba, and interpreted, from one source."""

from __future__ import annotations

import hashlib
import importlib.resources
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

from numba import njit
from numba.core.dispatcher import Dispatcher

# ---- compiled ------------------------------------------------------------------------------


@cache
def digest() -> str:
    """A hash of the modules of this package, on which compiled functions depend without Numba's
    disk cache knowing.

    The packages inside it are not covered: they write the text of kernels, and a kernel's cache
    goes by its text.

    >>> len(digest())
    16
    """
    return _folder_digest(importlib.resources.files("headrace.stage"))


def _folder_digest(folder: Any) -> str:
    total = hashlib.sha256()
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py"):
            total.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]


@cache
def _stamp(filename: str) -> str:
    """What a function of a file depends on besides the file: this package, and its own if it
    belongs to headrace."""
    folder = Path(filename).resolve().parent
    ours = Path(__file__).resolve().parents[1] in folder.parents
    return digest() + (_folder_digest(folder) if ours else "")


def compiled(function: Callable) -> Any:
    """`njit(nogil=True, cache=True)`, whose disk cache also misses when code of this package has
    changed: Numba itself sees only changes of the function's own file."""
    filename = function.__code__.co_filename
    if not Path(filename).exists():  # typed at a prompt: nothing to cache by
        return njit(nogil=True)(function)
    made = njit(nogil=True, cache=True)(function)
    file = made._cache._cache_file
    file._source_stamp = (file._source_stamp, _stamp(filename))
    return made


# ---- interpreted ---------------------------------------------------------------------------


def interpreted(function: Callable, **swap: Any) -> Callable:
    """The same code with every compiled function that it calls interpreted too.

    swap: name=value puts another function or value in place of a global, to plant a bug.

    >>> @compiled
    ... def double(x):
    ...     return 2 * x
    >>> @compiled
    ... def twice(x):
    ...     return double(double(x))
    >>> twice(5), interpreted(twice)(5), interpreted(twice, double=lambda x: x)(5)
    (20, 20, 5)
    """
    return _Interpreter(swap).twin(function)


class _Interpreter:
    """Makes interpreted twins, each function once, so that recursion ends."""

    def __init__(self, swap: dict[str, Any]) -> None:
        self.swap, self.twins = swap, {}

    def twin(self, function: Any) -> Callable:
        function = self.swap.get(function.__name__, function)
        function = getattr(function, "py_func", function)
        if not isinstance(function, FunctionType):
            return function
        if function not in self.twins:
            self._make(function)
        return self.twins[function]

    def _make(self, function: FunctionType) -> None:
        world = {"__builtins__": __builtins__, "__name__": function.__module__}
        cells = tuple(CellType() for _ in function.__closure__ or ())
        made = FunctionType(
            function.__code__, world, function.__name__, function.__defaults__, cells or None
        )
        made.__kwdefaults__, made.__doc__ = function.__kwdefaults__, function.__doc__
        self.twins[function] = made
        for name in _names(function.__code__):
            if name in self.swap or name in function.__globals__:
                world[name] = self._value(self.swap.get(name, function.__globals__.get(name)))
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self._value(original.cell_contents)
            except ValueError:  # not assigned yet
                continue

    def _value(self, value: Any) -> Any:
        return self.twin(value) if isinstance(value, Dispatcher) else value


def _names(code: CodeType) -> set[str]:
    """The global names that a function and the functions inside it use."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(_names, inner))
