"""Methods and operators of Text that are done on `str(text)`, in compiled code."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import overload, overload_method

from headrace.stage.strings.text_operators import compatible
from headrace.stage.strings.text_types import TextType


def _as_plain(value: Any) -> Any:
    """A Text as a Numba str, everything else as it is."""
    return value


@overload(_as_plain)
def _overload_as_plain(value):
    if isinstance(value, TextType):
        return lambda value: str(value)
    return lambda value: value


@overload(operator.add)
@overload(operator.iadd)
def _add(a, b):
    if isinstance(a, TextType) or isinstance(b, TextType):
        if compatible(a, b):
            return lambda a, b: _as_plain(a) + _as_plain(b)


@overload(operator.mul)
def _repeat(a, b):
    if isinstance(a, TextType) and isinstance(b, types.Integer):
        return lambda a, b: str(a) * b


@overload(ord)
def _ord(value):
    if isinstance(value, TextType):
        return lambda value: ord(str(value))


# Methods of str that are done on `str(text)`, with their parameters.
DELEGATED = {
    "capitalize": "", "casefold": "", "center": "width, fillchar=' '",
    "count": "sub, start=None, end=None", "expandtabs": "tabsize=8",
    "find": "sub, start=None, end=None", "index": "sub, start=None, end=None",
    "isalnum": "", "isalpha": "", "isascii": "", "isdecimal": "", "isdigit": "",
    "isidentifier": "", "islower": "", "isnumeric": "", "isprintable": "", "isspace": "",
    "istitle": "", "isupper": "", "join": "parts", "ljust": "width, fillchar=' '",
    "lower": "", "lstrip": "chars=None", "partition": "sep",
    "replace": "old, new, count=-1", "rfind": "sub, start=None, end=None",
    "rindex": "sub, start=None, end=None", "rjust": "width, fillchar=' '",
    "rpartition": "sep", "rsplit": "sep=None, maxsplit=-1", "rstrip": "chars=None",
    "split": "sep=None, maxsplit=-1", "splitlines": "keepends=False", "strip": "chars=None",
    "swapcase": "", "title": "", "upper": "", "zfill": "width",
}  # fmt: skip


def _is_given(argument: Any) -> bool:
    return isinstance(argument, types.Type) and not isinstance(argument, types.Omitted)


def _delegate(name: str, parameters: str) -> None:
    """Text.name(...) is str(text).name(...).

    Arguments that were left out are left out again, because Numba's own methods are typed by
    which ones are there; hence one small generated function for each number of arguments."""
    names = [parameter.split("=")[0] for parameter in parameters.split(", ") if parameter]
    declared = ", ".join(["value", parameters] if parameters else ["value"])

    def choose(**given):
        count = max((k + 1 for k, n in enumerate(names) if _is_given(given[n])), default=0)
        arguments = ", ".join(f"_as_plain({n})" for n in names[:count])
        return _function(f"lambda {declared}: str(value).{name}({arguments})")

    passed = ", ".join(f"{n}={n}" for n in names)
    outer = _function(f"lambda {declared}: choose({passed})", choose=choose)
    overload_method(TextType, name)(outer)


def _function(source: str, **names: Any) -> Callable:
    return eval(source, {"_as_plain": _as_plain, "__name__": __name__, **names})


for _name, _parameters in DELEGATED.items():
    _delegate(_name, _parameters)
