"""Numba's dispatchers for functions of this package: linked ones, and bitcode for others.

This is where the compiler comes in; a warm start does without (`machine_code`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache as cache_result
from functools import cached_property
from typing import Any

from numba import config, njit, types

from headrace.stage import cache
from headrace.stage.memory import machine_code
from headrace.stage.memory.compiling import BitcodeCompiler, LinkedCompiler
from headrace.stage.memory.linking import BitcodeCache, WordsCache
from headrace.stage.memory.machine_code import MachineCode
from headrace.stage.memory.numba_internals import FunctionCache


def dispatcher(function: Callable, place: str | None) -> Any:
    """What Python calls with any arguments; `place` as Numba is told, None: nothing is cached."""
    if place is None:
        return njit(nogil=True)(function)
    made = _linked(function, place)
    made.get_call_template = lambda *given: as_bitcode(function).get_call_template(*given)
    made.get_overload = lambda signature: as_bitcode(function).get_overload(signature)
    return made


@cache_result
def as_bitcode(function: Callable) -> Any:
    """What other compiled code calls: compiled apart (`linking`), without the ways in from Python
    and C, which take more time to make than the function itself."""
    made = _without_ways_in(function, BitcodeCompiler)
    if _makes_kernels(function):
        made._cache = _CacheLater(BitcodeCache, function, str(cache.folder() / "inside"))
    return made


def _linked(function: Callable, place: str) -> Any:
    made = njit(nogil=True, pipeline_class=LinkedCompiler, no_cfunc_wrapper=True)(function)
    made._cache = _CacheLater(FunctionCache, function, place)
    return made


def _without_ways_in(function: Callable, compiler: type) -> Any:
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(nogil=True, pipeline_class=compiler, **options)(function)


def _makes_kernels(function: Callable) -> bool:
    """Is it something that kernels are made of? Other bitcode is needed only for a few
    functions, and when these are in the cache nobody asks for it."""
    return function.__module__.startswith("headrace.stage.")


# ---- functions of words --------------------------------------------------------------------


def compile_words(
    function: Callable, kinds: tuple[Any, ...], name: str, signature: str, place: str
) -> MachineCode | None:
    """Machine code for arguments of these Python types, also kept for processes without a
    compiler where that can be; None: the result is not a word."""
    made = _without_ways_in(function, LinkedCompiler)
    made._cache = _WordsCache(name, signature, _CacheLater(WordsCache, function, place))
    arguments = tuple(types.int64 if kind is int else kind.numba_type for kind in kinds)
    made.compile(arguments)
    compiled = made.overloads[arguments]
    result = _name_of(compiled.signature.return_type)
    if result is None:
        return None
    address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return MachineCode(address, result, owner=made)


def _name_of(result: types.Type) -> str | None:
    """What a result is in `machine_code.RESULTS`."""
    names = {types.int64: "integer", types.boolean: "flag", types.none: "none"}
    return names.get(types.unliteral(result))


class _WordsCache:
    """Keeps what can be loaded without a compiler as machine code, the rest as Numba does."""

    def __init__(self, name: str, signature: str, numbas: _CacheLater) -> None:
        self._key, self._numbas = (name, signature), numbas

    def load_overload(self, signature: Any, target: Any) -> Any:
        return self._numbas.load_overload(signature, target)

    def save_overload(self, signature: Any, compiled: Any) -> None:
        if not self._keep(compiled):
            self._numbas.save_overload(signature, compiled)

    def _keep(self, compiled: Any) -> bool:
        result, library = _name_of(compiled.signature.return_type), compiled.library
        if result is None or compiled.lifted or compiled.reload_init:
            return False
        if library.has_dynamic_globals:  # addresses of this process
            return False
        entry, code = compiled.fndesc.llvm_func_name, library._get_compiled_object()
        return machine_code.keep(*self._key, entry, result, library._final_module, code)


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
