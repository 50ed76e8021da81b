"""f"{x:.2f}" and format(x, ".2f") inside users' functions, with formats that are constants."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import overload, register_jitable

from headrace.stage.memory.numba_internals import Interpreter, TraceRunner, TypingError, ir
from headrace.stage.strings.formats import (
    number_room,
    parse,
    text_room,
    write_real,
    write_text,
    write_whole,
)
from headrace.stage.strings.text_codec import data_address, utf8
from headrace.stage.strings.text_numbers import memory_for_text, owned_text
from headrace.stage.strings.text_types import TextType
from headrace.stage.strings.words import make_words


@register_jitable
def _format_whole(value, form):
    memory = memory_for_text(number_room(form))
    head, tail = write_whole(memory, types.int64(value), form)
    return owned_text(head, tail, memory)


@register_jitable
def _format_float(value, form):
    memory = memory_for_text(number_room(form))
    head, tail = write_real(memory, types.float64(value), form)
    return owned_text(head, tail, memory)


@register_jitable
def _format_words(head, tail, form):
    memory = memory_for_text(text_room(head, form))
    head, tail = write_text(memory, head, tail, form)
    return owned_text(head, tail, memory)


@register_jitable
def _format_bytes(value, form):
    """Of a Numba str whose characters are the bytes of a text."""
    head, tail = make_words(data_address(value), len(value))
    return _format_words(head, tail, form)


@register_jitable
def _format_str(value, form):
    return _format_bytes(value if value._is_ascii else utf8(value), form)


def _sample(value: types.Type) -> str | int | float | None:
    """A Python value of the kind that has formats, if any."""
    if isinstance(value, TextType | types.UnicodeType | types.StringLiteral):
        return ""
    if isinstance(value, types.Float):
        return 0.0
    is_whole = isinstance(value, types.Integer | types.Boolean) and value != types.uint64
    return 0 if is_whole else None


@overload(format, prefer_literal=True)
def _format(value, spec=""):
    sample, said = _sample(value), getattr(spec, "literal_value", getattr(spec, "value", spec))
    if sample is None:
        return None
    if not isinstance(said, str):
        raise TypingError("a format is no constant; s.rjust(width) and s.ljust(width) need none")
    if said == "" and isinstance(value, types.Boolean):  # a number in all other formats
        return lambda value, spec="": str(value)
    try:
        form = parse(said, sample)
    except ValueError as error:
        raise TypingError(f"the format {said!r}: {error}") from None
    if isinstance(value, TextType):
        return lambda value, spec="": _format_words(value.head, value.tail, form)
    if isinstance(sample, str):
        return lambda value, spec="": _format_str(value, form)
    if isinstance(sample, float) or chr(form.kind) in "efg%":
        return lambda value, spec="": _format_float(value, form)
    return lambda value, spec="": _format_whole(value, form)


# ---- f-strings -----------------------------------------------------------------------------
# Numba's reader of bytecode knows f-strings without formats. It learns here that the instruction
# of those with a format is a call: FORMAT_VALUE with a flag, from Python 3.13 on one of its own.

_HAS_FORMAT = 0x04
_trace_plain, _read_plain = TraceRunner.op_FORMAT_VALUE, Interpreter.op_FORMAT_VALUE


def _trace(runner: Any, state: Any, inst: Any) -> None:
    """What an instruction takes from the stack and leaves there."""
    spec, value = state.pop(), state.pop()
    function, result = state.make_temp(), state.make_temp()
    state.append(inst, value=value, spec=spec, function=function, result=result)
    state.push(result)


def _read(reader: Any, inst: Any, value: str, spec: str, function: str, result: str) -> None:
    """What it does, as Numba's own instructions."""
    reader.store(ir.Global("format", format, loc=reader.loc), function)
    arguments = reader.get(value), reader.get(spec)
    reader.store(ir.Expr.call(reader.get(function), arguments, (), loc=reader.loc), result)


def _trace_value(runner: Any, state: Any, inst: Any) -> None:
    trace = _trace if inst.arg == _HAS_FORMAT else _trace_plain
    trace(runner, state, inst)


def _read_value(reader: Any, inst: Any, *names: str, **named: str) -> None:
    read = _read if inst.arg == _HAS_FORMAT else _read_plain
    read(reader, inst, *names, **named)


TraceRunner.op_FORMAT_VALUE, Interpreter.op_FORMAT_VALUE = _trace_value, _read_value
TraceRunner.op_FORMAT_WITH_SPEC, Interpreter.op_FORMAT_WITH_SPEC = _trace, _read
