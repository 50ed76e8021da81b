"""How a stream shows itself: its first rows, its operators, its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .plan.explain import explain_plan
from .plan.nodes import Node, Sink
from .plan.planner import plan

if TYPE_CHECKING:
    import pyarrow as pa

    from .observe.graph import Graph


class Shown:
    """What can be looked at before anything runs."""

    __slots__ = ()

    _node: Node

    def _repr_html_(self) -> str:
        from .look import as_html

        return as_html(self._node)

    def head(self, n: int = 5, *, rows: int = 10_000) -> pa.Table:
        """The first `n` rows as an Arrow table, computed now, on this thread.

        They come from at most `rows` rows of each channel, of which nothing is committed.

        >>> from headrace import read
        >>> read.memory({"a": [3, 1, 2]}).head(2).to_pydict()
        {'a': [3, 1]}
        """
        from .look import head

        return head(self._node, n, rows)

    def show(self, n: int = 10, *, rows: int = 10_000) -> None:
        """Print the first `n` rows as a table; as `head`.

        >>> from headrace import read
        >>> read.memory({"a": [3]}).show()
        a
        ─
        3
        """
        from .look import head, show

        show(self._node.schema, head(self._node, n, rows))

    def graph(self) -> Graph:
        """The operators, drawn: Mermaid text if printed, SVG in notebooks.

        >>> from headrace.stream import example
        >>> print(example(a=int).graph())
        flowchart TD
            n0["source example<br/>memory, 0 rows"]
        """
        from .observe.graph import Graph

        return Graph.of([self._node])

    def explain(self, *, fuse: str = "auto") -> str:
        """The plan as it is written, as it is rewritten, and its stages and kernels.

        >>> from headrace.expr import col
        >>> from headrace.stream import example
        >>> said = example(a=int, b=int).filter(col("a") > 1).select("a").explain()
        >>> [line for line in said.splitlines() if "kernel" in line]
        ['  kernel  filter_1 -> select_1']
        """
        rows = self._node
        nowhere = Sink((rows,), rows.schema, "", key=rows.key, connector="nowhere yet")
        return explain_plan(plan([nowhere], fuse=fuse))
