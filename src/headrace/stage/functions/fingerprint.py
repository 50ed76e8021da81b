"""What the machine code of a user's function depends on: a digest of all of it, and a frozen copy.

Both walk the same things: bytecode, constants, closures, defaults, the globals that are used, and
the functions among them. Nothing of the digest depends on the process, the machine, a path or a
line number, so that it can name machine code in a cache that is carried elsewhere.
"""

from __future__ import annotations

import dis
import enum
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import types as numba_types

from headrace.stage.cache import COMPILED_MODULES
from headrace.stage.memory.numba_internals import Dispatcher
from headrace.stage.memory.records import RecordClass

_GLOBAL_LOADS = ("LOAD_GLOBAL", "LOAD_NAME")
_ATTRIBUTE_LOADS = ("LOAD_ATTR", "LOAD_METHOD")
_SCALARS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_FOR_FUNCTIONS = ("headrace", *COMPILED_MODULES)
_MISSING = object()
_STANDARD_LIBRARY = os.path.dirname(os.__file__)


def fingerprint(function: Callable[..., Any]) -> str:
    """A digest of everything that the machine code of a function depends on.

    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1)
    True
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1.0)
    False
    """
    function = plain(function)
    if not isinstance(function, FunctionType):
        raise TypeError(f"{function!r} is not a Python function")
    return hashlib.sha256(repr(_Walk().function(function)).encode()).hexdigest()[:32]


# ---- what a function uses ------------------------------------------------------------------


def codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def instructions(code: CodeType) -> Iterator[tuple[dis.Instruction, CodeType]]:
    """All instructions of a function and of the functions inside it."""
    for inner in codes(code):
        for instruction in dis.get_instructions(inner):
            yield instruction, inner


@cache
def global_names(code: CodeType) -> tuple[str, ...]:
    """The names of the globals and builtins that the code loads, in order of their first use."""
    loads = (i for i, _ in instructions(code) if i.opname in _GLOBAL_LOADS)
    return tuple(dict.fromkeys(i.argval for i in loads))


@cache
def attribute_names(code: CodeType) -> frozenset[str]:
    """The names of all attributes that the code loads, of whatever."""
    return frozenset(i.argval for i, _ in instructions(code) if i.opname in _ATTRIBUTE_LOADS)


def used_globals(function: FunctionType) -> dict[str, Any]:
    """The globals that a function uses and that exist, builtins left out."""
    known = function.__globals__
    return {name: known[name] for name in global_names(function.__code__) if name in known}


def used_cells(function: FunctionType) -> dict[str, Any]:
    """The variables of enclosing functions that a function uses and that are assigned."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def plain(value: Any) -> Any:
    """The Python function behind a function that the user gave to Numba; else the value."""
    return value.py_func if isinstance(value, Dispatcher) and not in_library(value) else value


def is_user_function(value: Any) -> bool:
    """A Python function that is not part of a library that Numba or headrace teaches Numba."""
    return isinstance(plain(value), FunctionType) and not in_library(value)


def is_user_module(value: Any) -> bool:
    """A module whose contents may change between runs."""
    return isinstance(value, ModuleType) and not is_library(value.__name__)


def in_library(value: Any) -> bool:
    """Does a function or class belong to a library, so that its name and version tell all?"""
    value = getattr(value, "py_func", value)
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(value, np.ufunc):
        module, name = "numpy", value.__name__
    elif isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, ModuleType):
        module, name = "numpy.random", value.__name__  # methods of a generator that NumPy hides
    if not isinstance(module, str) or not isinstance(name, str) or not is_library(module):
        return False
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return getattr(found, "py_func", found) is value


@cache
def is_library(module: str) -> bool:
    """Is a module part of Python, NumPy, Numba, or of what headrace itself compiles?"""
    root = module.partition(".")[0]
    if root in ("numpy", "numba", "llvmlite", "builtins"):
        return True
    if module in _FOR_FUNCTIONS or module.startswith(("headrace.stage.", "headrace.node.")):
        return True
    if root not in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(module), "__file__", None)  # a user's file may be named alike
    return file is None or (file.startswith(_STANDARD_LIBRARY) and "site-packages" not in file)


def is_constant(value: Any) -> bool:
    """Can compiled code contain the value, and can its fingerprint tell it from others?"""
    if isinstance(value, tuple):
        known = type(value) is tuple or _is_named_tuple(type(value))
        return known and all(map(is_constant, value))
    if isinstance(value, np.ndarray):
        return type(value) is np.ndarray and not value.dtype.hasobject
    if isinstance(value, type):
        known = _is_named_tuple(value) or issubclass(value, BaseException | enum.Enum)
        return known or isinstance(value, RecordClass) or in_library(value)
    if type(value) in _SCALARS or is_user_function(value) or in_library(value):
        return True
    return isinstance(value, enum.Enum | np.generic | np.dtype | ModuleType | numba_types.Type)


def _is_named_tuple(value: type) -> bool:
    return issubclass(value, tuple) and hasattr(value, "_fields") and hasattr(value, "_make")


# ---- the digest ----------------------------------------------------------------------------


class _Walk:
    """Turns what a function depends on into nested tuples of plain text and bytes."""

    def __init__(self) -> None:
        self.seen: dict[Any, int] = {}  # functions, by order of their first visit
        self.open_modules: list[str] = []

    def value(self, value: Any, attributes: frozenset[str] = frozenset()) -> Any:
        value = plain(value)
        if isinstance(value, CodeType):
            return self.code(value)
        if is_user_function(value):
            return self.function(value)
        if isinstance(value, type):
            return self.of_class(value)
        if isinstance(value, enum.Enum):
            return "member", self.of_class(type(value)), value.name
        if isinstance(value, tuple):
            inner = [self.value(item, attributes) for item in value]
            return "tuple", self.of_class(type(value)), inner
        if isinstance(value, frozenset):  # constants only; their order differs between processes
            return "frozenset", sorted(repr(self.value(item)) for item in value)
        if isinstance(value, np.ndarray | np.generic):
            digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            if value.dtype.hasobject:
                digest = "objects"  # their bytes are addresses; such arrays are refused
            return "array", repr(value.dtype), value.shape, digest
        if type(value) in _SCALARS:
            return type(value).__name__, repr(value)
        if isinstance(value, ModuleType):
            return self.module(value, attributes)
        if isinstance(value, np.dtype | numba_types.Type):
            return type(value).__name__, str(value)
        if in_library(value):
            return "named", str(getattr(value, "__module__", "")), value.__name__
        return "other", type(value).__module__, type(value).__qualname__

    def function(self, function: FunctionType) -> Any:
        if function in self.seen:
            return "seen", self.seen[function]
        self.seen[function] = len(self.seen)
        attributes = attribute_names(function.__code__)
        keywords = sorted((function.__kwdefaults__ or {}).items())
        return (
            "function",
            self.code(function.__code__),
            [(n, self.value(v, attributes)) for n, v in used_globals(function).items()],
            [(n, self.value(v, attributes)) for n, v in used_cells(function).items()],
            self.value(function.__defaults__),
            [(name, self.value(value)) for name, value in keywords],
        )

    def code(self, code: CodeType) -> Any:
        return (
            "code",
            code.co_code,
            code.co_exceptiontable,
            (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags),
            (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
            [self.value(constant) for constant in code.co_consts],
        )

    def of_class(self, value: type) -> Any:
        name = f"{value.__module__}.{value.__qualname__}"
        if isinstance(value, RecordClass):
            return "record", value.layout_digest
        if issubclass(value, enum.Enum):
            return "enum", name, [(m.name, self.value(m.value)) for m in value]
        if _is_named_tuple(value):
            fields: Any = value
            defaults = sorted(getattr(value, "_field_defaults", {}).items())
            return "named tuple", name, fields._fields, [(n, self.value(v)) for n, v in defaults]
        return "class", name

    def module(self, module: ModuleType, attributes: frozenset[str]) -> Any:
        """A user's module by the attributes that are used; a library by its version."""
        name = module.__name__
        if not is_user_module(module) or name in self.open_modules:
            return "module", name, str(getattr(module, "__version__", ""))
        self.open_modules.append(name)
        used = [
            (a, self.value(getattr(module, a), attributes))
            for a in sorted(attributes)
            if is_constant(getattr(module, a, _MISSING))
        ]
        self.open_modules.pop()
        return "module", name, str(getattr(module, "__version__", "")), used


# ---- the frozen copy -----------------------------------------------------------------------


class Freezer:
    """Copies a function, the functions it calls and the constants it uses.

    `finish` is applied to each copied function, to compile it. What is compiled has been frozen
    before, so that its arrays, which may be large, need not be copied again. Recursion is kept.
    """

    def __init__(self, finish: Callable[[FunctionType], Any] | None = None) -> None:
        self.finish = finish
        self.made: dict[Any, tuple[Any, Any]] = {}  # id -> (original, kept alive; its copy)

    def function(self, function: FunctionType) -> Any:
        """The copy of a function."""
        if id(function) in self.made:
            return self.made[id(function)][1]
        world = {"__builtins__": __builtins__, "__name__": function.__module__}
        cells = tuple(CellType() for _ in function.__closure__ or ())
        code, name = function.__code__, function.__name__
        copy = FunctionType(code, world, name, function.__defaults__, cells or None)
        copy.__qualname__, copy.__doc__ = function.__qualname__, function.__doc__
        copy.__module__ = function.__module__
        finished = self.finish(copy) if self.finish else copy
        self.made[id(function)] = (function, finished)
        attributes = attribute_names(code)
        copy.__defaults__ = self.value(function.__defaults__, attributes)
        if function.__kwdefaults__:
            given = function.__kwdefaults__.items()
            copy.__kwdefaults__ = {n: self.value(value, attributes) for n, value in given}
        for used, value in used_globals(function).items():
            world[used] = self.value(value, attributes)
        known = used_cells(function)
        for used, cell in zip(code.co_freevars, cells):
            if used in known:
                cell.cell_contents = self.value(known[used], attributes)
        return finished

    def value(self, value: Any, attributes: frozenset[str]) -> Any:
        value = plain(value)
        if is_user_function(value):
            return self.function(value)
        if isinstance(value, tuple):
            items = [self.value(item, attributes) for item in value]
            return value._make(items) if hasattr(value, "_make") else tuple(items)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if is_user_module(value):
            return self._module(value, attributes)
        return value

    def _array(self, array: np.ndarray) -> np.ndarray:
        if id(array) not in self.made:
            copy = array if self.finish else array.copy(order="K")
            copy.setflags(write=False)
            self.made[id(array)] = (array, copy)
        return self.made[id(array)][1]

    def _module(self, module: ModuleType, attributes: frozenset[str]) -> ModuleType:
        """Holds only what is used, and of that only what compiled code can contain."""
        if (id(module), attributes) in self.made:
            return self.made[id(module), attributes][1]
        copy = ModuleType(module.__name__)
        self.made[id(module), attributes] = (module, copy)
        for name in attributes:
            value = getattr(module, name, _MISSING)
            if is_constant(value):
                setattr(copy, name, self.value(value, attributes))
        if hasattr(module, "__version__"):
            vars(copy)["__version__"] = module.__version__
        return copy
