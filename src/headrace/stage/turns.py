"""Errors in the turn of a row that has waited, or of a timer: of which row, and on which line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.functions import Function
from headrace.plan.timed import TimedProcess

from .functions.state import state_record
from .generate.layouts import AT, COLUMN, FIELD
from .keyed_store import KeyedStore, by_host
from .panes import Panes
from .row_queue import next_place
from .strings.text import new_heap
from .waiting import pane_at, row_at


def has_turn(kernel: Any) -> bool:
    """Is it the turn of a row that has waited, or of a timer?"""
    timed = isinstance(kernel.chain.windowed, TimedProcess)
    return timed and Panes(kernel.task.panes).waiting > 0


class Turn:
    """The row, or the timer, whose turn it is in a kernel, and the state of its key before it."""

    def __init__(self, kernel: Any) -> None:
        self.node: TimedProcess = kernel.chain.windowed
        panes = Panes(kernel.task.panes)
        place = by_host(next_place)(panes)
        found = _record(kernel, by_host(pane_at)(panes, place), by_host(row_at)(place))
        keys = [found[f"key_{k}"] for k in range(len(self.node.key) + 1)]
        self.is_timer: bool = keys.pop()
        columns = {name: found[f"{COLUMN}{k}"] for k, name in enumerate(self.node.kept)}
        self.row = {**dict(zip(self.node.key, keys, strict=True)), self.node.at: found[AT]}
        self.row |= {} if self.is_timer else columns
        spec = self.node.state
        values = list(spec.initial)
        if kernel.task.store != 0:
            state = _record(kernel, kernel.task.store, kernel.task.number)
            values = [state[f"{FIELD}{k}"] for k in range(len(values))]
        self._state, self._heap = state_record(spec).allocate(), new_heap(0)
        if any(field.type.is_view for field in spec.fields):
            self._state.heap = self._heap.address
        for field, value in zip(spec.fields, values, strict=True):
            setattr(self._state, field.name, value)
        self._calling: int = kernel.task.calling

    def error(self) -> Exception | None:
        """The error of the user's function when Python runs it."""
        function, arguments = self._function()
        try:
            made = function.callable(  # type: ignore[misc]
                self._state, *(self.row[name] for name in arguments)
            )
            for _ in made if function.is_generator else ():
                pass
        except Exception as error:
            return error
        return None

    def _function(self) -> tuple[Function, tuple[str, ...]]:
        node = self.node
        if not self.is_timer:
            return node.function, node.arguments
        timer = node.timers[self._calling]
        setattr(self._state, timer.field, None)
        return timer.function, timer.arguments


def _record(kernel: Any, address: int, number: int) -> dict[str, Any]:
    """A record of a pane by the names of its fields."""
    functions, store = kernel.functions, KeyedStore.at(address, kernel.functions.entry)
    columns = functions.numbered_columns()
    rows, _ = functions.save(store, columns, np.array([number], np.int32))
    return {name: _value(rows.column(name)) for name in rows.schema.names}


def _value(column: pa.Array) -> Any:
    """The only value of a column as functions see it: times are numbers."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type == pa.date32() else pa.int64())
    return column.to_pylist()[0]
