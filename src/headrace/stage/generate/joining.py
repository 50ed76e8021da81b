"""Joins of two streams: rows of both sides are kept by key, and paired when their window is over.

A record is a row (`waiting`). Rows of a key are numbered from 0 on, and the first one says how many
there are: so all of them are found one after the other, without lists. On the left nobody looks for
a key, unless that side may be missing: rows there are numbered as they come, with no place in the
index.
"""

from __future__ import annotations

from contextlib import nullcontext

from headrace.plan.nodes import PANE, SIDE, SIDE_TIME, WATERMARK, WindowJoin
from headrace.plan.types import int64
from headrace.plan.windows.interval import Interval

from .context import Context
from .expressions import Resources, Scope
from .firing import NUMBER
from .layouts import AT, PARTNERS, column_fields, window_layout
from .stores import entry_code
from .values import nothing
from .waiting import EnteringRow, Rows
from .windowing import open_pane
from .writer import Value


def enter_row(context: Context, scope: Scope, node: WindowJoin) -> None:
    """Keep a row in its pane, behind those of its key and side."""
    writer, layout = context.writer, window_layout(node)
    open_pane(context, node, scope.column(PANE).word)
    columns = column_fields(node)
    row = EnteringRow(context, scope, node, columns, scope.column(SIDE), scope.column(SIDE_TIME))
    code = row.found("window_insert", "number")
    if node.how != "full":
        code = f"{code} if {row.side} else {row.found('window_append', 'number')}"
    writer.line("leader, number = -1, store.numbered")
    with nullcontext() if node.how == "full" else writer.block(f"if {row.side}:"):
        row.prefetch()
        writer.line("number = 0")
        writer.line(f"leader = {row.found('window_find', '0')}")
        with writer.block("if leader >= 0:"):
            writer.line(f"number = {entry_code(layout, 'store', 'leader')}.{PARTNERS}")
    entry = row.keep(code)
    with writer.block("if leader >= 0:"):
        head = writer.let(entry_code(layout, "store", "leader"), "e")
        writer.line(f"{head}.{PARTNERS} = number + 1")
        context.note_change(head, "leader")
    with writer.block("else:"):
        writer.line(f"{entry}.{PARTNERS} = 1")
        if node.how != "full":
            writer.line(f"store.numbered += 0 if {row.side} else 1")


def unsorted_rows(node: WindowJoin) -> str:
    """Code that says whether a record `a` is not given out by itself: one on the right that only
    comes with those on the left."""
    layout = window_layout(node)
    return "False" if node.how == "full" else layout.key_values("a")[-layout.spread].word


def joined_text(node: WindowJoin, resources: Resources) -> str:
    """advance(task): give out the pairs of the windows that are due."""
    made = Pairs(node, resources)
    made.windows()
    return f"@compiled\ndef advance(task_address):\n{made.head()}{made.writer.text()}"


class Pairs(Rows):
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

    def valid(self, entry: str) -> str:
        """A null key matches nothing."""
        nullable = [key.valid for key in self.keys_of(entry) if key.valid is not None]
        return " and ".join(nullable) or "True"

    def row(self, left: str, right: str, key: str) -> dict[str, Value]:
        """The columns of a pair; of a side that is not there they are null."""
        node = self.node
        values = dict(zip(node.key, self.keys_of(key), strict=True))
        made = node.window.results(self.words, "end", {})
        values |= {name: Value(node.schema[name], (word,)) for name, word in made.items()}
        values[WATERMARK] = Value(int64, ("end - 1",))
        for field, names in column_fields(node).items():
            for name in names:
                entry = left if name in node.left else right
                kind = node.schema[name]
                if not entry:
                    values[name] = nothing(kind)
                else:
                    kept = self.layout.value(field, entry)
                    values[name] = Value(kind, kept.words, kept.valid if kind.nullable else None)
        return values
