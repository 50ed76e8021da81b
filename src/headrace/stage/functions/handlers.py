"""`try ... except ValueError` in users' functions.

Numba catches all exceptions or none. So `except ValueError` is compiled as `except Exception`
where the code between raises nothing else, as int(), float() and methods of strings do not; a
number beyond int64 counts as a ValueError there. Other functions are refused.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

from headrace.stage.functions.fingerprint import codes, is_user_module, used_cells, used_globals
from headrace.stage.functions.refusals import WAY_OUT, Refusal, line_site

CAUGHT = "ValueError"
_HARMLESS = {
    "abs", "bool", "float", "format", "int", "len", "max", "min", "ord", "range", "round", "str",
    CAUGHT,
}  # fmt: skip
_DIVISIONS = {"/", "//", "%", "**", "/=", "//=", "%=", "**="}
_FIX = (
    "keep only int(...), float(...) and methods of strings in the try, or write `except Exception`"
)


def check_handlers(function: FunctionType) -> None:
    """Refuse handlers that compiled code cannot keep apart."""
    for code in codes(function.__code__):
        for instruction, caught, body in _handlers(code):
            if caught == "Exception":
                continue
            site = line_site(code, _line(instruction))
            if caught != CAUGHT:
                what = f"catches {caught}, and compiled code tells only ValueError from others"
                raise Refusal(
                    what, site, f"write `except ValueError` or `except Exception`, {WAY_OUT}"
                )
            for before, inner in pairwise([instruction, *body]):
                other = _other_error(function, before, inner)
                if other is not None:
                    what = f"catches ValueError where {other} may raise something else"
                    raise Refusal(what, line_site(code, _line(inner)), f"{_FIX}, {WAY_OUT}")


def caught_as(function: FunctionType) -> dict[str, Any]:
    """What names of exceptions stand for in compiled code.

    >>> def parsed(text):
    ...     try:
    ...         return int(text)
    ...     except ValueError:
    ...         return -1
    >>> caught_as(parsed)
    {'ValueError': <class 'Exception'>}
    """
    found = [caught for code in codes(function.__code__) for _, caught, _ in _handlers(code)]
    return {CAUGHT: Exception} if CAUGHT in found else {}


def _handlers(code: CodeType) -> Iterator[tuple[dis.Instruction, str, list[dis.Instruction]]]:
    """(where, what is caught, the instructions of the try) of each handler."""
    bytecode = dis.Bytecode(code)
    all_of_them = list(bytecode)
    entries = getattr(bytecode, "exception_entries", ())
    for k, instruction in enumerate(all_of_them):
        if instruction.opname != "CHECK_EXC_MATCH":
            continue
        loaded = all_of_them[k - 1]
        is_name = loaded.opname in ("LOAD_GLOBAL", "LOAD_NAME")
        caught = str(loaded.argval) if is_name else "several kinds of exceptions"
        start = next(i for i in reversed(all_of_them[:k]) if i.opname == "PUSH_EXC_INFO")
        spans = [(e.start, e.end) for e in entries if e.target == start.offset]
        body = [i for i in all_of_them if any(a <= i.offset < b for a, b in spans)]
        yield loaded, caught, body


def _other_error(
    function: FunctionType, before: dis.Instruction, instruction: dis.Instruction
) -> str | None:
    """What in an instruction may raise another exception than ValueError."""
    operation, name = instruction.opname, instruction.argval
    if operation == "BINARY_OP" and instruction.argrepr in _DIVISIONS:
        return f"`{instruction.argrepr}`"
    if operation == "BINARY_SUBSCR" and before.opname != "BUILD_SLICE":
        return "an index"
    if operation in ("LOAD_GLOBAL", "LOAD_NAME") and name not in _HARMLESS:
        value = used_globals(function).get(name)
    elif operation == "LOAD_DEREF":
        value = used_cells(function).get(name, 0)
    else:
        return None
    return repr(name) if value is None or callable(value) or is_user_module(value) else None


def _line(instruction: dis.Instruction) -> int | None:
    return instruction.positions.lineno if instruction.positions else None
