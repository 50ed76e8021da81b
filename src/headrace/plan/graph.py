"""Ways through the graph of a plan: its nodes in order, rebuilt, and who reads whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .nodes import Node


def walk(roots: Sequence[Node]) -> Iterator[Node]:
    """All nodes that the roots stand on, inputs first, each once."""
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((source, False) for source in reversed(node.inputs))


def transform(
    roots: Sequence[Node], change: Callable[[Node, tuple[Node, ...]], Node]
) -> list[Node]:
    """The graph rebuilt from its sources on: change(node, its new inputs) gives the new node."""
    made: dict[int, Node] = {}
    for node in walk(roots):
        made[id(node)] = change(node, tuple(made[id(source)] for source in node.inputs))
    return [made[id(root)] for root in roots]


def consumers(roots: Sequence[Node]) -> dict[int, list[Node]]:
    """id of each node -> the nodes that read it."""
    found: dict[int, list[Node]] = {}
    for node in walk(roots):
        for source in node.inputs:
            found.setdefault(id(source), []).append(node)
    return found
