"""What the formulas of windows need besides arithmetic (`plan.windows.base.Words`)."""

from __future__ import annotations

from headrace.plan.expressions import Builtin, Column, Literal
from headrace.plan.types import DataType, string

from .builtins import call_code
from .expressions import Resources
from .writer import Value

TIMESTAMP = DataType("timestamp")


class Formulas:
    """The words of formulas in one kernel."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def truncate(self, time: str, every: str, zone: str) -> str:
        """A time cut down to a step of the calendar, in a zone."""
        call = Builtin("truncate", (Column("time"), Literal(every, string)), zone)
        given = [Value(TIMESTAMP, (time,)), Value(string, ())]
        return call_code(call, given, TIMESTAMP, self._resources.literal).code
