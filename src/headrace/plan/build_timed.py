"""The checked node of `process` with timers and a time-to-live."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .asides import (
    agreed_outputs,
    emitting,
    kept_time,
    result_schema,
    shown,
    wanted_outputs,
)
from .bind import FunctionChecker
from .build_functions import (
    Output,
    arguments_of,
    why_no_key,
)
from .build_keyed import why_no_time
from .checks import Place
from .durations import positive_length
from .errors import ExpressionError
from .functions import Function, StateSpec
from .nodes import FAIL, Node
from .schema import Field
from .state_spec import state_spec
from .timed import TimedProcess, Timer
from .types import DataType
from .windows.timed import Timed


def timed_process(
    node: Node,
    function: Callable[..., Any],
    state: Any,
    output: Output,
    check: FunctionChecker,
    timers: Mapping[str, Callable[..., Any]],
    ttl: Any,
    on_error: str = FAIL,
    columns: Sequence[str] | None = None,
    name: str | None = None,
    asides: Mapping[str, Output] | None = None,
) -> Node:
    """Zero or more rows for each row and each timer, in the order of event time."""
    place = Place("process", name)
    if not node.key:
        raise place.error(*why_no_key(node))
    if node.time is None:
        what, fix = why_no_time(node)
        raise place.error(f"timers and a time-to-live go by event time: {what}", fix)
    if on_error != FAIL:
        raise place.error(
            f"on_error={on_error!r} is not possible with timers or a time-to-live: rows wait, and "
            "one that fails later cannot be left out",
            "check rows in an operator before it, which may leave them out",
        )
    spec = state_spec(state, place)
    wanted = wanted_outputs(output, asides, place)
    made = arguments_of(node, function, columns, place, True)
    calls = [(function, made, [node.schema[argument] for argument in made])]
    for given in _timers(timers, spec, node.schema[node.time], place).values():
        made = _known_by_timers(node, given, place)
        calls.append((given, made, [_known(node, argument) for argument in made]))

    def checked(given: Callable[..., Any], inputs: Sequence[DataType], yields: bool) -> Function:
        return check(
            given,
            inputs,
            operator=place.operator,
            site=place.site,
            generator=yields,
            state=spec,
            declared=wanted[""].declared if yields else (),
            names=wanted[""].names if yields else (),
            asides={n: each for n, each in wanted.items() if n} if yields else {},
        )

    functions: dict[int, Function] = {}
    silent = [k for k, (given, *_) in enumerate(calls) if not inspect.isgeneratorfunction(given)]
    for k, (given, _, inputs) in enumerate(calls):
        if k not in silent:  # the first one that yields says of what types rows are
            functions[k] = checked(given, inputs, True)
            for output_name, kinds in functions[k].results.items():
                wanted[output_name] = replace(wanted[output_name], declared=kinds)
    if not functions:
        raise place.error("no function yields", "yield rows, of rows or when a timer goes off")
    for k in silent:
        functions[k] = checked(calls[k][0], calls[k][2], False)
    window = Timed(None if ttl is None else _length(ttl, node.schema[node.time], place))
    outputs = agreed_outputs(wanted, list(functions.values()), place)
    schemas = [result_schema(node, node.key, fields, place) for fields in outputs.values()]
    keys = [Field(column, node.schema[column]) for column in node.key]
    order = [Field(column, node.schema[node.time].required) for column in window.columns]
    process = TimedProcess(
        (node,),
        node.schema,
        place.name,
        site=place.site,
        key=node.key,
        time=kept_time(node, schemas[0]),
        window=window,
        rows=node.schema,
        function=functions[0],
        arguments=calls[0][1],
        timers=tuple(
            Timer(field, functions[k], calls[k][1]) for k, field in enumerate(timers, start=1)
        ),
        at=node.time,
    )
    process = emitting(process, [*keys, *order], outputs)
    return shown(process, "", schemas[0], kept_time(node, schemas[0]), place)


def _timers(
    given: Any, spec: StateSpec, time: DataType, place: Place
) -> Mapping[str, Callable[..., Any]]:
    """Timers by the field of the state that sets them."""
    if not isinstance(given, Mapping):
        raise place.error(
            f"timers={given!r} does not name fields of the state", 'timers={"due": function}'
        )
    kinds = {field.name: field.type for field in spec.fields}
    for field, function in given.items():
        kind = kinds.get(field)
        if kind is None:
            raise place.error(
                f"the timer {field!r} is no field of the state", f"one of {', '.join(kinds)}"
            )
        if not kind.nullable or kind.name not in ("int64", time.name):
            raise place.error(
                f"the field {field!r}, {kind}, cannot say when a timer goes off: it is None, or a "
                "time",
                f'state={{"{field}": hr.optional(hr.{time.required.name})}}',
            )
        if not callable(function):
            raise place.error(f"{function!r} is not a function", f'timers={{"{field}": function}}')
    return given


def _known_by_timers(node: Node, function: Callable[..., Any], place: Place) -> tuple[str, ...]:
    """The arguments of a timer's function: there is no row, but a key, and a time."""
    arguments = arguments_of(node, function, None, place, True)
    for argument in arguments:
        if argument not in (*node.key, node.time):
            raise place.error(
                f"there is no row when a timer goes off, and so no {argument!r}",
                f"keep it in the state; known are {', '.join((*node.key, node.time or ''))}, "
                "the key and the time",
            )
    return arguments


def _known(node: Node, argument: str) -> DataType:
    """The type of an argument of a timer's function; there always is a time."""
    kind = node.schema[argument]
    return kind.required if argument == node.time else kind


def _length(given: Any, time: DataType, place: Place) -> int:
    try:
        length = positive_length(given, time, "ttl")
    except ExpressionError as error:
        raise place.error(error.what, error.fix) from None
    if length > Timed().farthest:
        raise place.error(f"ttl={given!r} is too long", 'ttl="1d"')
    return length
