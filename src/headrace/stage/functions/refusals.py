"""Why a user's function cannot be compiled: in one line, with the line of the user's code.

What can be told from the bytecode is found before Numba is asked; what Numba says is cut down to
its essence.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import os
import re
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

from headrace.plan.site import Site, code_site
from headrace.stage.functions.fingerprint import (
    attribute_names,
    codes,
    instructions,
    is_constant,
    is_user_function,
    is_user_module,
    plain,
    used_cells,
    used_globals,
)
from headrace.stage.memory.numba_internals import NumbaError, UnsupportedBytecodeError

WAY_OUT = "or use map_batches for plain Python"

_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE

# What the first instruction of a construct gives away: (what it is, what to do instead).
_CONSTRUCTS = {
    "STORE_GLOBAL": (
        "assigns to the global {name!r}",
        "return the value, or keep it in the state of process()",
    ),
    "DELETE_GLOBAL": ("deletes the global {name!r}", "leave globals alone"),
    "GET_YIELD_FROM_ITER": ("uses `yield from`", "write a loop, `for x in ...: yield x`"),
    "IMPORT_NAME": ("imports {name!r} inside the function", "import it at the top of the module"),
    "LOAD_BUILD_CLASS": ("defines a class", "define it outside the function"),
    "UNPACK_EX": ("unpacks with *", "name each value"),
    "BEFORE_WITH": ("uses `with`", "do that outside the function"),
    "GET_AWAITABLE": ("uses `await`", "do that outside the function"),
}

# Builtins that Numba compiles or that fail with an obscure message, and that have no place here.
_BUILTINS = {
    "print": ("prints", "write the stream to the console instead"),
    "input": ("reads from the terminal", "read it before, and use the value"),
    "open": ("opens a file", "read it before, or use a source"),
    "eval": ("uses eval()", "write the code out"),
    "exec": ("uses exec()", "write the code out"),
    "globals": ("uses globals()", "name the values"),
    "setattr": ("uses setattr()", "assign to the field by its name"),
}


class Refusal(Exception):
    """Why a function cannot be used: what, where, and how to fix it."""

    def __init__(self, what: str, site: Site, fix: str) -> None:
        super().__init__(what)
        self.what, self.site, self.fix = what, site, fix


def line_site(code: CodeType, line: int | None) -> Site:
    """A line of the file that the code is from."""
    return code_site(code.replace(co_firstlineno=line or code.co_firstlineno))


def reachable(function: FunctionType) -> Iterator[FunctionType]:
    """A function and the user's functions that it calls, directly or through others.

    Each is given before what it calls is looked at."""
    seen: set[Any] = set()

    def visit(value: Any, attributes: frozenset[str]) -> Iterator[FunctionType]:
        value = plain(value)
        if isinstance(value, tuple):
            for item in value:
                yield from visit(item, attributes)
        elif is_user_module(value) and (id(value), attributes) not in seen:
            seen.add((id(value), attributes))
            for name in sorted(attributes):
                yield from visit(getattr(value, name, None), attributes)
        elif is_user_function(value) and id(value) not in seen:
            seen.add(id(value))
            yield value
            attributes = attribute_names(value.__code__)
            for item in (*used_globals(value).values(), *used_cells(value).values()):
                yield from visit(item, attributes)

    yield from visit(function, frozenset())


# ---- what the bytecode tells ---------------------------------------------------------------


def inspect_function(function: FunctionType, caller: FunctionType) -> None:
    """Refuse what cannot work, as far as the code itself and its globals show."""
    try:
        _inspect(function)
    except Refusal as reason:
        if function is not caller:
            reason.what = f"calls {function.__name__}(), which {reason.what}"
        raise


def _inspect(function: FunctionType) -> None:
    code = function.__code__
    if code.co_flags & _ASYNC:
        raise Refusal("is async", code_site(code), f"write a plain function, {WAY_OUT}")
    for instruction, inner in instructions(code):
        line = instruction.positions.lineno if instruction.positions else None
        problem = _problem(function, instruction, inner)
        if problem is not None:
            what, fix = problem
            raise Refusal(what, line_site(inner, line), f"{fix}, {WAY_OUT}")
    for name, value in _defaults(function):
        problem = _unsuitable(f"the default of {name!r}", value)
        if problem is not None:
            raise Refusal(problem[0], code_site(code), f"{problem[1]}, {WAY_OUT}")


def _problem(
    function: FunctionType, instruction: dis.Instruction, inner: CodeType
) -> tuple[str, str] | None:
    operation, name = instruction.opname, instruction.argval
    if operation in _CONSTRUCTS:
        what, fix = _CONSTRUCTS[operation]
        return what.format(name=name), fix
    if isinstance(name, CodeType) and name.co_flags & inspect.CO_GENERATOR:
        if name.co_name == "<genexpr>":
            return "uses a generator expression", "write a list comprehension or a loop"
        return f"defines the generator {name.co_name}() inside", "define it outside"
    is_converted = operation == "FORMAT_VALUE" and (instruction.arg or 0) & 0x03
    if is_converted or operation == "CONVERT_VALUE":
        return "uses `!` or `=` in an f-string", "write {str(x)} in place of {x!s}"
    if operation == "LOAD_CONST" and _is_too_large(name):
        said = f"{name}" if isinstance(name, int) else "a number"
        return f"uses {said}, which does not fit in int64", "use smaller numbers or floats"
    if operation == "STORE_DEREF" and name in function.__code__.co_freevars:
        return f"assigns to {name!r} of an enclosing function", "return the value"
    if operation == "LOAD_DEREF" and name in function.__code__.co_freevars:
        cells = used_cells(function)
        if name not in cells:
            return f"uses {name!r}, which has no value yet", "assign it before"
        return _unsuitable(name, cells[name])
    if operation in ("LOAD_GLOBAL", "LOAD_NAME"):
        known = used_globals(function)
        if name in known:
            return _unsuitable(name, known[name])
        if not hasattr(builtins, name):
            return f"uses {name!r}, which is not defined", "define it before the pipeline is built"
        return _BUILTINS.get(name)
    return None


def _defaults(function: FunctionType) -> Iterator[tuple[str, Any]]:
    code = function.__code__
    given = function.__defaults__ or ()
    yield from zip(code.co_varnames[code.co_argcount - len(given) : code.co_argcount], given)
    yield from (function.__kwdefaults__ or {}).items()


def _is_too_large(value: Any) -> bool:
    """Numba cuts such a number to 64 bits, or computes with its bits as a negative number."""
    if isinstance(value, tuple | frozenset):
        return any(map(_is_too_large, value))
    return type(value) is int and not -(2**63) <= value < 2**63


def _unsuitable(name: str, value: Any) -> tuple[str, str] | None:
    """What is wrong with a value from outside, if anything."""
    said = name if " " in name else repr(name)
    if _is_too_large(value):
        return f"uses {said}, a number that does not fit in int64", "use smaller numbers or floats"
    if is_constant(value):
        return None
    kind = type(value).__name__
    if isinstance(value, list | set | frozenset):
        return f"uses {said}, a {kind}", "make it a tuple or a NumPy array"
    if isinstance(value, dict):
        return f"uses {said}, a dict", "join with a table, or use if and elif"
    if isinstance(value, type):
        return f"uses {said}, a class", "use numbers, tuples or a NamedTuple"
    if isinstance(value, tuple):
        return f"uses {said}, a tuple of more than constants", "use numbers, strings and arrays"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"uses {said}, an array of Python objects", "use an array of numbers"
    return f"uses {said}, an object of class {kind}", "use numbers, strings, tuples or NumPy arrays"


# ---- what Numba says -----------------------------------------------------------------------

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_PLACES = re.compile(r"(?:at|from) (\S.*?) \((\d+)\)")
_FILES = re.compile(r'File "([^"]+)", line (\d+)')
_CALL = re.compile(r">>> (\S+?)\((.*)\)\s*$", re.MULTILINE)
_REASON = re.compile(r"raised a specific error:\s*\n\s*(?:\w+: )?(.+)")
_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "iadd": "+=", "isub": "-=", "imul": "*=", "itruediv": "/=", "ifloordiv": "//=", "imod": "%=",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip


_TYPE_NAMES = {"unicode_type": "str", "Text": "str", "Blob": "bytes", "DictType": "dict"}

# Numba's words, and better ones.
_BETTER = {
    r"Unknown attribute '(\w+)' of type Module\(<module '([\w.]+)'.*": r"Numba does not know \2.\1",
    r"module '([\w.]+)' has no attribute '(\w+)'.*": r"Numba does not know \1.\2",
    r"Untyped global name '(\w+)': Cannot determine.*": r"Numba does not know '\1'",
    r"Type of variable .* cannot be determined.*": r"the type of a value cannot be told",
    r"Poison type used in arguments.*": r"a list or dict holds values of different types",
    r"Cannot cast Text to unicode_type.*": r"write str(...) around the value of the column",
    r"Cannot cast (.*) to ([^:]*):.*": r"\1 cannot become \2",
    r"Can't unify (return|yield) type from the following types:": r"it \1s different types:",
    r"Cannot unify (.*) and (.*) for '([A-Za-z_]\w*)[^']*'.*": r"'\3' is now \1 and now \2",
    r"Cannot type generator: it does not yield any value": r"it never yields",
    r"Cannot modify readonly array.*": r"arrays from outside are constants and cannot be changed",
    r"Cannot infer the type of variable '(\w+)[^']*'.*": r"the type of '\1' cannot be told",
    r"to the field ('\w+') of made\.State\w+": r"to the state's field \1",
    r"Int value is too large: ": r"does not fit in 64 bits: ",
    r"Untyped global name '(\w+)':? ?": r"\1: ",
}


def refusal(error: BaseException, functions: Sequence[FunctionType]) -> Refusal:
    """What Numba said of a function, and of which line of the user's functions."""
    text = without_colours(error)
    said = essence(text)
    meant = isinstance(error, NumbaError | UnsupportedBytecodeError) or said.startswith("Numba")
    if not meant:  # a mistake of Numba itself
        said = f"Numba failed with {type(error).__name__}: {said}"
    site = find_site(error, text, functions) or code_site(functions[0].__code__)
    return Refusal(f"cannot be compiled: {said}", site, f"change the line, {WAY_OUT}")


def without_colours(said: object) -> str:
    """What Numba said: it colours its errors and warnings where colorama is installed.

    >>> without_colours("\\x1b[1mDetected\\x1b[0m")
    'Detected'
    """
    return _COLOURS.sub("", str(said))


def essence(text: str) -> str:
    """One short line of what Numba wrote.

    >>> essence("Failed in nopython mode pipeline\\nUnknown attribute 'a' of type int64\\n...")
    "an int64 has no attribute 'a'"
    """
    lines = [line.strip() for line in text.splitlines()]
    noise = ("Failed in ", "- Resolution failure")
    said = next((line for line in lines if line and not line.startswith(noise)), "Numba gave up")
    said = re.sub(r"\.? Raised from .*$", "", said)
    call = _CALL.search(text)
    if said.startswith(("No implementation of function", "Invalid use of")) and call:
        reason = _REASON.search(text)
        if reason and not reason[1].startswith(("Failed in ", "No implementation of")):
            said = reason[1]
        else:
            said = _no_such_call(call[1], _arguments(call[2]))
    for pattern, better in _BETTER.items():
        said = re.sub(pattern, better, said)
    attribute = re.match(r"Unknown attribute '(\w+)' of type (.*)$", said)
    if attribute:
        if attribute[2].startswith("State_"):
            return f"the state has no field '{attribute[1]}'"
        return f"{_with_article(_readable(attribute[2]))} has no attribute '{attribute[1]}'"
    return _shortened(_readable(said))


def _no_such_call(name: str, arguments: list[str]) -> str:
    name = name.removeprefix("<built-in function ").rstrip(">")
    if name in ("bool", "truth", "not_") and "or None" in arguments[0]:
        return "a value that may be None is no condition; write `x is not None and x ...`"
    if name in _OPERATORS and len(arguments) == 2:
        return f"there is no {arguments[0]} {_OPERATORS[name]} {arguments[1]}"
    if name == "getitem" and len(arguments) == 2:
        return f"there is no {arguments[0]}[{arguments[1]}]"
    if name == "setitem" and len(arguments) == 3:
        return f"there is no {arguments[0]}[{arguments[1]}] = {arguments[2]}"
    if name == "contains" and len(arguments) == 2:
        return f"there is no {arguments[1]} in {arguments[0]}"
    return f"there is no {name.rpartition('.')[2]}({', '.join(arguments)})"


def _arguments(text: str) -> list[str]:
    """A call's arguments, split at the commas that are not inside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [_readable(part.strip()) for part in parts if part.strip()]


def _readable(text: str) -> str:
    """Numba's names of types as users know them."""
    text = re.sub(r"Literal\[str\]\(([^()]*)\)", r"'\1'", text)
    text = re.sub(r"Literal\[\w+\]\(([^()]*)\)", r"\1", text)
    text = re.sub(r"OptionalType\(([^()]*)\)|Optional\(([^()]*)\)", _or_none, text)
    text = re.sub(r"reflected list\(([^()]*)\)", r"list of \1", text)
    text = re.sub(r"<iv=[^>]*>| at 0x[0-9a-f]+|\$[\w.]+", "", text)
    text = re.sub(r"Module\(<module '([\w.]+)'[^>]*>\)", r"the module \1", text)
    text = re.sub(r"<(?:class|built-in function|function) '?([\w.]+)'?>", r"\1", text)
    for numba_name, name in _TYPE_NAMES.items():
        text = re.sub(rf"\b{numba_name}\b", name, text)
    return text


def _or_none(found: re.Match[str]) -> str:
    return f"({found[1] or found[2]} or None)"


def _with_article(kind: str) -> str:
    return f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}"


def _shortened(text: str, limit: int = 160) -> str:
    text = " ".join(text.split()).rstrip(". ")
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def find_site(error: BaseException, text: str, functions: Sequence[FunctionType]) -> Site | None:
    """The innermost line that an error speaks of and that belongs to one of the functions."""
    inside = [code for function in functions for code in codes(function.__code__)]
    found = [(file, int(line)) for file, line in _PLACES.findall(text)]
    loc = getattr(error, "loc", None)
    if loc is not None:
        found.append((loc.filename, loc.line))
    for file, line in found:
        for code in inside:
            if code.co_filename == file and _spans(code, line):
                return line_site(code, line)
    for file, line in reversed(_FILES.findall(text)):  # file names without folders
        for code in inside:
            same = os.path.basename(code.co_filename) == os.path.basename(file)
            if same and _spans(code, int(line)):
                return line_site(code, int(line))
    return None


def _spans(code: CodeType, line: int) -> bool:
    lines = [number for _, _, number in code.co_lines() if number is not None]
    return bool(lines) and min(lines) <= line <= max(lines)
