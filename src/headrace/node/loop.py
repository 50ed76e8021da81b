"""Which plans the workers' compiled loop can run, and how it is had soon. Loads no compiler."""

from __future__ import annotations

from headrace.plan.expressions import Call, Column, Expression, TextCall
from headrace.plan.nodes import (
    Filter,
    MapBatches,
    Node,
    Process,
    Project,
    Source,
    WindowAggregate,
    walk,
)
from headrace.plan.planner import Plan
from headrace.stage.beside import Beside, beside


def loop() -> Beside:
    """The workers' loop; where it is not in the disk cache, a process begins to compile it, and
    then what the host calls besides."""
    return beside("headrace.node.worker:work", "headrace.rehearsal:rehearse")


def runs_compiled(plan: Plan) -> str | None:
    """Why the workers' loop cannot run a plan alone, or None.

    Strings keep their bytes alive through Python objects, and plain Python needs the GIL.
    """
    for stage in plan.stages():
        for node in walk(stage.roots):
            if isinstance(node, MapBatches):
                return f"{node.name} is plain Python"
            if any(column.type.is_text for column in node.schema):
                return f"{node.name} has strings"
            if isinstance(node, Process) and node.function.state is not None:
                if any(state.type.is_text for state in node.function.state.fields):
                    return f"the state of {node.name} has strings"
            if any(map(_makes_text, _expressions(node))):
                return f"{node.name} makes strings"
            if isinstance(node, Source) and node.clock is not None:
                time = node.clock.time
                if not isinstance(time, Column) or node.schema[time.name].nullable:
                    return f"the event time of {node.name} is computed, or may be null"
    return None


def _expressions(node: Node) -> list[Expression]:
    match node:
        case Filter():
            return [node.predicate]
        case Project():
            return [expression for _, expression in node.columns]
        case WindowAggregate():
            operands = [aggregate.operand for _, aggregate in node.aggregates]
            return [operand for operand in operands if operand is not None]
    return []


def _makes_text(expression: Expression) -> bool:
    """Are strings made in it, even if none is given?"""
    here = (isinstance(expression, TextCall) and expression.op in ("lower", "upper", "concat")) or (
        isinstance(expression, Call) and any(kind.is_text for kind in expression.function.outputs)
    )
    return here or any(map(_makes_text, expression.parts()))
