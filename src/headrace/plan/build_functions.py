"""Checked nodes of the operators that are made of user functions."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .bind import FunctionChecker
from .build import PlainPythonWarning, project
from .checks import Place
from .errors import DataError
from .expressions import Call, Column
from .functions import Function, StateSpec
from .nodes import FlatMap, MapBatches, Node, Process, Project
from .schema import Field, Schema
from .state_spec import state_spec
from .types import DataType

Output = str | Sequence[str] | Mapping[str, Any]


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
    checked, arguments, names = _checked(node, function, output, columns, place, check, False)
    operands = tuple(Column(argument) for argument in arguments)
    made = [(out, Call(checked, operands, result)) for result, out in enumerate(names)]
    return project(node, [*((c, Column(c)) for c in kept), *made], place)


def flat_map(
    node: Node,
    function: Callable[..., Any],
    output: Output,
    check: FunctionChecker,
    columns: Sequence[str] | None = None,
    carry: str | Sequence[str] = (),
    name: str | None = None,
) -> FlatMap:
    """Zero or more rows for each row: `carry`, then what a compiled generator yields."""
    place = Place("flat_map", name)
    kept = _carry(node, carry, place)
    checked, arguments, names = _checked(node, function, output, columns, place, check, True)
    schema = result_schema(node, kept, given_fields(names, checked.outputs), place)
    return FlatMap(
        (node,),
        schema,
        place.name,
        site=place.site,
        key=node.key if set(node.key) <= set(kept) else (),
        time=kept_time(node, schema),
        function=checked,
        arguments=arguments,
        carry=kept,
    )


def process(
    node: Node,
    function: Callable[..., Any],
    state: Any,
    output: Output,
    check: FunctionChecker,
    columns: Sequence[str] | None = None,
    name: str | None = None,
) -> Process:
    """Zero or more rows for each row, by a compiled generator over a state record per key."""
    place = Place("process", name)
    if not node.key:
        raise place.error(*why_no_key(node))
    spec = state_spec(state, place)
    checked, arguments, names = _checked(node, function, output, columns, place, check, True, spec)
    schema = result_schema(node, node.key, given_fields(names, checked.outputs), place)
    return Process(
        (node,),
        schema,
        place.name,
        site=place.site,
        key=node.key,
        time=kept_time(node, schema),
        function=checked,
        arguments=arguments,
        carry=node.key,
    )


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
    names, declared = output_columns(output, place)
    arguments = arguments_of(node, function, columns, place, False)
    kept = _carry(node, carry, place)
    results = Schema(tuple(Field(n, kind) for n, kind in zip(names, declared or (), strict=True)))
    schema = result_schema(node, kept, results, place)
    try:
        calls = make(arguments, kept, results)
    except DataError as error:
        raise place.error(str(error)) from None
    return MapBatches((node,), schema, place.name, site=place.site, function=calls)


def _checked(
    node: Node,
    function: Callable[..., Any],
    output: Output,
    columns: Sequence[str] | None,
    place: Place,
    check: FunctionChecker,
    generator: bool,
    state: StateSpec | None = None,
) -> tuple[Function, tuple[str, ...], tuple[str, ...]]:
    """The checked function, the columns that are its arguments, and the names of its outputs."""
    names, declared = output_columns(output, place)
    arguments = arguments_of(node, function, columns, place, state is not None)
    checked = check(
        function,
        [node.schema[argument] for argument in arguments],
        operator=place.operator,
        site=place.site,
        generator=generator,
        state=state,
        declared=declared,
        names=names,
    )
    if len(checked.outputs) != len(names):
        raise place.error(
            f"{checked.name} gives {len(checked.outputs)} values, and output= names {len(names)}",
            "name each value it gives, in order",
        )
    return checked, arguments, names


def output_columns(output: Any, place: Place) -> tuple[tuple[str, ...], list[DataType] | None]:
    """The names of a function's outputs, and their types where the user gives them."""
    if isinstance(output, Mapping):
        names = tuple(output)
        declared = [place.type(kind, str(name)) for name, kind in output.items()]
    else:
        names, declared = place.names(output, "output"), None
    if not names:
        raise place.error("output= names no column", 'output=["a", "b"]')
    for name in names:
        place.new_name(name)
    if len(set(names)) != len(names):
        raise place.error(f"a name is twice in output={list(names)}", "name each value once")
    return names, declared


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


def given_fields(names: Sequence[str], outputs: Sequence[DataType]) -> list[Field]:
    """The columns of what a function gives."""
    return [Field(name, kind) for name, kind in zip(names, outputs, strict=True)]


def result_schema(node: Node, kept: Sequence[str], given: Iterable[Field], place: Place) -> Schema:
    """Columns that are kept, then those that a function gives."""
    fields = [*(Field(column, node.schema[column]) for column in kept), *given]
    return place.schema(fields, f"{', '.join(kept)} comes by itself: use another name in output=")


def kept_time(node: Node, schema: Schema) -> str | None:
    """The event time goes on if a column of the same name and type comes out."""
    if node.time is None or node.time not in schema:
        return None
    return node.time if schema[node.time].name == node.schema[node.time].name else None


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
