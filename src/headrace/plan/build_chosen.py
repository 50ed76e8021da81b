"""Checked nodes that let some rows through, by a state: limit and dedup.

Each is a `process` that carries all columns along and yields at most once for a row, so engines,
owners and snapshots know nothing of it; what it yields is dropped behind it. Only `dedup` within a
time is an operator of its own, whose state lies in panes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .bind import FunctionChecker
from .build_functions import why_no_key
from .build_keyed import why_no_time
from .checks import Place
from .dedup import DedupWithin
from .durations import positive_length
from .errors import ExpressionError
from .expressions import Column
from .functions import Output, StateSpec
from .nodes import Dedup, Limit, Node, Process, Project, extended
from .schema import HIDDEN_PREFIX, Field
from .types import bool_, int64
from .windows.near import Near

KEPT = f"{HIDDEN_PREFIX}kept"


def limit(node: Node, rows: Any, check: FunctionChecker, name: str | None = None) -> Project:
    """The first rows, so many of them."""
    place = Place("limit", name)
    if isinstance(rows, bool) or not isinstance(rows, int) or not 0 <= rows < 1 << 63:
        raise place.error(f"{rows!r} is not a number of rows", "limit(100)")
    state = StateSpec((Field("left", int64),), (rows,))
    return _chosen(Limit, node, (), _some_rows, state, (), place, check, rows=rows)


def dedup(
    node: Node,
    columns: Sequence[str],
    within: Any,
    check: FunctionChecker,
    name: str | None = None,
) -> Project:
    """The first row of each key, or the first one in so much time."""
    place = Place("dedup", name)
    key = tuple(place.existing(column, node.schema) for column in columns) or node.key
    if not key:
        what, fix = why_no_key(node)
        raise place.error(what, f'dedup("id"), or {fix}')
    if len(set(key)) != len(key):
        raise place.error(f"a column is twice in {list(key)}", "name each once")
    if within is None:
        state = StateSpec((Field("seen", bool_),), (False,))
        return _chosen(Dedup, node, key, _first_ever, state, (), place, check)
    if node.time is None:
        raise place.error(*why_no_time(node))
    try:
        length = positive_length(within, node.schema[node.time], "within")
    except ExpressionError as error:
        raise place.error(error.what, error.fix) from None
    if length > Near(length).farthest:
        raise place.error(f"within={within!r} is too long", 'within="1d"')
    made = DedupWithin(
        (node,),
        node.schema,
        place.name,
        site=place.site,
        key=key,
        time=node.time,
        carry=node.schema.names,
        rows=node.schema,
        window=Near(length),
        at=node.time,
    )
    return _shown(made, node, place)


def _some_rows(state: Any) -> Iterator[bool]:
    if state.left > 0:
        state.left -= 1
        yield True


def _first_ever(state: Any) -> Iterator[bool]:
    if not state.seen:
        state.seen = True
        yield True


def _chosen(
    make: type[Process],
    node: Node,
    key: tuple[str, ...],
    function: Callable[..., Any],
    state: StateSpec,
    arguments: tuple[str, ...],
    place: Place,
    check: FunctionChecker,
    **said: Any,
) -> Project:
    checked = check(
        function,
        [node.schema[argument] for argument in arguments],
        operator=place.operator,
        site=place.site,
        generator=True,
        state=state,
        declared=[bool_],
        names=(KEPT,),
    )
    kept = Field(KEPT, bool_)
    chosen = make(
        (node,),
        extended(node.schema, kept),
        place.name,
        site=place.site,
        key=key,
        time=node.time,
        function=checked,
        arguments=arguments,
        carry=node.schema.names,
        outputs=(Output("", (kept,), (KEPT,)),),
        **said,
    )
    return _shown(chosen, node, place)


def _shown(chosen: Node, node: Node, place: Place) -> Project:
    """Rows that were chosen, with the columns and the key that they had."""
    columns = tuple((column, Column(column)) for column in node.schema.names)
    return Project(
        (chosen,), node.schema, "", site=place.site, key=node.key, time=node.time, columns=columns
    )
