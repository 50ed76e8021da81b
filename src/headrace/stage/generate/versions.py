"""As-of joins: rows of both sides wait for their time, and then meet in the order of their times.

A row on the right becomes the version of its key, in a record that holds the last one. A row on the
left is given with the version that is there by then.
"""

from __future__ import annotations

from headrace.plan.nodes import AsOfJoin
from headrace.plan.windows.asof import AsOf

from .context import Context
from .expressions import Resources, Scope
from .joining import EnteringRow, Pairs, bytes_of
from .layouts import AT, COLUMN
from .stores import assign, compare_text, keep


def enter_waiting_row(context: Context, scope: Scope, node: AsOfJoin) -> None:
    """Keep a row in the pane that takes rows, under a number that is free."""
    writer = context.writer
    writer.line("pane = taking_pane(panes)")
    with writer.block("if pane == 0:"):
        writer.line("task.need_window = WAITING + panes.taking")
        writer.line("task.need_first, task.need_last = LAST, LAST")
        writer.line("task.needs_window = 1")
        context.leave("NEED_MEMORY", "place")
    writer.line("store = Store(pane)")
    writer.line("epoch = store.epoch")
    row = EnteringRow(context, scope, node)
    writer.line("free = store.count")
    with writer.block(f"while {row.found('window_find', 'free')} >= 0:"):  # of a pane that moved
        writer.line("free += 1")
    entry = row.keep("free")
    writer.line(f"wait_until(panes, store, {entry}.{AT})")


def versions_text(node: AsOfJoin, resources: Resources) -> str:
    """advance(task): let the rows go on that have waited long enough."""
    made = _Versions(node, resources)
    made.windows()
    advance = f"@compiled\ndef advance(task_address):\n{made.head()}{made.writer.text()}"
    keys = [made.keys_of("a"), made.keys_of("b")]
    return f"{compare_text('key_order', *keys)}{_queue_text(made)}\n\n{advance}"


def _queue_text(made: _Versions) -> str:
    """push_row(panes, time, prefix, place) and pop_row(panes), by time, key and place."""
    return f"""

@compiled
def waits_before(panes, one, other):
    words = i64s(panes.queue)
    for k in range(2):
        if words[3 * one + k] != words[3 * other + k]:
            return words[3 * one + k] < words[3 * other + k]
    place, another = words[3 * one + 2], words[3 * other + 2]
    a = {made.entry("Store(pane_at(panes, place))", "row_at(place)")}
    b = {made.entry("Store(pane_at(panes, another))", "row_at(another)")}
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
        self._put_into_order()
        with writer.block("while is_due(panes, task.watermark):"):
            writer.line("place = next_place(panes)")
            writer.line("store = Store(pane_at(panes, place))")
            writer.line(f"entry = {self.entry('store', 'row_at(place)')}")
            with writer.block(f"if {self.side('entry').word}:"):
                self._become_version()
            with writer.block("else:"):
                self.leave_if_full()
                self._give()
            writer.line("store.given += 1")
            writer.line("pop_row(panes)")
        writer.line("end_waiting(task)")
        self.return_("CONSUMED")

    def _put_into_order(self) -> None:
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
        fields = [f"{COLUMN}{len(node.left) + k}" for k in range(len(node.right))]
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
        if asof.tolerance is not None:
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
        writer, tolerance = self.writer, self._asof.tolerance
        writer.line(f"kept = find_pane(panes, {pane})")
        with writer.block(f"if kept != 0 and {self.valid('entry')}:"):
            writer.line(f"number = {self.found('Store(kept)', 'True', '0')}")
            if tolerance is not None:
                with writer.block("if number >= 0:"):
                    version = self.entry("Store(kept)", "number")
                    with writer.block(f"if {version}.{AT} < entry.{AT} - {tolerance}:"):
                        writer.line("number = -1")
