"""How compiled functions become machine code: the whole at once, not part by part.

Numba optimizes every function by itself, with all that it calls, and again inside each of its
callers; the loop of a worker calls a hundred small functions, several deep. Here a function that
only other compiled code calls stays a *part*: code that is not optimized and has no machine code.
What is called from outside is a *whole*: it is linked with all parts that it needs, and optimized
once. That takes a fraction of the time, and LLVM sees as much as before.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding as llvm
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import CPUCodeLibrary, JITCodeLibrary
from numba.core.compiler import CompileResult


class _NoEnvironment:
    """Stands for the code generator where Numba tells machine code its environment."""

    def set_env(self, env_name: str, env: Any) -> None:
        """There is no machine code yet."""


class PartLibrary(JITCodeLibrary):
    """The code of one function, to be linked into others."""

    @property
    def codegen(self) -> Any:
        return _NoEnvironment()

    def finalize(self) -> None:
        """Nothing is done before a whole is made of it."""
        self._raise_if_finalized()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = llvm.Linkage.linkonce_odr  # several wholes may hold it
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """For libraries that are no wholes, and for the cache: with all parts that it needs."""
        self._ensure_finalized()
        if self._shared_module is None:
            self._shared_module = self._final_module.clone()
            for library in parts_of(self):
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
    def _unserialize(cls, codegen: Any, state: tuple[str, bytes]) -> PartLibrary:
        name, bitcode = state
        made = cls(codegen, name)
        made._final_module = made._shared_module = llvm.parse_bitcode(bitcode)
        made._finalized = True
        return made


class WholeLibrary(JITCodeLibrary):
    """A function with all that it calls, optimized together."""

    def finalize(self) -> None:
        """Link the parts, optimize, and make machine code."""
        for library in parts_of(self):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(_code_of(library), preserve=True)
        self._linking_libraries = []
        super().finalize()


def _code_of(library: CPUCodeLibrary) -> Any:
    """The code of a library without the parts that it needs."""
    is_part = isinstance(library, PartLibrary)
    return library._final_module if is_part else library._get_module_for_linking()


def parts_of(library: CPUCodeLibrary) -> list[CPUCodeLibrary]:
    """All that a library needs, directly or through its parts: each once, behind all that call it.

    LLVM takes of a part only what the code so far calls, and calls that can never happen are gone
    from it by then. So what two parts need has to wait for both: the first may have been left out.
    """
    seen: set[CPUCodeLibrary] = set()
    callees_first: list[CPUCodeLibrary] = []

    def visit(needed: CPUCodeLibrary) -> None:
        seen.add(needed)
        if needed is library or isinstance(needed, PartLibrary):
            for callee in needed._linking_libraries:
                if callee not in seen:
                    visit(callee)
        callees_first.append(needed)

    visit(library)
    return callees_first[-2::-1]  # without the library itself


# ---- the cache of parts --------------------------------------------------------------------


class _PartTarget:
    """A target context whose code generator loads parts."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def codegen(self) -> Any:
        return self

    def unserialize_library(self, state: Any) -> PartLibrary:
        return PartLibrary._unserialize(self._target.codegen(), state)


class _PartCacheImpl(CompileResultCacheImpl):
    def rebuild(self, target_context: Any, payload: Any) -> CompileResult:
        made = CompileResult._rebuild(_PartTarget(target_context), *payload)
        return made._replace(target_context=target_context)


class PartCache(FunctionCache):
    """The disk cache of parts."""

    _impl_class = _PartCacheImpl


# ---- the cache of functions of words -------------------------------------------------------


class _WordsCacheImpl(CompileResultCacheImpl):
    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        # Python cannot call them, so a dispatcher must not find them in its own cache
        return "words-" + super().get_filename_base(fullname, abiflags)


class WordsCache(FunctionCache):
    """The disk cache of functions that are called with words, and need Numba to be loaded."""

    _impl_class = _WordsCacheImpl
