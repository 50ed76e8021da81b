"""Checked nodes of the operators that are made of user functions."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from .asides import (
    agreed_outputs,
    emitting,
    kept_time,
    output_columns,
    result_schema,
    shown,
    wanted_outputs,
)
from .bind import FunctionChecker
from .build import PlainPythonWarning, project
from .build_errors import tolerating
from .checks import Place
from .errors import DataError
from .expressions import Call, Column
from .functions import Function, StateSpec, Wanted
from .nodes import FAIL, FlatMap, MapBatches, Node, Process, Project
from .schema import Field, Schema
from .state_spec import state_spec

Output = str | Sequence[str] | Mapping[str, Any]
Emits = TypeVar("Emits", bound=FlatMap)


def map(
    node: Node,
    function: Callable[..., Any],
    output: Output,
    check: FunctionChecker,
    columns: Sequence[str] | None = None,
    carry: str | Sequence[str] = (),
    name: str | None = None,
) -> Project:
    """One row for each row: `carry`, then what a compiled function gives."""
    place = Place("map", name)
    kept = _carry(node, carry, place)
    wanted = {"": output_columns(output, place)}
    checked, arguments = _checked(node, function, wanted, columns, place, check, False)
    operands = tuple(Column(argument) for argument in arguments)
    made = [(out, Call(checked, operands, result)) for result, out in enumerate(wanted[""].names)]
    return project(node, [*((c, Column(c)) for c in kept), *made], place)


def flat_map(
    node: Node,
    function: Callable[..., Any],
    output: Output,
    check: FunctionChecker,
    columns: Sequence[str] | None = None,
    carry: str | Sequence[str] = (),
    name: str | None = None,
    asides: Mapping[str, Output] | None = None,
    on_error: str = FAIL,
) -> Node:
    """Zero or more rows for each row: `carry`, then what a compiled generator yields."""
    place = Place("flat_map", name)
    wanted = wanted_outputs(output, asides, place)
    made = flat_map_at(place, node, function, wanted, check, columns, carry)
    return _shown(tolerating(made, on_error), wanted, place)


def flat_map_at(
    place: Place,
    node: Node,
    function: Callable[..., Any],
    wanted: Mapping[str, Wanted],
    check: FunctionChecker,
    columns: Sequence[str] | None = None,
    carry: str | Sequence[str] = (),
) -> FlatMap:
    """The same, where it is part of another operator."""
    kept = _carry(node, carry, place)
    checked, arguments = _checked(node, function, wanted, columns, place, check, True)
    made = FlatMap(
        (node,),
        node.schema,
        place.name,
        site=place.site,
        key=node.key if set(node.key) <= set(kept) else (),
        function=checked,
        arguments=arguments,
        carry=kept,
    )
    return _with_outputs(made, wanted, place)


def process(
    node: Node,
    function: Callable[..., Any],
    state: Any,
    output: Output,
    check: FunctionChecker,
    columns: Sequence[str] | None = None,
    name: str | None = None,
    asides: Mapping[str, Output] | None = None,
    on_error: str = FAIL,
) -> Node:
    """Zero or more rows for each row, by a compiled generator over a state record per key."""
    place = Place("process", name)
    if not node.key:
        raise place.error(*why_no_key(node))
    spec = state_spec(state, place)
    wanted = wanted_outputs(output, asides, place)
    checked, arguments = _checked(node, function, wanted, columns, place, check, True, spec)
    made = Process(
        (node,),
        node.schema,
        place.name,
        site=place.site,
        key=node.key,
        function=checked,
        arguments=arguments,
        carry=node.key,
    )
    made = _with_outputs(made, wanted, place)
    return _shown(tolerating(made, on_error), wanted, place)


def _with_outputs(node: Emits, wanted: Mapping[str, Wanted], place: Place) -> Emits:
    """The operator with the columns of what its function gives."""
    outputs = agreed_outputs(wanted, [node.function], place)
    source = node.inputs[0]
    schemas = [result_schema(source, node.carry, each, place) for each in outputs.values()]
    kept = [Field(column, source.schema[column]) for column in node.carry]
    return emitting(replace(node, time=kept_time(source, schemas[0])), kept, outputs)


def _shown(node: FlatMap, wanted: Mapping[str, Wanted], place: Place) -> Node:
    """What it gives to its own stream."""
    schema = result_schema(node.inputs[0], node.carry, node.outputs[0].fields, place)
    return shown(node, "", schema, kept_time(node.inputs[0], schema), place)


def map_batches(
    node: Node,
    function: Callable[..., Any],
    schema: Any,
    stateless: bool = False,
    max_in_flight: int | None = None,
    name: str | None = None,
) -> MapBatches:
    """Any Python over Arrow record batches; with a warning, since it takes the GIL."""
    place = Place("map_batches", name)
    if not callable(function):
        raise place.error(f"{function!r} is not a function", "map_batches(function, schema=...)")
    if max_in_flight is not None and not (isinstance(max_in_flight, int) and max_in_flight >= 1):
        raise place.error(
            f"max_in_flight={max_in_flight!r}: there is at least one call at a time",
            "a whole number, as in max_in_flight=4",
        )
    try:
        made = place.schema(Schema.of(schema))
    except TypeError as error:
        raise place.error(f"schema={schema!r}: {error}", "schema={'a': int, 'b': str}") from None
    warnings.warn(
        f"map_batches({_name(function)}) runs plain Python under the GIL; "
        "map, flat_map and process compile their functions",
        PlainPythonWarning,
        stacklevel=3,  # the user's line, behind Stream.map_batches
    )
    return MapBatches(
        (node,),
        made,
        place.name,
        site=place.site,
        function=function,
        stateless=stateless,
        max_in_flight=max_in_flight,
    )


def map_async(
    node: Node,
    function: Callable[..., Any],
    output: Mapping[str, Any],
    make: Callable[[tuple[str, ...], tuple[str, ...], Schema], Callable[..., Any]],
    columns: Sequence[str] | None = None,
    carry: str | Sequence[str] = (),
    name: str | None = None,
) -> MapBatches:
    """A row for each row, made by a coroutine; `make` gives the function of record batches."""
    place = Place("map_async", name)
    if not isinstance(output, Mapping):
        raise place.error(
            "the types of what a coroutine gives must be declared", "output={'a': int, 'b': str}"
        )
    wanted = output_columns(output, place)
    arguments = arguments_of(node, function, columns, place, False)
    kept = _carry(node, carry, place)
    results = Schema(wanted.fields(wanted.declared or ()))
    schema = result_schema(node, kept, results.fields, place)
    try:
        calls = make(arguments, kept, results)
    except DataError as error:
        raise place.error(str(error)) from None
    return MapBatches((node,), schema, place.name, site=place.site, function=calls)


def _checked(
    node: Node,
    function: Callable[..., Any],
    wanted: Mapping[str, Wanted],
    columns: Sequence[str] | None,
    place: Place,
    check: FunctionChecker,
    generator: bool,
    state: StateSpec | None = None,
) -> tuple[Function, tuple[str, ...]]:
    """The checked function, and the columns that are its arguments."""
    names = wanted[""].names
    arguments = arguments_of(node, function, columns, place, state is not None)
    checked = check(
        function,
        [node.schema[argument] for argument in arguments],
        operator=place.operator,
        site=place.site,
        generator=generator,
        state=state,
        declared=wanted[""].declared,
        names=names,
        asides={name: one for name, one in wanted.items() if name},
    )
    if checked.outputs and len(checked.outputs) != len(names):
        raise place.error(
            f"{checked.name} gives {len(checked.outputs)} values, and output= names {len(names)}",
            "name each value it gives, in order",
        )
    return checked, arguments


def arguments_of(
    node: Node, function: Any, columns: Any, place: Place, has_state: bool
) -> tuple[str, ...]:
    """The columns that are a function's arguments: `columns`, or by its parameters' names."""
    name = _name(function)
    if not callable(function):
        raise place.error(f"{function!r} is not a function", "give a function or a lambda")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise place.error(
            f"{name} has no Python parameters", "write a lambda that calls it"
        ) from None
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise place.error(
                f"{name} has the parameter {parameter}, which stands for no column",
                "give each column a parameter of its own",
            )
    if has_state:
        if not parameters:
            raise place.error(f"{name} has no parameter", "its first parameter is the state")
        parameters = parameters[1:]
    required = [p.name for p in parameters if p.default is p.empty]
    if columns is None:
        return _by_name(node, name, [p.name for p in parameters], len(required), place)
    chosen = place.names(columns, "columns")
    if not len(required) <= len(chosen) <= len(parameters):
        raise place.error(
            f"{name} takes {len(parameters)} columns, and columns= names {len(chosen)}",
            "name one column for each parameter, in order",
        )
    return tuple(place.existing(column, node.schema) for column in chosen)


def _by_name(
    node: Node, function: str, parameters: list[str], required: int, place: Place
) -> tuple[str, ...]:
    """The columns with the parameters' names; the last ones may have defaults and no column."""
    there = [parameter in node.schema for parameter in parameters]
    used = max(required, len(there) - there[::-1].index(True) if any(there) else 0)
    for parameter in parameters[:used]:
        if parameter not in node.schema:
            raise place.error(
                f"{function} has a parameter {parameter!r}, but there is no such column",
                f"{node.schema.closest(parameter)}; or bind parameters to columns in order: "
                "columns=[...]",
            )
    return tuple(parameters[:used])


def _carry(node: Node, carry: Any, place: Place) -> tuple[str, ...]:
    return tuple(place.existing(c, node.schema) for c in place.names(carry, "carry"))


def why_no_key(node: Node) -> tuple[str, str]:
    """Why a stream has no key, and what to do about it."""
    while node.inputs and not node.key:
        lost, node = node, node.inputs[0]
        if node.key:
            return (
                f"the key {', '.join(node.key)} was lost at {lost.site!r}",
                "keep the key's columns unchanged, or call key_by again behind it",
            )
    return "the stream has no key to keep a state for", 'call key_by("column") before'


def _name(function: Any) -> str:
    name = str(getattr(function, "__name__", type(function).__name__))
    return "the lambda" if name == "<lambda>" else name
