"""Names that last: every operator gets one, and stateful operators keep theirs.

A stateful operator is known by the user's name for it, or by its kind and its place among the
*stateful* operators, so that a new filter does not orphan its state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ..errors import PipelineError
from ..graph import transform, walk
from ..nodes import Node, Project, Stateful

PROJECTIONS = ("select", "with_columns", "drop", "rename", "map")


def name_operators(roots: Sequence[Node]) -> list[Node]:
    """Every operator with a name of its own; a name given twice is an error."""
    given: dict[str, Node] = {}
    for node in walk(roots):
        if node.name and node.name in given:
            raise PipelineError(
                f"two operators are named {node.name!r}",
                operator=node.written,
                site=node.site,
                fix=f"the other one is at {given[node.name].site!r}: give each its own name",
            )
        if node.name:
            given[node.name] = node
    used, ordinals, stateful = set(given), Counter[str](), Counter[str]()

    def kind_of(node: Node) -> str:
        """A projection is called what the user wrote: map, with_columns and so on."""
        wrote = node.written.partition(" ")[0]
        return wrote if isinstance(node, Project) and wrote in PROJECTIONS else node.kind

    def named(node: Node, inputs: tuple[Node, ...]) -> Node:
        name = node.name
        while not name:
            kind = kind_of(node)
            ordinals[kind] += 1
            name = f"{kind}_{ordinals[kind]}"
            if name in used:
                name = ""
        if isinstance(node, Stateful):
            stateful[node.kind] += 1
            identity = node.name or f"{node.kind}_{stateful[node.kind]}"
            return replace(node, inputs=inputs, name=name, identity=identity)
        return replace(node, inputs=inputs, name=name)

    return transform(roots, named)
