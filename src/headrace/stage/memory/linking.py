"""How compiled functions become machine code: linked first, then optimized once.

Numba optimizes every function by itself, with all that it calls, and again inside each of its
callers; the loop of a worker calls a hundred small functions, several deep. Here a function that
only other compiled code calls stays bitcode, which is not optimized and has no machine code. What
is called from outside is linked with all the bitcode that it needs, and optimized as one module.
That takes a fraction of the time, and LLVM sees as much as before.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding as llvm

from headrace.stage.memory.numba_internals import (
    CompileResult,
    CompileResultCacheImpl,
    CPUCodeLibrary,
    FunctionCache,
    JITCodeLibrary,
)


class _NoEnvironment:
    """Stands for the code generator where Numba tells machine code its environment."""

    def set_env(self, env_name: str, env: Any) -> None:
        """There is no machine code yet."""


class BitcodeLibrary(JITCodeLibrary):
    """The code of one function, to be linked into others."""

    _shared_module: Any

    @property
    def codegen(self) -> Any:
        return _NoEnvironment()

    def finalize(self) -> None:
        """Nothing is done before it is linked."""
        self._raise_if_finalized()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = llvm.Linkage.linkonce_odr  # several modules may hold it
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """For libraries of Numba's own, and for the cache: with all that it needs."""
        self._ensure_finalized()
        if self._shared_module is None:
            self._shared_module = self._final_module.clone()
            for library in callees_of(self):
                self._shared_module.link_in(_code_of(library), preserve=True)
        return self._shared_module

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def get_pointer_to_function(self, name: str) -> int:
        """None: it has no machine code."""
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> tuple[str, bytes]:
        """For the cache."""
        return self.name, self._get_module_for_linking().as_bitcode()

    @classmethod
    def _unserialize(cls, codegen: Any, state: tuple[str, bytes]) -> BitcodeLibrary:
        name, bitcode = state
        made = cls(codegen, name)
        made._final_module = made._shared_module = llvm.parse_bitcode(bitcode)
        made._finalized = True
        return made


class LinkedLibrary(JITCodeLibrary):
    """A function with all that it calls, optimized together."""

    def finalize(self) -> None:
        """Link, optimize, and make machine code."""
        for library in callees_of(self):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(_code_of(library), preserve=True)
        self._linking_libraries: list[Any] = []
        super().finalize()


def _code_of(library: CPUCodeLibrary) -> Any:
    """The code of a library without what it needs."""
    is_bitcode = isinstance(library, BitcodeLibrary)
    return library._final_module if is_bitcode else library._get_module_for_linking()


def callees_of(library: CPUCodeLibrary) -> list[CPUCodeLibrary]:
    """All that a library needs, directly or not: each once, behind all that call it.

    LLVM links only what the code so far calls, and calls that can never happen are gone from it by
    then. So what two libraries need has to wait for both: the first may have been left out.
    """
    seen: set[CPUCodeLibrary] = set()
    callees_first: list[CPUCodeLibrary] = []

    def visit(needed: CPUCodeLibrary) -> None:
        seen.add(needed)
        if needed is library or isinstance(needed, BitcodeLibrary):
            for callee in needed._linking_libraries:
                if callee not in seen:
                    visit(callee)
        callees_first.append(needed)

    visit(library)
    return callees_first[-2::-1]  # without the library itself


# ---- the cache of parts --------------------------------------------------------------------


class _BitcodeTarget:
    """A target context whose code generator loads bitcode."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def codegen(self) -> Any:
        return self

    def unserialize_library(self, state: Any) -> BitcodeLibrary:
        return BitcodeLibrary._unserialize(self._target.codegen(), state)


class _BitcodeCacheImpl(CompileResultCacheImpl):
    def rebuild(self, target_context: Any, payload: Any) -> CompileResult:
        made = CompileResult._rebuild(_BitcodeTarget(target_context), *payload)
        return made._replace(target_context=target_context)


class BitcodeCache(FunctionCache):
    """The disk cache of bitcode."""

    _impl_class = _BitcodeCacheImpl


# ---- the cache of functions of words -------------------------------------------------------


class _WordsCacheImpl(CompileResultCacheImpl):
    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        # Python cannot call them, so a dispatcher must not find them in its own cache
        return "words-" + super().get_filename_base(fullname, abiflags)


class WordsCache(FunctionCache):
    """The disk cache of functions that are called with words, and need Numba to be loaded."""

    _impl_class = _WordsCacheImpl
