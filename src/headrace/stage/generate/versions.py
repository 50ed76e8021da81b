"""As-of joins: rows of both sides wait for their time, and then meet in the order of their times.

A row on the right becomes the version of its key, in a record that holds the last one. A row on the
left is given with the version that is there by then.
"""

from __future__ import annotations

from headrace.plan.nodes import SIDE, SIDE_TIME, AsOfJoin
from headrace.plan.windows.asof import AsOf

from .context import Context
from .expressions import Resources, Scope
from .joining import Pairs
from .layouts import AT, column_fields
from .stores import assign, keep
from .waiting import EnteringRow, bytes_of, enter_waiting_row


def enter_side(context: Context, scope: Scope, node: AsOfJoin) -> None:
    """Keep a row of one side until its time has come."""
    columns, side, time = column_fields(node), scope.column(SIDE), scope.column(SIDE_TIME)
    row = EnteringRow(context, scope, node, columns, side, time)
    enter_waiting_row(context, row)


def versions_text(node: AsOfJoin, resources: Resources) -> str:
    """advance(task): let the rows go on that have waited long enough."""
    made = _Versions(node, resources)
    made.windows()
    return made.text()


class _Versions(Pairs):
    """The function in the making."""

    @property
    def _asof(self) -> AsOf:
        window = self.node.window
        assert isinstance(window, AsOf)
        return window

    def windows(self) -> None:
        """Row after row, by time: those on the right are kept, those on the left are given."""
        writer = self.writer
        self.put_into_order()
        with writer.block("while is_due(panes, task.watermark):"):
            self.next_row()
            with writer.block(f"if {self.side('entry').word}:"):
                self._become_version()
            with writer.block("else:"):
                self.leave_if_full()
                self._give()
            self.pass_row()
        writer.line("end_waiting(task)")
        self.return_("CONSUMED")

    def _become_version(self) -> None:
        """A row on the right takes the place of the version before it."""
        writer, node = self.writer, self.node
        number = self._asof.pane(self.words, f"entry.{AT}")
        writer.line(f"kept = find_pane(panes, {number})")
        with writer.block("if kept == 0:"):
            writer.line(f"task.need_window = {number}")
            writer.line(f"task.need_first = {self._asof.first_end(self.words, number)}")
            writer.line("task.need_last = task.need_first")
            writer.line("task.needs_window = 1")
            self.return_("NEED_MEMORY")
        writer.line("versions = Store(kept)")
        fields = [f for f, names in column_fields(node).items() if names[-1] in node.right]
        values = [self.layout.value(field, "entry") for field in fields]
        texts = [value for value in (*self.keys_of("entry"), *values) if value.type.is_view]
        if texts:
            with writer.block(f"if lacks_bytes(versions, {bytes_of(texts)}):"):
                self.need("versions")
        writer.line(f"number = {self.found('versions', 'True', '0')}")
        with writer.block("if number < 0:"):
            writer.line(f"number = {self.found('versions', 'True', '0', 'window_insert')}")
        with writer.block("if number < 0:"):
            self.need("versions")
        writer.line(f"version = {self.entry('versions', 'number')}")
        assign(writer, self.layout.value(AT, "version"), self.layout.value(AT, "entry"))
        for field, value in zip(fields, values, strict=True):
            keep(writer, value, self.layout.value(field, "version"), "Heap(versions.heap)")
        writer.line("note_change(versions, version, number)")

    def _give(self) -> None:
        """A row on the left with its version, or without one."""
        writer, asof = self.writer, self._asof
        writer.line(f"end = entry.{AT} + 1")
        writer.line("kept, number = 0, -1")
        at = asof.pane(self.words, f"entry.{AT}")
        self._look(at)
        if asof.kept is not None:
            with writer.block("if number < 0:"):
                self._look(f"{at} - {asof.size}")
        with writer.block("if number >= 0:"):
            writer.line(f"version = {self.entry('Store(kept)', 'number')}")
            self.write(self.row("entry", "version", "entry"))
        if self.node.how != "inner":
            with writer.block("else:"):
                self.write(self.row("entry", "", "entry"))

    def _look(self, pane: str) -> None:
        """Look for a version in a pane."""
        writer, tolerance = self.writer, self._asof.kept
        writer.line(f"kept = find_pane(panes, {pane})")
        with writer.block(f"if kept != 0 and {self.valid('entry')}:"):
            writer.line(f"number = {self.found('Store(kept)', 'True', '0')}")
            if tolerance is not None:
                with writer.block("if number >= 0:"):
                    version = self.entry("Store(kept)", "number")
                    with writer.block(f"if {version}.{AT} < entry.{AT} - {tolerance}:"):
                        writer.line("number = -1")
