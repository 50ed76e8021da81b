"""`sort_by_time` and `merge`: rows wait, and are given in the order of their times.

The number of a row's input stands in its record where that of its side stands elsewhere, and there
is no key before it: so it is what rows of equal times are compared by, before their arrival.
"""

from __future__ import annotations

from headrace.plan.by_time import INPUT, SortByTime
from headrace.plan.nodes import WATERMARK, visible
from headrace.plan.types import int64

from .context import Context
from .expressions import Resources, Scope
from .layouts import AT
from .waiting import Turns, enter_in_turn
from .writer import Value


def enter_numbered_row(context: Context, scope: Scope, node: SortByTime) -> None:
    """Keep a row until its time has come."""
    enter_in_turn(context, scope, node, scope.column(INPUT))


def sorted_text(node: SortByTime, resources: Resources) -> str:
    """advance(task): give the rows whose time has come."""
    made = Turns(node, resources)
    writer = made.writer
    made.put_into_order()
    with writer.block("while is_due(panes, task.watermark):"):
        made.leave_if_full()
        made.next_row()
        values = {name: made.column(name) for name in visible(node.schema).names}
        made.write(values | {WATERMARK: Value(int64, (f"entry.{AT}",))})
        made.pass_row()
    writer.line("end_waiting(task)")
    made.return_("CONSUMED")
    return made.text()
