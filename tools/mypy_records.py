"""A plugin for mypy: the fields of records are known to Numba and at run time, not to mypy.

`@record` makes another class of the one that it decorates: with `allocate`, with the address of a
record as its argument, and with fields whose kinds are no types.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import ClassDefContext, Plugin

RECORD = "headrace.stage.memory.records.record"


def _is_any(context: ClassDefContext) -> None:
    context.cls.info.fallback_to_any = True


class Records(Plugin):
    """Takes all that is asked of a record for granted."""

    def get_class_decorator_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        """See mypy."""
        return _is_any if fullname == RECORD else None


def plugin(version: str) -> type[Plugin]:
    """What mypy looks for."""
    return Records
