"""A pipeline as a drawing: Mermaid text, and SVG without any other package."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..plan.graph import walk
from ..plan.nodes import Node
from .numbers import short

WIDTH, LINE, BORDER = 220, 17, 12  # of a box; a line more makes it higher
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

    labels: tuple[tuple[str, ...], ...]  # (operator, what it does) of each, and its rates
    edges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, roots: Sequence[Node], rates: Mapping[str, str] | None = None) -> Graph:
        """The graph that some nodes stand on; with rates, by the names of operators that run."""
        nodes = list(walk(roots))
        number = {id(node): k for k, node in enumerate(nodes)}
        labels: list[tuple[str, ...]] = [
            (f"{node.kind} {node.name}".strip(), node.detail()) for node in nodes
        ]
        if rates is not None:
            labels = [(*label, rates.get(node.name, "")) for label, node in zip(labels, nodes)]
        edges = [(number[id(source)], k) for k, node in enumerate(nodes) for source in node.inputs]
        return cls(tuple(labels), tuple(edges))

    @classmethod
    def of_job(cls, job: Any) -> Graph:
        """The operators of a job, with the rows per second that they have had so far."""
        job.metrics()  # from now on operators inside kernels are measured, too
        progress = job.progress()
        return cls.of(job.plan.optimized, rates_of(progress.operators, progress.seconds))

    @classmethod
    def told(cls, labels: Sequence[Sequence[str]], edges: Sequence[Sequence[int]]) -> Graph:
        """A graph of another process, as it came through JSON."""
        return cls(tuple(map(tuple, labels)), tuple((source, target) for source, target in edges))

    @property
    def height(self) -> int:
        """Of a box."""
        return BORDER + LINE * max(map(len, self.labels), default=2)

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
        bottom = max((y for _, y in places), default=0) + self.height + MARGIN
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
                f'<line x1="{x + WIDTH // 2}" y1="{y + self.height}" x2="{to_x + WIDTH // 2}" '
                f'y2="{to_y}" stroke="#888" marker-end="url(#arrow)"/>'
            )
        for (x, y), (operator, *details) in zip(places, self.labels, strict=True):
            parts.append(
                f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{self.height}" rx="6" '
                'fill="#e8f1f8" stroke="#4a7fa5"/>'
                f'<text x="{x + 10}" y="{y + 19}" fill="#123" font-weight="bold">'
                f"{_short(operator)}</text>"
            )
            parts += [
                f'<text x="{x + 10}" y="{y + 19 + LINE * k}" fill="#345">{_short(detail)}</text>'
                for k, detail in enumerate(details, start=1)
            ]
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
            (MARGIN + column * (WIDTH + GAP_ACROSS), MARGIN + row * (self.height + GAP_DOWN))
            for column, row in zip(columns, rows, strict=True)
        ]


def rates_of(operators: Mapping[str, Mapping[str, Any]], seconds: float) -> dict[str, str]:
    """Rows per second of operators, in and out; of those inside kernels once they are measured.

    >>> rates_of({"sink_1": {"rows_in": 3000, "rows_out": 0}}, 2.0)
    {'sink_1': '1.50 k rows/s'}
    """
    made: dict[str, str] = {}
    for name, measured in operators.items():
        for each, counts in {name: measured, **measured.get("inside", {})}.items():
            rates = [counts[rows] / max(seconds, 1e-9) for rows in ("rows_in", "rows_out")]
            known = [short(rate) for rate in (rates if rates[1] else rates[:1])]
            made[each] = " → ".join(known) + " rows/s"
    return made


def _escaped(text: str) -> str:
    """Text inside the quotes of Mermaid."""
    return html.escape(text, quote=False).replace('"', "#quot;").replace("\n", " ")


def _short(text: str) -> str:
    said = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return html.escape(said)
