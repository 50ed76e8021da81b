"""The two lives of a function: compiled by Numba, and interpreted, from one source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache as cache_result
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

from numba import config, njit
from numba.core.dispatcher import Dispatcher

from headrace.stage import cache
from headrace.stage.memory.compiling import PartCompiler, WholeCompiler
from headrace.stage.memory.linking import PartCache

# ---- compiled ------------------------------------------------------------------------------


def compiled(function: Callable) -> Any:
    """`njit(nogil=True, cache=True)`, with a disk cache that never serves old code.

    Numba itself sees only changes of the function's own file. So machine code of this package lies
    in the cache folder of its very version, and that of a generated kernel beside its text.

    What other compiled code calls is compiled apart, as a part (`linking`), without the ways in
    from Python and C: they take more time to make than the function itself.
    """
    filename = function.__code__.co_filename
    if not Path(filename).exists():  # typed at a prompt: nothing to cache by
        return njit(nogil=True)(function)
    folder = cache.folder()
    generated = folder in Path(filename).parents
    with _cache_in(config.CACHE_DIR if generated else str(folder / "library")):
        made = njit(nogil=True, cache=True, pipeline_class=WholeCompiler, no_cfunc_wrapper=True)(
            function
        )

    @cache_result
    def inside() -> Any:
        part = njit(
            nogil=True,
            pipeline_class=PartCompiler,
            no_cpython_wrapper=True,
            no_cfunc_wrapper=True,
        )(function)
        if _makes_kernels(function):
            with _cache_in(str(folder / "inside")):
                part._cache = PartCache(function)
        return part

    made.get_call_template = lambda *types: inside().get_call_template(*types)
    made.get_overload = lambda signature: inside().get_overload(signature)
    return made


def _makes_kernels(function: Callable) -> bool:
    """Is it something that kernels are made of? Other parts are needed only for a few wholes,
    and when these are in the cache nobody asks for the parts."""
    return function.__module__.startswith("headrace.stage.")


@contextmanager
def _cache_in(folder: str) -> Iterator[None]:
    before, config.CACHE_DIR = config.CACHE_DIR, folder
    try:
        yield
    finally:
        config.CACHE_DIR = before


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
