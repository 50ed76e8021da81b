"""What this package uses of Numba that Numba does not promise to keep.

All of it is named here and nowhere else, so that a new release is tried in one place:
`tests/stage/test_numba_internals.py` says which name is gone, and `pyproject.toml` holds back
releases that were not tried. `numba.extending`, `numba.types` and llvmlite's builder are public,
and used where they are needed.
"""

from __future__ import annotations

from numba.core import cgutils, config, ir
from numba.core.byteflow import TraceRunner
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import CPUCodeLibrary, JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError, NumbaWarning, TypingError, UnsupportedBytecodeError
from numba.core.imputils import (
    RefType,
    impl_ret_borrowed,
    impl_ret_new_ref,
    iternext_impl,
    lower_builtin,
    lower_cast,
    lower_getattr_generic,
    lower_setattr_generic,
)
from numba.core.interpreter import Interpreter
from numba.core.lowering import Lower
from numba.core.typeconv import Conversion
from numba.core.typed_passes import (
    InlineOverloads,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.typing.context import BaseContext
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_global,
    signature,
)
from numba.core.untyped_passes import (
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    ReconstructSSA,
    TranslateByteCode,
)
from numba.cpython.unicode import (
    _codepoint_to_kind,
    _empty_string,
    _get_code_point,
    _set_code_point,
)

__all__ = [
    "AbstractTemplate", "AttributeTemplate", "BaseContext", "CPUCodeLibrary", "CompileResult",
    "CompileResultCacheImpl", "CompilerBase", "Conversion", "DefaultPassBuilder", "Dispatcher",
    "FixupArgs", "FunctionCache", "GenericRewrites", "IRLegalization", "IRProcessing",
    "InlineOverloads", "Interpreter", "JITCodeLibrary", "Lower", "NativeLowering",
    "NoPythonBackend", "NopythonTypeInference", "NumbaError", "NumbaWarning", "PassManager",
    "PreLowerStripPhis", "ReconstructSSA", "RefType", "TraceRunner", "TranslateByteCode",
    "TypingError", "UnsupportedBytecodeError", "_codepoint_to_kind", "_empty_string",
    "_get_code_point", "_set_code_point", "cgutils", "config", "impl_ret_borrowed",
    "impl_ret_new_ref", "infer_global", "ir", "iternext_impl", "lower_builtin", "lower_cast",
    "lower_getattr_generic", "lower_setattr_generic", "register_pass", "signature",
]  # fmt: skip
