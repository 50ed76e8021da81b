"""The two lives of a function: compiled by Numba, and interpreted, from one source."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache as cache_result
from functools import cached_property
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

from numba import config, njit
from numba.core.caching import FunctionCache
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
    place = _cache_place(function.__code__.co_filename)
    if place is None:
        return njit(nogil=True)(function)
    made = njit(nogil=True, pipeline_class=WholeCompiler, no_cfunc_wrapper=True)(function)
    made._cache = _CacheLater(FunctionCache, function, place)

    @cache_result
    def inside() -> Any:
        options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        part = njit(nogil=True, pipeline_class=PartCompiler, **options)(function)
        if _makes_kernels(function):
            part._cache = _CacheLater(PartCache, function, str(cache.folder() / "inside"))
        return part

    made.get_call_template = lambda *types: inside().get_call_template(*types)
    made.get_overload = lambda signature: inside().get_overload(signature)
    return made


def _makes_kernels(function: Callable) -> bool:
    """Is it something that kernels are made of? Other parts are needed only for a few wholes,
    and when these are in the cache nobody asks for the parts."""
    return function.__module__.startswith("headrace.stage.")


@cache_result
def _cache_place(filename: str) -> str | None:
    """The cache folder for functions of a file, as Numba is told. "": beside the file. None: they
    were typed at a prompt, and there is nothing to cache by."""
    if not Path(filename).exists():
        return None
    folder = cache.folder()
    return config.CACHE_DIR if folder in Path(filename).parents else str(folder / "library")


class _CacheLater:
    """A disk cache that is looked for when it is first used: most functions are never compiled by
    themselves, and Numba tries out for each whether it can write to the folder."""

    def __init__(self, kind: type[FunctionCache], function: Callable, place: str) -> None:
        self._kind, self._function, self._place = kind, function, place

    @cached_property
    def _cache(self) -> FunctionCache:
        before, config.CACHE_DIR = config.CACHE_DIR, self._place
        try:
            return self._kind(self._function)
        finally:
            config.CACHE_DIR = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)


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
