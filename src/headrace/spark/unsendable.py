"""What cannot be sent to Spark's tasks: which operator holds it, and under which name."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from headrace.plan.errors import PipelineError
from headrace.plan.graph import walk
from headrace.plan.nodes import Node

FIX = 'make it inside of the function (or connector), or run with engine="node"'


def unsendable(roots: Iterable[Node], error: Exception) -> Exception:
    """The error to raise for a plan that cannot be pickled: of the operator whose fault it is."""
    for node in walk(list(roots)):
        for value in _values(node):
            if _travels(value):
                continue
            return PipelineError(
                f"{_held(value)} cannot be sent to Spark's workers ({error})",
                operator=node.written,
                site=node.site,
                fix=FIX,
            )
    return error


def _values(node: Node) -> Iterator[Any]:
    """What an operator holds besides its inputs."""
    for field in dataclasses.fields(node):
        if field.name != "inputs":
            yield getattr(node, field.name)


def _travels(value: Any) -> bool:
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(value)
    except Exception:
        return False
    return True


def _held(value: Any) -> str:
    """The words for it: by the variable of a function, or by its own class.

    >>> import threading
    >>> lock = threading.Lock()
    >>> def guarded(rows):
    ...     with lock:
    ...         return rows
    >>> _held(guarded)
    "'lock', which guarded() uses and which is an object of class lock,"
    """
    for function in _functions(value):
        used = inspect.getclosurevars(function)
        for name, variable in {**used.globals, **used.nonlocals}.items():
            if not inspect.ismodule(variable) and not _travels(variable):
                kind = type(variable).__name__
                return (
                    f"{name!r}, which {function.__name__}() uses and which is an object of class "
                    f"{kind},"
                )
    return f"an object of class {type(value).__name__}"


def _functions(value: Any) -> Iterator[Callable[..., Any]]:
    if inspect.isfunction(value):
        yield value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _functions(getattr(value, field.name))
