"""A look at a stream: its first rows, computed now from the beginning of its sources.

>>> import headrace as hr
>>> hr.read.memory({"n": [1, 2, 3]}).filter(hr.col("n") > 1).head(1).to_pydict()
{'n': [2]}
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from .connect.collect import CollectSink
from .connect.console import ConsoleSink, cell_text
from .connect.file_source import FileSource
from .connect.memory import MemorySource
from .connect.numbered import NumberedSource
from .connect.piece import PieceSource
from .plan.checks import Place
from .plan.connector import is_replayable
from .plan.graph import transform, walk
from .plan.nodes import Node, Sink, Source
from .plan.planner import plan
from .plan.schema import Schema
from .thread import ThreadRun

ROWS, SECONDS = 10_000, 5.0  # of each channel
NOTEBOOK_ROWS, NOTEBOOK_PIECE, NOTEBOOK_SECONDS = 10, 1_000, 1.0
CAPACITY = 1_024
QUICK = (MemorySource, NumberedSource, FileSource)  # sources that answer at once


class FirstRows(CollectSink):
    """Collects rows, and counts them as they come."""

    rows = 0

    def write(self, rows: pa.RecordBatch, batch: str, attempt: str) -> str:
        """Keep rows for a commit."""
        self.rows += rows.num_rows
        return super().write(rows, batch, attempt)


def head(node: Node, n: int, rows: int, seconds: float = SECONDS) -> pa.Table:
    """The first rows that a node gives for the beginning of its sources."""
    place = Place("head", None)
    for name, value in (("n", n), ("rows", rows)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise place.error(f"{name}={value!r} is not a number of rows", "head(5)")
    for source in sources_of(node):
        if not is_replayable(source.connector):
            raise place.error(
                f"the rows of {source.connector} can be read only once, and looking takes them",
                "run the pipeline, and write to the console: hr.run(stream.write.console())",
            )
    sink = FirstRows()
    out = Sink((_over_pieces(node, rows, seconds),), node.schema, "head", connector=sink)
    run = ThreadRun(plan([out]), CAPACITY, compiled=False)
    run.run(lambda: sink.rows >= n)
    return sink.result().slice(0, n)


def sources_of(node: Node) -> Iterator[Source]:
    """The sources that a node stands on."""
    return (each for each in walk([node]) if isinstance(each, Source))


def _over_pieces(node: Node, rows: int, seconds: float) -> Node:
    def change(each: Node, inputs: tuple[Node, ...]) -> Node:
        if isinstance(each, Source):
            return replace(each, connector=PieceSource(each.connector, rows, seconds))
        return each.with_inputs(*inputs)

    return transform([node], change)[0]


def show(schema: Schema, rows: pa.Table) -> None:
    """Print rows as a table."""
    console = ConsoleSink(limit=None)
    console.open(schema)
    for batch in rows.combine_chunks().to_batches() or [_none(schema)]:
        console.write(batch, "0", "0")
    console.close()
    if not rows.num_rows:
        print("(no rows)")


def _none(schema: Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema.to_arrow())


def as_html(node: Node) -> str:
    """The columns of a stream as a table, and its first rows where they are quickly had."""
    rows: list[dict[str, Any]] = []
    if all(isinstance(source.connector, QUICK) for source in sources_of(node)):
        try:
            found = head(node, NOTEBOOK_ROWS, NOTEBOOK_PIECE, NOTEBOOK_SECONDS)
            rows = found.to_pylist()
        except Exception:  # a look must not fail: the run will say what is wrong
            rows = []
    names = "".join(f"<th>{html.escape(field.name)}</th>" for field in node.schema)
    kinds = "".join(f"<td>{html.escape(repr(field.type))}</td>" for field in node.schema)
    lines = [f"<tr>{names}</tr>", f"<tr style='opacity:0.6'>{kinds}</tr>"]
    for row in rows:
        cells = "".join(f"<td>{html.escape(cell_text(value))}</td>" for value in row.values())
        lines.append(f"<tr>{cells}</tr>")
    return f"<table class='headrace'>{''.join(lines)}</table>"
