"""Which limits end a job: those behind which nothing more of its sources is wanted."""

from __future__ import annotations

from collections.abc import Sequence

from .nodes import Limit, Node, Source


def last_limits(roots: Sequence[Node]) -> tuple[Limit, ...]:
    """The limits that all rows go through on their way from any source to any sink, the first one
    on each way from a sink; () if some rows go through none."""
    found: dict[int, Limit] = {}
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Source):
            return ()
        if isinstance(node, Limit):
            found[id(node)] = node
        else:
            stack.extend(node.inputs)
    return tuple(found.values())
