"""Numba's compiler with the steps that our code needs, and into libraries of our own.

What Numba does besides is for array expressions, closures, `literal_unroll` and other things that
the code of this package does without; much of the time of a cold start went there. What users
write is compiled in full.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba import types

from headrace.stage.memory.linking import BitcodeLibrary, LinkedLibrary
from headrace.stage.memory.modes import OURS
from headrace.stage.memory.numba_internals import (
    CompilerBase,
    CompileResult,
    DefaultPassBuilder,
    FixupArgs,
    GenericRewrites,
    InlineOverloads,
    IRLegalization,
    IRProcessing,
    JITCodeLibrary,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PassManager,
    PreLowerStripPhis,
    ReconstructSSA,
    TranslateByteCode,
)

STEPS = (
    TranslateByteCode,
    FixupArgs,
    IRProcessing,
    GenericRewrites,  # of `raise`
    ReconstructSSA,
    NopythonTypeInference,
    PreLowerStripPhis,
    InlineOverloads,  # `present` and `only`, which users' values go through
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
)


class BitcodeCompiler(CompilerBase):
    """Compiles a function that compiled code calls."""

    library_class: type[JITCodeLibrary] = BitcodeLibrary

    def define_pipelines(self) -> list[PassManager]:
        """The one way a function is compiled."""
        state = self.state
        if state.library is None:
            name = state.func_id.func_qualname
            state.library = self.library_class(state.targetctx.codegen(), name)
            state.library.enable_object_caching()
        if not state.func_id.modname.startswith(OURS):  # a user's function
            return [DefaultPassBuilder.define_nopython_pipeline(state)]
        state.type_annotation = ""  # nobody reads it
        state.typingctx = _Remembering(state.typingctx)
        steps = PassManager("headrace")
        for step in STEPS:
            steps.add_pass(step, step._name)
        steps.finalize()
        return [steps]


class LinkedCompiler(BitcodeCompiler):
    """Compiles a function that is called from outside."""

    library_class = LinkedLibrary

    def compile_extra(self, func: Any) -> CompileResult:
        """Compile it, and what it needs."""
        with _no_collection():
            return super().compile_extra(func)


class _Remembering:
    """A typing context that looks up a call of a builtin function with the same types once."""

    _known: dict[Any, Any] = {}

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        if kws or not isinstance(func, types.Function):
            return self._context.resolve_function_type(func, args, kws)
        key = func, tuple(args)
        known = self._known.get(key)
        if known is None:
            known = self._context.resolve_function_type(func, args, kws)
            if known is not None:
                self._known[key] = known
        return known


@contextmanager
def _no_collection() -> Iterator[None]:
    """A compiler makes many objects that live; looking for dead ones takes a sixth of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
