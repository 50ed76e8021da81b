"""What a user's function yields, as columns: a row for one of its outputs."""

from __future__ import annotations

from headrace.plan.functions import Function
from headrace.plan.nodes import ASIDE, FlatMap
from headrace.plan.timed import TimedProcess
from headrace.plan.types import int64

from .expressions import Scope
from .stores import assign
from .values import zero
from .writer import Value


def given_columns(
    scope: Scope, node: FlatMap | TimedProcess, function: Function, result: str
) -> dict[str, Value]:
    """The columns of the operator's row, by the code of what its function yields."""
    if len(node.outputs) == 1:
        (output,) = node.outputs
        several = len(output.columns) > 1
        return {
            column: scope.result(f"{result}[{k}]" if several else f"only({result})", kind)
            for k, (column, kind) in enumerate(zip(output.columns, function.outputs, strict=True))
        }
    writer = scope.writer
    made = {ASIDE: Value(int64, (writer.let("0"),))}
    for column in dict.fromkeys(c for output in node.outputs for c in output.columns):
        kind = node.schema[column]
        words = tuple(writer.let(word) for word in zero(kind))
        made[column] = Value(kind, words, writer.let("False", "n") if kind.nullable else None)
    for number, output in enumerate(node.outputs):
        kinds = function.results.get(output.name, ())
        if not kinds:
            continue
        with scope.branch(f"if is_for({result}, {output.name!r}):"):
            writer.line(f"{made[ASIDE].word} = {number}")
            for k, (column, kind) in enumerate(zip(output.columns, kinds, strict=True)):
                value = writer.let(f"value_for({result}, {output.name!r}, {k})", "r")
                assign(writer, made[column], scope.result(value, kind))
    return made
