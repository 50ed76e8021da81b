"""The two modes of a function: compiled by Numba, and interpreted, from one source."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache as cache_result
from functools import cached_property, update_wrapper
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

from headrace.stage import cache
from headrace.stage.memory import machine_code
from headrace.stage.memory.extensions import register_extensions
from headrace.stage.memory.machine_code import MachineCode

# What the names of modules of this package, and of kernels of its making, begin with.
OURS = ("headrace.", "headrace_cached_")

# ---- compiled ------------------------------------------------------------------------------


def compiled(function: Callable) -> Any:
    """`njit(nogil=True, cache=True)`, with a disk cache that never serves old code.

    Numba itself sees only changes of the function's own file. So machine code of this package lies
    in the cache folder of its very version, and that of a generated kernel is named by its text.
    """
    place = _cache_place(function.__code__.co_filename)
    may_compile = not os.environ.get("NUMBA_DISABLE_JIT")  # or Numba says what that means
    if may_compile and place is not None and _is_named(function):
        return Compiled(function, place)
    return _numbas().dispatcher(function, place)


def is_compiled(value: Any) -> bool:
    """Did `compiled`, or Numba itself, make it?"""
    return isinstance(value, Compiled) or hasattr(value, "py_func")


class Compiled:
    """A function of this package, or of a kernel of its making, in its compiled mode.

    Called with words it is machine code, which is loaded from the cache without the compiler. With
    other arguments, and for compiled code that calls it, it is one of Numba's dispatchers.
    """

    def __init__(self, function: Callable, place: str) -> None:
        update_wrapper(self, function)
        self.py_func, self._place = function, place
        self._callers: dict[tuple[type, ...], Callable] = {}  # by the types of the arguments
        self._loaded: dict[tuple[type, ...], MachineCode] = {}

    def __reduce__(self) -> str:
        return self.py_func.__qualname__  # in its module; see pickle

    def __repr__(self) -> str:
        return f"<compiled {self.py_func.__module__}.{self.py_func.__qualname__}>"

    def __call__(self, *given: Any) -> Any:
        kinds = tuple(map(type, given))
        caller = self._callers.get(kinds)
        if caller is None:
            caller = self._callers[kinds] = self._caller(kinds)
        return caller(*given)

    def _caller(self, kinds: tuple[type, ...]) -> Callable:
        if all(kind is int or hasattr(kind, "layout_digest") for kind in kinds):
            code = self.load(*kinds)
            if code is not None:
                return code.caller(kinds)
        return self._dispatcher

    def load(self, *kinds: Any) -> MachineCode | None:
        """The machine code for arguments of these types, int or a record class, from the cache or
        from Numba; None: the result is not a word."""
        with _loading:
            found = self._loaded.get(kinds)
            if found is None:
                name = f"{self.py_func.__module__}.{self.py_func.__qualname__}"
                words = ["int" if kind is int else kind.layout_digest for kind in kinds]
                key = name, " ".join(words)
                found = machine_code.load(*key)
                if found is None:
                    found = _numbas().compile_words(self.py_func, kinds, *key, self._place)
                if found is not None:
                    self._loaded[kinds] = found
            return found

    @cached_property
    def _dispatcher(self) -> Any:
        return _numbas().dispatcher(self.py_func, self._place)

    @property
    def _numba_type_(self) -> Any:
        """What compiled code that calls it sees."""
        return _numbas().as_bitcode(self.py_func)._numba_type_


_loading = threading.RLock()


def _numbas() -> Any:
    """The side of Numba, which takes long to load."""
    register_extensions()
    from headrace.stage.memory import dispatching

    return dispatching


def _is_named(function: Callable) -> bool:
    """Do module and name stand for the function, and for all that it uses?"""
    inside_another = "<" in function.__qualname__
    return not inside_another and function.__module__.startswith(OURS)


@cache_result
def _cache_place(filename: str) -> str | None:
    """The cache folder for functions of a file, as Numba is told. "": beside the file. None: they
    were typed at a prompt, and there is nothing to cache by."""
    if not os.path.exists(filename):
        return None
    folder = cache.folder()
    if folder in Path(filename).parents:
        return os.environ.get("NUMBA_CACHE_DIR", "")
    return str(folder / "library")


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
        self.swap = swap
        self.twins: dict[Any, Any] = {}

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
        return self.twin(value) if is_compiled(value) else value


def _names(code: CodeType) -> set[str]:
    """The global names that a function and the functions inside it use."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(_names, inner))
