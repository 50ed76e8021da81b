"""Rows that wait for their time (`stage/waiting.py`): how they enter, and in which order they go.

A record is a row. Its key is that of the operator, a side, and which row of that key and side it
is; so records are saved, restored and moved as those of any operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.plan.by_time import InTurn
from headrace.plan.nodes import Windowed
from headrace.plan.types import bool_, int64

from ..row_queue import QUEUE_WORDS
from .context import Context
from .expressions import Scope
from .firing import Advance
from .layouts import AT, COLUMN, window_layout
from .ordering import compare_text, merge_text
from .stores import assign, call_arguments, entry_code, keep
from .writer import Value, Writer


class EnteringRow:
    """A row for the pane `store`: the columns that are kept in each field, its side and its
    time. Where there are two of them, one is that of the other side."""

    def __init__(
        self,
        context: Context,
        scope: Scope,
        node: Windowed,
        columns: Mapping[str, Sequence[str]],
        side: Value,
        time: Value,
    ) -> None:
        self._context, self._scope, self._node = context, scope, node
        self._columns, self._time = columns, time
        writer = context.writer
        self._keys = [scope.column(name) for name in node.key]
        self._hash = writer.let(context.key_hash(scope, self._keys), "h")
        self.side = writer.let(side.word)
        self._side = Value(side.type, (self.side,))

    def prefetch(self) -> None:
        """Ask for the first records of rows ahead, which are mostly of the same side."""
        hashed = f"spread_hash({{}}, int({self.side}), 0)"
        self._context.prefetch(window_layout(self._node), hashed)

    def found(self, call: str, number: str) -> str:
        """Code that finds or inserts the record of this key and side with a number, which no other
        one has."""
        made = f"spread_hash({self._hash}, int({self.side}), {number})"
        arguments = call_arguments([*self._keys, self._side, Value(int64, (number,))])
        return f"{call}(store, {', '.join([made, *arguments])})"

    def keep(self, code: str) -> str:
        """Write its record, which `code` inserts; gives it."""
        context, node = self._context, self._node
        writer, layout = context.writer, window_layout(node)
        values = {field: self._value(names) for field, names in self._columns.items()}
        texts = [v for v in (*self._keys, *values.values()) if v.type.is_view]
        if texts:  # asked for at once: a row enters whole, or not yet
            with writer.block(f"if lacks_bytes(store, {bytes_of(texts)}):"):
                context.need_store("place")
        record = writer.let(code, "m")
        with writer.block(f"if {record} < 0:"):
            context.need_store("place")
        entry = writer.let(entry_code(layout, "store", record), "e")
        if AT in dict(layout.values):
            assign(writer, layout.value(AT, entry), self._time)
        for field, value in values.items():
            keep(writer, value, layout.value(field, entry), "Heap(store.heap)")
        context.note_change(entry, record)
        return entry

    def _value(self, names: Sequence[str]) -> Value:
        """What a field holds, of columns of which one is that of the side."""
        scope, kind = self._scope, self._node.rows[names[0]]
        ours, theirs = scope.column(names[0]), scope.column(names[-1])
        if len(names) == 1:
            return Value(kind, ours.words, ours.valid)

        def chosen(one: str, other: str) -> str:
            return scope.writer.let(f"{other} if {self.side} else {one}")

        words = tuple(map(chosen, ours.words, theirs.words))
        return Value(kind, words, chosen(ours.valid or "True", theirs.valid or "True"))


def enter_waiting_row(context: Context, row: EnteringRow) -> None:
    """Keep a row in the pane that takes rows."""
    writer = context.writer
    writer.line("pane = taking_pane(panes)")
    with writer.block("if pane == 0:"):
        ask_for_taking_pane(writer)
        context.leave("NEED_MEMORY", "place")
    writer.line("store = Store(pane)")
    writer.line("epoch = store.epoch")
    entry = row.keep(row.found("window_append", "store.count"))
    writer.line(f"wait_until(panes, store, {entry}.{AT})")


def enter_in_turn(context: Context, scope: Scope, node: InTurn, side: Value) -> None:
    """Keep a row of an operator that works on rows as they are."""
    time = Value(int64, scope.column(node.at).words)
    columns = {f"{COLUMN}{k}": [name] for k, name in enumerate(node.kept)}
    enter_waiting_row(context, EnteringRow(context, scope, node, columns, side, time))


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

    def text(self) -> str:
        """The function, when its body is written, and how it knows which row comes next."""
        return (
            f"{self.queue_text()}\n\n@compiled\ndef advance(task_address):\n"
            f"{self.head()}{self.writer.text()}"
        )

    # ---- where they wait ---------------------------------------------------------------------

    def put_into_order(self) -> None:
        """Rows that have come since the last time go to the queue. Of a pane that was saved, those
        whose time is before all that wait have gone on."""
        writer = self.writer
        writer.line("fresh = not_queued(panes)")
        with writer.block("if lacks_queue(panes, fresh):"):
            writer.line("task.needs_queue = panes.waiting + fresh")
            self.return_("NEED_MEMORY")
        writer.line("many = are_many(panes, fresh)")
        with writer.block("if many and task.order_room < panes.waiting + fresh:"):
            writer.line("task.needs_order = panes.waiting + fresh")
            self.return_("NEED_MEMORY")
        with writer.block("if many:"):
            writer.line("join_run(panes)")
        with writer.block("for slot in range(panes.mask + 1):"):
            writer.line("pane = i64s(panes.directory)[slot]")
            with writer.block("if pane == 0 or not holds_rows(Store(pane)):"):
                writer.line("continue")
            writer.line("store = Store(pane)")
            with writer.block("if store.given == NOT_ORDERED:"):
                writer.line("store.given = 0")
            with writer.block("while store.queued < store.count:"):
                writer.line(f"entry = {self.entry('store', 'store.queued')}")
                with writer.block(f"if entry.{AT} + 1 >= store.first:"):
                    side = self.side("entry").word
                    writer.line(f"place = place_of(store, store.queued, {side})")
                    row = f"(panes, entry.{AT}, window_prefix(entry), place)"
                    with writer.block("if many:"):
                        writer.line(f"add_row{row}")
                    with writer.block("else:"):
                        writer.line(f"push_row{row}")
                with writer.block("else:"):
                    writer.line("store.given += 1")
                writer.line("store.queued += 1")
        with writer.block("if many:"):
            writer.line("sort_rows(panes, task)")

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
        """push_row(panes, time, prefix, place) and pop_row(panes), by time, key and place;
        sort_rows(panes, task) puts all rows that wait into one run."""
        keys = [self.keys_of("a"), self.keys_of("b")]
        return f"""{compare_text("key_order", *keys)}

@compiled
def waits_before(panes, words, one, other):
    first, second = QUEUE_WORDS * one, QUEUE_WORDS * other
    for k in range(2):
        if words[first + k] != words[second + k]:
            return words[first + k] < words[second + k]
    place, another = words[first + 2], words[second + 2]
    a = {self.entry("Store(pane_at(panes, place))", "row_at(place)")}
    b = {self.entry("Store(pane_at(panes, another))", "row_at(another)")}
    order = key_order(a, b)
    return order < 0 if order != 0 else place < another


@compiled
def choose_next(panes):
    panes.next_row = panes.run
    if panes.heaped > 0:
        heap = panes.queue_room
        if panes.run == panes.run_end or waits_before(panes, i64s(panes.queue), heap, panes.run):
            panes.next_row = heap


@compiled
def push_row(panes, time, prefix, place):
    words, heap, at = i64s(panes.queue), panes.queue_room, panes.heaped
    put_row(panes, heap + at, time, prefix, place)
    panes.heaped, panes.waiting = at + 1, panes.waiting + 1
    while at > 0 and waits_before(panes, words, heap + at, heap + (at - 1) // 2):
        change_places(panes, heap + at, heap + (at - 1) // 2)
        at = (at - 1) // 2
    choose_next(panes)


@compiled
def pop_row(panes):
    panes.waiting -= 1
    if panes.next_row != panes.queue_room:
        panes.run += 1
    else:
        panes.heaped -= 1
        words, heap, count, at = i64s(panes.queue), panes.queue_room, panes.heaped, 0
        copy_row(panes, heap + count, heap)
        while 2 * at + 1 < count:
            below = 2 * at + 1
            if below + 1 < count and waits_before(panes, words, heap + below + 1, heap + below):
                below += 1
            if waits_before(panes, words, heap + at, heap + below):
                break
            change_places(panes, heap + at, heap + below)
            at = below
    choose_next(panes)
{merge_text("merge_rows", "panes", "waits_before", QUEUE_WORDS)}

@compiled
def are_sorted(panes, count):
    words = i64s(panes.queue)
    for at in range(1, count):
        if waits_before(panes, words, at, at - 1):
            return False
    return True


@compiled
def sort_rows(panes, task):
    count, there = panes.run_end, panes.queue_room
    if not are_sorted(panes, count):
        pairs = i64s(task.order)
        for at in range(count):
            pairs[2 * at], pairs[2 * at + 1] = time_at(panes, at), at
        counters = task.order + 4 * task.order_room * WORD_BYTES
        here = sort_by_prefix(task.order, count, counters)
        for at in range(count):
            copy_row(panes, pairs[2 * (here + at) + 1], there + at)
        start = 0
        while start < count:  # rows of the same time are compared in full
            end, time = start + 1, time_at(panes, there + start)
            while end < count and time_at(panes, there + end) == time:
                end += 1
            if end - start > 1:
                merge_rows(panes, panes.queue, there + start, start, end - start)
            start = end
        copy_rows(panes, there, 0, count)
    choose_next(panes)
"""


class Turns(Rows):
    """The same, of an operator that works on rows as they are."""

    node: InTurn

    def column(self, name: str) -> Value:
        """A column of the row that has its turn."""
        kind, node = self.node.rows[name], self.node
        if name == node.at:
            return Value(kind, (f"entry.{AT}",), "True" if kind.nullable else None)
        return self.layout.value(f"{COLUMN}{node.kept.index(name)}", "entry")
