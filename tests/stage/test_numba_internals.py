"""Numba's private parts: named in one module, and still there in the release that is installed."""

import ast
import inspect
from pathlib import Path

import numba
import pytest

import headrace
from headrace.stage.memory import numba_internals
from headrace.stage.memory.linking import BitcodeLibrary, LinkedLibrary

SOURCES = Path(headrace.__file__).parent

# What our code calls, sets or overrides on classes of Numba's.
ATTRIBUTES = {
    "AttributeTemplate": ("generic_resolve",),
    "BaseContext": ("resolve_function_type",),
    "CPUCodeLibrary": (
        "_codegen", "_ensure_finalized", "_get_compiled_object", "_get_module_for_linking",
        "_optimize_functions", "_raise_if_finalized", "_unserialize", "enable_object_caching",
        "finalize", "has_dynamic_globals", "serialize_using_object_code",
    ),
    "CompileResult": ("_rebuild", "_replace", "fndesc", "library", "lifted", "reload_init"),
    "CompileResultCacheImpl": ("get_filename_base", "rebuild"),
    "CompilerBase": ("compile_extra", "define_pipelines"),
    "DefaultPassBuilder": ("define_nopython_pipeline",),
    "Dispatcher": ("compile", "get_call_template", "get_overload"),
    "FunctionCache": ("_impl_class", "load_overload", "save_overload"),
    "Interpreter": ("get", "op_FORMAT_VALUE", "store"),
    "JITCodeLibrary": ("get_pointer_to_function",),
    "PassManager": ("add_pass", "finalize"),
    "TraceRunner": ("op_FORMAT_VALUE",),
}  # fmt: skip
OF_LIBRARIES = (
    "_final_module",
    "_finalized",
    "_linking_libraries",
    "_reload_init",
    "_shared_module",
)
PASSES = (
    "FixupArgs", "GenericRewrites", "IRLegalization", "IRProcessing", "InlineOverloads",
    "NativeLowering", "NoPythonBackend", "NopythonTypeInference", "PreLowerStripPhis",
    "ReconstructSSA", "TranslateByteCode",
)  # fmt: skip
PUBLIC = ("numba", "numba.extending", "numba.types")


def numba_imports(path):
    """Modules of Numba that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numba":
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == "numba")


def test_private_modules_are_imported_in_one_place():
    found = {
        path.relative_to(SOURCES).as_posix(): sorted(set(numba_imports(path)) - set(PUBLIC))
        for path in SOURCES.rglob("*.py")
    }
    assert [name for name, modules in found.items() if modules] == [
        "stage/memory/numba_internals.py"
    ]


@pytest.mark.parametrize("name", numba_internals.__all__)
def test_names_are_used(name):
    uses = [
        path
        for path in SOURCES.rglob("*.py")
        if path.name != "numba_internals.py" and name in path.read_text()
    ]
    assert uses, f"nobody uses numba_internals.{name}"


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_are_still_there(name):
    owner = getattr(numba_internals, name)
    gone = [each for each in ATTRIBUTES[name] if not hasattr(owner, each)]
    source = "" if not gone else inspect.getsource(owner)
    gone = [each for each in gone if f"self.{each}" not in source]
    assert not gone, f"Numba {numba.__version__}: {name} has no {gone} any more"


def test_passes_have_names():
    unnamed = [each for each in PASSES if not hasattr(getattr(numba_internals, each), "_name")]
    assert not unnamed, f"Numba {numba.__version__}: {unnamed} have no _name any more"


@pytest.mark.parametrize("kind", [BitcodeLibrary, LinkedLibrary])
def test_libraries_have_what_linking_uses(kind):
    @numba.njit
    def one():
        return 1

    one()
    (compiled,) = one.overloads.values()
    library = kind(compiled.library.codegen, "canary")
    gone = [each for each in OF_LIBRARIES if not hasattr(library, each)]
    assert not gone, f"Numba {numba.__version__}: libraries have no {gone} any more"


def test_dispatchers_keep_their_cache_where_we_put_another():
    @numba.njit
    def one():
        return 1

    assert hasattr(one, "_cache"), f"Numba {numba.__version__}: dispatchers have no _cache any more"
