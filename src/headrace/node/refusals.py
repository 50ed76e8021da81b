"""What an engine cannot do, and how to say it."""

from __future__ import annotations

from typing import NoReturn

from headrace.plan.errors import HeadraceError


class EngineError(HeadraceError):
    """The engine cannot do what it is asked for."""


def check_told(
    scheduler: str | None, has_policy: bool, priority: float | None, deadline: int | None
) -> None:
    """What a query tells policies, where there is none to look at it, is an EngineError.

    scheduler: the name of one that asks no policy. deadline: in µs.

    >>> check_told("near", False, None, None)
    >>> check_told(None, False, None, 50_000)
    Traceback (most recent call last):
    headrace.node.refusals.EngineError: deadline=0.05s: there is no policy that could look at it
      fix: give one that reads features.deadline (docs/scheduling.md)
    """
    if priority is not None and scheduler is not None:
        raise EngineError(
            f"priority={priority:g}: the scheduler {scheduler!r} asks no policy, and so nobody "
            "looks at priorities\n  fix: leave out scheduler=, or give a policy"
        )
    if deadline is not None and not has_policy:
        raise EngineError(
            f"deadline={deadline / 1e6:g}s: there is no policy that could look at it\n"
            "  fix: give one that reads features.deadline (docs/scheduling.md)"
        )


def check_units(count: int, free: int, most: int) -> None:
    """More units than are free are an EngineError."""
    if count > free:
        raise EngineError(
            f"the query needs {count} units, and {free} of {most} are free\n"
            "  fix: run fewer queries at once, or fuse their operators"
        )


def refuse_policies() -> NoReturn:
    """Of an engine with a thread for each unit."""
    raise EngineError(
        "every unit has a thread of its own here, and no other scheduler can have them\n"
        '  fix: make an engine without scheduler="dedicated"'
    )


def refuse_forked() -> NoReturn:
    """Of an engine whose threads are in another process."""
    raise EngineError(
        "this engine belongs to the process that was forked: its threads are not here\n"
        "  fix: make an engine in the child, or start children with spawn"
    )
