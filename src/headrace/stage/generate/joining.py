"""Joins of two streams: rows of both sides are kept by key, and paired when their window is over.

A record is a row. Its key is that of the join, the side, and which row of that key and side it is,
from 0 on; the first one says how many there are. So all rows of a key are found one after the
other, without lists, and records are saved, restored and moved as those of any operator.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.plan.nodes import PANE, SIDE, SIDE_TIME, WATERMARK, WindowJoin
from headrace.plan.types import bool_, int64
from headrace.plan.windows.interval import Interval

from .context import Context
from .expressions import Resources, Scope
from .firing import NUMBER, Advance
from .layouts import AT, COLUMN, PARTNERS, window_layout
from .stores import assign, call_arguments, entry_code, keep
from .values import hash_code, nothing
from .windowing import open_pane
from .writer import Value


def enter_row(context: Context, scope: Scope, node: WindowJoin) -> None:
    """Keep a row in its pane, behind those of its key and side."""
    writer, layout = context.writer, window_layout(node)
    open_pane(context, node, scope.column(PANE).word)
    row = EnteringRow(context, scope, node)
    row.prefetch()
    first = writer.let(row.found("window_find", "0"), "m")
    writer.line("partners = 0")
    with writer.block(f"if {first} >= 0:"):
        writer.line(f"partners = {entry_code(layout, 'store', first)}.{PARTNERS}")
    entry = row.keep("partners")
    with writer.block(f"if {first} >= 0:"):
        head = writer.let(entry_code(layout, "store", first), "e")
        writer.line(f"{head}.{PARTNERS} = partners + 1")
        context.note_change(head, first)
    with writer.block("else:"):
        writer.line(f"{entry}.{PARTNERS} = 1")


class EnteringRow:
    """A row of one side, for the pane `store`."""

    def __init__(self, context: Context, scope: Scope, node: WindowJoin) -> None:
        self._context, self._scope, self._node = context, scope, node
        writer, hashed = context.writer, context.made.uses_hashes
        self._keys = [scope.column(name) for name in node.key]
        self._hash = writer.let("hashes[place]" if hashed else hash_code(self._keys), "h")
        self._side = Value(bool_, (writer.let(scope.column(SIDE).word),))

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
        context, scope, node = self._context, self._scope, self._node
        writer, layout, names = context.writer, window_layout(node), (*node.left, *node.right)
        values = [scope.column(name) for name in names]
        texts = [v for v in (*self._keys, *values) if v.type.is_view]
        if texts:  # asked for at once: a row enters whole, or not yet
            with writer.block(f"if lacks_bytes(store, {bytes_of(texts)}):"):
                context.need_store("place")
        record = writer.let(self.found("window_insert", number), "m")
        with writer.block(f"if {record} < 0:"):
            context.need_store("place")
        entry = writer.let(entry_code(layout, "store", record), "e")
        assign(writer, layout.value(AT, entry), scope.column(SIDE_TIME))
        for k, (name, value) in enumerate(zip(names, values, strict=True)):
            kept = Value(node.rows[name], value.words, value.valid)
            keep(writer, kept, layout.value(f"{COLUMN}{k}", entry), "Heap(store.heap)")
        context.note_change(entry, record)
        return entry


def unsorted_rows(node: WindowJoin) -> str:
    """Code that says whether a record `a` is not given out by itself: one on the right that only
    comes with those on the left."""
    layout = window_layout(node)
    return "False" if node.how == "full" else layout.key_values("a")[-layout.spread].word


def bytes_of(texts: Sequence[Value]) -> str:
    """Code of the bytes that strings take in a heap."""
    return " + ".join(f"(kept_bytes({v.words[0]}) if {v.valid or 'True'} else 0)" for v in texts)


def joined_text(node: WindowJoin, resources: Resources) -> str:
    """advance(task): give out the pairs of the windows that are due."""
    made = Pairs(node, resources)
    made.windows()
    return f"@compiled\ndef advance(task_address):\n{made.head()}{made.writer.text()}"


class Pairs(Advance):
    """The function in the making."""

    node: WindowJoin

    def windows(self) -> None:
        """Window after window; the rows on the left by key, each with those on the right."""
        writer, window = self.writer, self.node.window
        with writer.block("while task.due_count > 0:"):
            writer.line("due = i64s(task.due)")
            writer.line("store = Store(due[0])")
            writer.line("end = store.first")
            if isinstance(window, Interval):
                writer.line(f"left = find_pane(panes, {window.left_pane('end')})")
                with writer.block("if left == 0:"):
                    writer.line("next_window(task)")
                    writer.line("continue")
                writer.line("store = Store(left)")
            self.sort("store")
            writer.line("pairs = i64s(task.order)")
            with writer.block("while task.place < task.sorted:"):
                self.leave_if_full()
                self.sorted_entry()
                if self.node.how != "full":
                    self._left_row()
                else:
                    with writer.block(f"if {self.side('entry').word}:"):
                        self._right_row()
                    with writer.block("else:"):
                        self._left_row()
                writer.line("task.place += 1")
                writer.line("task.firing, task.partner, task.matched = 0, 0, 0")
            writer.line("next_window(task)")
        self.return_("CONSUMED")

    def _left_row(self) -> None:
        """A row on the left with all its partners, or by itself if it has none."""
        writer, window = self.writer, self.node.window
        valid = self.valid("entry")
        writer.line("other = Store(due[0])")
        hashed = "spread_hash(soon.hash, 1, 0)"
        self.look_across("other", NUMBER, "task.place", "task.sorted", hashed)
        with writer.block(f"while {valid} and task.firing < task.due_count:"):
            writer.line("other = Store(due[task.firing])")
            writer.line("partners = LAST")  # the first one knows how many there are
            writer.line(f"number = {self.found('other', 'True', 'task.partner')}")
            with writer.block("while number >= 0:"):
                writer.line(f"partner = {self.entry('other', 'number')}")
                with writer.block("if task.partner == 0:"):
                    writer.line(f"partners = partner.{PARTNERS}")
                writer.line("task.partner += 1")
                partners = "True"
                if isinstance(window, Interval):
                    partners = window.are_partners(f"entry.{AT}", f"partner.{AT}")
                with writer.block(f"if {partners}:"):
                    self.write(self.row("entry", "partner", "entry"))
                    writer.line("task.matched = 1")
                    self.leave_if_full()
                with writer.block("if task.partner >= partners:"):
                    writer.line("break")
                writer.line(f"number = {self.found('other', 'True', 'task.partner')}")
            writer.line("task.partner = 0")
            writer.line("task.firing += 1")
        if self.node.how != "inner":
            with writer.block("if task.matched == 0:"):
                self.write(self.row("entry", "", "entry"))

    def _right_row(self) -> None:
        """A row on the right, which is only given where it has no partner."""
        writer = self.writer
        alone = f"not ({self.valid('entry')}) or {self.found('store', 'False', '0')} < 0"
        with writer.block(f"if {alone}:"):
            self.write(self.row("", "entry", "entry"))

    # ---- pieces ------------------------------------------------------------------------------

    def keys_of(self, entry: str) -> list[Value]:
        return self.layout.key_values(entry)[: -self.layout.spread]

    def side(self, entry: str) -> Value:
        return self.layout.key_values(entry)[-self.layout.spread]

    def valid(self, entry: str) -> str:
        """A null key matches nothing."""
        nullable = [key.valid for key in self.keys_of(entry) if key.valid is not None]
        return " and ".join(nullable) or "True"

    def found(self, store: str, side: str, number: str, call: str = "window_find") -> str:
        """Code of the number of a row of the key of `entry`, or -1."""
        made = f"spread_hash(entry.hash, int({side}), {number})"
        keys = [*self.keys_of("entry"), Value(bool_, (side,)), Value(int64, (number,))]
        return f"{call}({', '.join([store, made, *call_arguments(keys)])})"

    def row(self, left: str, right: str, key: str) -> dict[str, Value]:
        """The columns of a pair; of a side that is not there they are null."""
        node = self.node
        values = dict(zip(node.key, self.keys_of(key), strict=True))
        made = node.window.results(self.words, "end", {})
        values |= {name: Value(node.schema[name], (word,)) for name, word in made.items()}
        values[WATERMARK] = Value(int64, ("end - 1",))
        for k, name in enumerate((*node.left, *node.right)):
            entry = left if name in node.left else right
            kind = node.schema[name]
            if not entry:
                values[name] = nothing(kind)
            else:
                kept = self.layout.value(f"{COLUMN}{k}", entry)
                values[name] = Value(kind, kept.words, kept.valid if kind.nullable else None)
        return values
