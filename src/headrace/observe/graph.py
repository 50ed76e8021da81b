"""A pipeline as a drawing: Mermaid text, and SVG without any other package."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from ..plan.nodes import Node, walk

WIDTH, HEIGHT = 220, 46  # of a box
GAP_ACROSS, GAP_DOWN, MARGIN = 28, 34, 12
LONGEST = 30  # characters of a line in a box


@dataclass(frozen=True)
class Graph:
    """The operators of a pipeline, and who reads whom. Notebooks draw it.

    >>> from headrace.plan.nodes import Filter, Source
    >>> from headrace.plan.schema import Schema
    >>> from headrace.plan.expressions import Column
    >>> source = Source((), Schema.of({"a": bool}), "events", connector="memory")
    >>> print(Graph.of([Filter((source,), source.schema, "", predicate=Column("a"))]))
    flowchart TD
        n0["source events<br/>memory"]
        n1["filter<br/>a"]
        n0 --> n1
    """

    labels: tuple[tuple[str, str], ...]  # (operator, what it does) of each
    edges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, roots: Sequence[Node]) -> Graph:
        """The graph that some nodes stand on."""
        nodes = list(walk(roots))
        number = {id(node): k for k, node in enumerate(nodes)}
        labels = [(f"{node.kind} {node.name}".strip(), node.detail()) for node in nodes]
        edges = [(number[id(source)], k) for k, node in enumerate(nodes) for source in node.inputs]
        return cls(tuple(labels), tuple(edges))

    def __str__(self) -> str:
        return self.mermaid

    @property
    def mermaid(self) -> str:
        """The text that Mermaid draws."""
        lines = ["flowchart TD"]
        for k, label in enumerate(self.labels):
            said = "<br/>".join(_escaped(part) for part in label if part)
            lines.append(f'    n{k}["{said}"]')
        lines += [f"    n{source} --> n{target}" for source, target in self.edges]
        return "\n".join(lines)

    @property
    def svg(self) -> str:
        """The drawing: each operator below those that it reads."""
        places = self._places()
        right = max((x for x, _ in places), default=0) + WIDTH + MARGIN
        bottom = max((y for _, y in places), default=0) + HEIGHT + MARGIN
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{right}" height="{bottom}" '
            f'viewBox="0 0 {right} {bottom}" font-family="sans-serif" font-size="12">',
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
            'markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#888"/>'
            "</marker></defs>",
        ]
        for source, target in self.edges:
            (x, y), (to_x, to_y) = places[source], places[target]
            parts.append(
                f'<line x1="{x + WIDTH // 2}" y1="{y + HEIGHT}" x2="{to_x + WIDTH // 2}" '
                f'y2="{to_y}" stroke="#888" marker-end="url(#arrow)"/>'
            )
        for (x, y), (operator, detail) in zip(places, self.labels, strict=True):
            parts.append(
                f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#e8f1f8" '
                'stroke="#4a7fa5"/>'
                f'<text x="{x + 10}" y="{y + 19}" fill="#123" font-weight="bold">'
                f"{_short(operator)}</text>"
                f'<text x="{x + 10}" y="{y + 36}" fill="#345">{_short(detail)}</text>'
            )
        return "".join([*parts, "</svg>"])

    def _repr_svg_(self) -> str:
        return self.svg

    def _places(self) -> list[tuple[int, int]]:
        """Left upper corners; an operator lies one row below the lowest that it reads."""
        rows: list[int] = []
        for k in range(len(self.labels)):
            rows.append(max((rows[s] + 1 for s, target in self.edges if target == k), default=0))
        columns = [sum(row == rows[k] for row in rows[:k]) for k in range(len(rows))]
        return [
            (MARGIN + column * (WIDTH + GAP_ACROSS), MARGIN + row * (HEIGHT + GAP_DOWN))
            for column, row in zip(columns, rows, strict=True)
        ]


def _escaped(text: str) -> str:
    """Text inside the quotes of Mermaid."""
    return html.escape(text, quote=False).replace('"', "#quot;").replace("\n", " ")


def _short(text: str) -> str:
    said = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return html.escape(said)
