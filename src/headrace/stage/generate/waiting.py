"""Rows that wait for their time (`stage/waiting.py`): how they enter, and in which order they go.

A record is a row. Its key is that of the operator, a side, and which row of that key and side it
is; so records are saved, restored and moved as those of any operator.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.plan.nodes import Windowed
from headrace.plan.types import bool_, int64

from .context import Context
from .expressions import Scope
from .firing import Advance
from .layouts import AT, COLUMN, window_layout
from .stores import assign, call_arguments, compare_text, entry_code, keep
from .values import hash_code
from .writer import Value, Writer


class EnteringRow:
    """A row for the pane `store`: the columns that are kept, its side and its time."""

    def __init__(
        self,
        context: Context,
        scope: Scope,
        node: Windowed,
        columns: Sequence[str],
        side: Value,
        time: Value,
    ) -> None:
        self._context, self._scope, self._node = context, scope, node
        self._columns, self._time = columns, time
        writer, hashed = context.writer, context.made.uses_hashes
        self._keys = [scope.column(name) for name in node.key]
        self._hash = writer.let("hashes[place]" if hashed else hash_code(self._keys), "h")
        self._side = Value(bool_, (writer.let(side.word),))

    def prefetch(self) -> None:
        """Ask for the first records of rows ahead, which are mostly of the same side."""
        hashed = f"spread_hash({{}}, int({self._side.word}), 0)"
        self._context.prefetch(window_layout(self._node), hashed)

    def found(self, call: str, number: str) -> str:
        """Code that finds or inserts the record of this key and side with a number."""
        made = f"spread_hash({self._hash}, int({self._side.word}), {number})"
        arguments = call_arguments([*self._keys, self._side, Value(int64, (number,))])
        return f"{call}(store, {', '.join([made, *arguments])})"

    def keep(self, number: str) -> str:
        """Write its record, under a number that no other one has; gives the record."""
        context, node = self._context, self._node
        writer, layout = context.writer, window_layout(node)
        values = [self._scope.column(name) for name in self._columns]
        texts = [v for v in (*self._keys, *values) if v.type.is_view]
        if texts:  # asked for at once: a row enters whole, or not yet
            with writer.block(f"if lacks_bytes(store, {bytes_of(texts)}):"):
                context.need_store("place")
        record = writer.let(self.found("window_insert", number), "m")
        with writer.block(f"if {record} < 0:"):
            context.need_store("place")
        entry = writer.let(entry_code(layout, "store", record), "e")
        assign(writer, layout.value(AT, entry), self._time)
        for k, (name, value) in enumerate(zip(self._columns, values, strict=True)):
            kept = Value(node.rows[name], value.words, value.valid)
            keep(writer, kept, layout.value(f"{COLUMN}{k}", entry), "Heap(store.heap)")
        context.note_change(entry, record)
        return entry


def enter_waiting_row(context: Context, row: EnteringRow) -> None:
    """Keep a row in the pane that takes rows, under a number that is free."""
    writer = context.writer
    writer.line("pane = taking_pane(panes)")
    with writer.block("if pane == 0:"):
        ask_for_taking_pane(writer)
        context.leave("NEED_MEMORY", "place")
    writer.line("store = Store(pane)")
    writer.line("epoch = store.epoch")
    writer.line("free = store.count")
    with writer.block(f"while {row.found('window_find', 'free')} >= 0:"):  # of a pane that moved
        writer.line("free += 1")
    entry = row.keep("free")
    writer.line(f"wait_until(panes, store, {entry}.{AT})")


def ask_for_taking_pane(writer: Writer) -> None:
    """Say that the pane that takes rows is to be opened."""
    writer.line("task.need_window = WAITING + panes.taking")
    writer.line("task.need_first, task.need_last = LAST, LAST")
    writer.line("task.needs_window = 1")


def bytes_of(texts: Sequence[Value]) -> str:
    """Code of the bytes that strings take in a heap."""
    return " + ".join(f"(kept_bytes({v.words[0]}) if {v.valid or 'True'} else 0)" for v in texts)


class Rows(Advance):
    """`advance` of an operator whose records are rows."""

    def keys_of(self, entry: str) -> list[Value]:
        """The key of a row."""
        return self.layout.key_values(entry)[: -self.layout.spread]

    def side(self, entry: str) -> Value:
        """Its side."""
        return self.layout.key_values(entry)[-self.layout.spread]

    def found(self, store: str, side: str, number: str, call: str = "window_find") -> str:
        """Code of the number of a row of the key of `entry`, or -1."""
        made = f"spread_hash(entry.hash, int({side}), {number})"
        keys = [*self.keys_of("entry"), Value(bool_, (side,)), Value(int64, (number,))]
        return f"{call}({', '.join([store, made, *call_arguments(keys)])})"

    # ---- where they wait ---------------------------------------------------------------------

    def put_into_order(self) -> None:
        """Rows that have come since the last time go to the queue. Of a pane that was saved, those
        whose time is before all that wait have gone on."""
        writer = self.writer
        with writer.block("for slot in range(panes.mask + 1):"):
            writer.line("pane = i64s(panes.directory)[slot]")
            with writer.block("if pane == 0 or not holds_rows(Store(pane)):"):
                writer.line("continue")
            writer.line("store = Store(pane)")
            with writer.block("if lacks_queue(panes, store.count - store.queued):"):
                writer.line("task.needs_queue = panes.waiting + store.count - store.queued")
                self.return_("NEED_MEMORY")
            with writer.block("if store.given == NOT_ORDERED:"):
                writer.line("store.given = 0")
            with writer.block("while store.queued < store.count:"):
                writer.line(f"entry = {self.entry('store', 'store.queued')}")
                with writer.block(f"if entry.{AT} + 1 >= store.first:"):
                    side = self.side("entry").word
                    writer.line(f"place = place_of(store, store.queued, {side})")
                    writer.line(f"push_row(panes, entry.{AT}, window_prefix(entry), place)")
                with writer.block("else:"):
                    writer.line("store.given += 1")
                writer.line("store.queued += 1")

    def next_row(self) -> None:
        """`entry`: the row whose turn it is, in its pane `store`."""
        self.writer.line("place = next_place(panes)")
        self.writer.line("store = Store(pane_at(panes, place))")
        self.writer.line(f"entry = {self.entry('store', 'row_at(place)')}")

    def pass_row(self) -> None:
        """That row has had its turn."""
        self.writer.line("store.given += 1")
        self.writer.line("pop_row(panes)")

    def queue_text(self) -> str:
        """push_row(panes, time, prefix, place) and pop_row(panes), by time, key and place."""
        keys = [self.keys_of("a"), self.keys_of("b")]
        return f"""{compare_text("key_order", *keys)}

@compiled
def waits_before(panes, one, other):
    words = i64s(panes.queue)
    for k in range(2):
        if words[3 * one + k] != words[3 * other + k]:
            return words[3 * one + k] < words[3 * other + k]
    place, another = words[3 * one + 2], words[3 * other + 2]
    a = {self.entry("Store(pane_at(panes, place))", "row_at(place)")}
    b = {self.entry("Store(pane_at(panes, another))", "row_at(another)")}
    order = key_order(a, b)
    return order < 0 if order != 0 else place < another


@compiled
def push_row(panes, time, prefix, place):
    at = queue_up(panes, time, prefix, place)
    while at > 0 and waits_before(panes, at, (at - 1) // 2):
        change_places(panes, at, (at - 1) // 2)
        at = (at - 1) // 2


@compiled
def pop_row(panes):
    panes.waiting -= 1
    count, at = panes.waiting, 0
    change_places(panes, 0, count)
    while 2 * at + 1 < count:
        below = 2 * at + 1
        if below + 1 < count and waits_before(panes, below + 1, below):
            below += 1
        if waits_before(panes, at, below):
            return
        change_places(panes, at, below)
        at = below
"""
