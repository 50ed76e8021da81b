"""Several outputs of a function: rows for other streams beside the one that its operator gives.

Whichever of them a row is for, it is one of the operator's rows, and says so in a hidden column. A
filter behind it makes a stream of those that are for one output. Values of one type share a column,
whichever output they are for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from .checks import Place
from .expressions import Binary, Column, Literal
from .functions import Function, Output, Wanted
from .nodes import ASIDE, Filter, FlatMap, Node, Project
from .schema import HIDDEN_PREFIX, Field, Schema
from .timed import TimedProcess
from .types import DataType, int64

VALUE = f"{HIDDEN_PREFIX}value_"  # columns of values, by their number

Emitting = TypeVar("Emitting", bound=FlatMap | TimedProcess)


def wanted_outputs(output: Any, asides: Any, place: Place) -> dict[str, Wanted]:
    """What `output=` and `asides=` name; that of the stream itself comes first."""
    made = {"": output_columns(output, place)}
    if asides is None:
        return made
    if not isinstance(asides, Mapping) or not asides:
        what = f"asides={asides!r} names no outputs"
        raise place.error(what, 'asides={"alerts": ["user", "price"]}')
    for name, columns in asides.items():
        if not isinstance(name, str) or not name:
            raise place.error(f"{name!r} is no name of an aside", 'asides={"alerts": "price"}')
        made[name] = output_columns(columns, place)
    return made


def output_columns(output: Any, place: Place) -> Wanted:
    """The names of a function's results, and their types where the user gives them."""
    declared: list[DataType] | None = None
    if isinstance(output, Mapping):
        names = tuple(output)
        declared = [place.type(kind, str(name)) for name, kind in output.items()]
    else:
        names = place.names(output, "output")
    if not names:
        raise place.error("output= names no column", 'output=["a", "b"]')
    for name in names:
        place.new_name(name)
    if len(set(names)) != len(names):
        raise place.error(f"a name is twice in output={list(names)}", "name each value once")
    return Wanted(names, declared)


def agreed_outputs(
    wanted: Mapping[str, Wanted], functions: Sequence[Function], place: Place
) -> dict[str, tuple[Field, ...]]:
    """The columns of each output, by what functions give for it."""
    made = {}
    for name, output in wanted.items():
        kinds = next((f.results[name] for f in functions if name in f.results), output.declared)
        if kinds is None:
            said = f"the aside {name!r}" if name else f"output={list(output.names)}"
            fix = f"yield hr.aside({name!r}, ...)" if name else "yield some"
            raise place.error(f"no row is yielded for {said}", f"{fix}, or declare its types")
        made[name] = output.fields(kinds)
    return made


def emitting(
    node: Emitting, kept: Sequence[Field], outputs: Mapping[str, tuple[Field, ...]]
) -> Emitting:
    """The operator with columns for all outputs, behind those that are kept."""
    if len(outputs) == 1:
        fields = outputs[""]
        names = tuple(field.name for field in fields)
        schema = Schema((*kept, *fields))
        return replace(node, schema=schema, outputs=(Output("", fields, names),))
    columns: list[Field] = []
    made: list[Output] = []
    for name, fields in outputs.items():
        free, taken = list(columns), []
        for field in fields:
            column = next((one for one in free if one.type == field.type), None)
            if column is None:
                column = Field(f"{VALUE}{len(columns)}", field.type)
                columns.append(column)
            else:
                free.remove(column)
            taken.append(column.name)
        made.append(Output(name, fields, tuple(taken)))
    schema = Schema((*kept, Field(ASIDE, int64), *columns))
    return replace(node, schema=schema, time=None, outputs=tuple(made))


def shown(
    node: FlatMap | TimedProcess, name: str, schema: Schema, time: str | None, place: Place
) -> Node:
    """The rows of one output as the user knows them."""
    if node.schema == schema:
        return node
    number, output = next((k, o) for k, o in enumerate(node.outputs) if o.name == name)
    rows: Node = node
    if len(node.outputs) > 1:
        wanted = Binary("==", Column(ASIDE), Literal(number, int64))
        rows = Filter((node,), node.schema, "", site=place.site, key=node.key, predicate=wanted)
    lies_in = dict(zip((field.name for field in output.fields), output.columns, strict=True))
    return Project(
        (rows,),
        schema,
        place.name if name else "",
        site=place.site,
        key=node.key,
        time=time,
        columns=tuple((column, Column(lies_in.get(column, column))) for column in schema.names),
    )


def emitter_of(node: Node) -> Node:
    """The operator that gave the rows of a stream, behind what shows them to the user: that alone
    reads hidden columns."""
    found = node
    while isinstance(found, Project | Filter) and any(
        name.startswith(HIDDEN_PREFIX) for name in found.input.schema.names
    ):
        found = found.input
    return found


def aside(node: Node, output: str, name: str | None = None) -> Node:
    """The rows that a function gave to one of its asides."""
    place, emitter = Place("aside", name), emitter_of(node)
    there = emitter.outputs[1:] if isinstance(emitter, FlatMap | TimedProcess) else ()
    found = next((each for each in there if each.name == output), None)
    if found is None:
        known = f", only {', '.join(repr(each.name) for each in there)}" if there else ""
        raise place.error(
            f"{node.written} has no aside {output!r}{known}",
            "name it in asides=, and keep the stream that process gives in a variable",
        )
    assert isinstance(emitter, FlatMap | TimedProcess)
    kept = emitter.key if isinstance(emitter, TimedProcess) else emitter.carry
    schema = result_schema(emitter.inputs[0], kept, found.fields, place)
    return shown(emitter, output, schema, kept_time(emitter.inputs[0], schema), place)


def result_schema(node: Node, kept: Sequence[str], given: Sequence[Field], place: Place) -> Schema:
    """Columns that are kept, then those that a function gives."""
    fields = [*(Field(column, node.schema[column]) for column in kept), *given]
    return place.schema(fields, f"{', '.join(kept)} comes by itself: use another name in output=")


def kept_time(node: Node, schema: Schema) -> str | None:
    """The event time goes on if a column of the same name and type comes out."""
    if node.time is None or node.time not in schema:
        return None
    return node.time if schema[node.time].name == node.schema[node.time].name else None
