"""`advance`: what windows give out. Partial results as they lie; the results of windows by key.

A window of one pane is given out as it is. Several panes are brought together in a spare store.
Where the records of a pane end by themselves (`MergingWindow`), they are given out in the order of
their ends, as far as the watermark goes, or go over into the pane behind.
"""

from __future__ import annotations

from headrace.plan.accumulators import Accumulator
from headrace.plan.nodes import KEY_HASH, PANE, WATERMARK, WindowAggregate, Windowed
from headrace.plan.types import int64
from headrace.plan.windows.base import MergingWindow

from ..task import MAIN
from .aggregates import AggregateCode
from .context import PREFETCH_AHEAD, bind_output, stop_when_full, write_row
from .expressions import Resources
from .formulas import Formulas
from .layouts import window_layout
from .stores import call_arguments, entry_code, size_name
from .writer import Value, Writer

NUMBER = "pairs[2 * (task.ordered + {}) + 1]"  # of the record that is so far in the order


def advance_text(node: Windowed, resources: Resources) -> str:
    """advance(task): give out the windows that are due."""
    made = Advance(node, resources)
    if node.phase == "partial":
        made.partial_results()
    elif isinstance(node.window, MergingWindow):
        made.records_by_end(node.window)
    else:
        made.windows()
    return f"@compiled\ndef advance(task_address):\n{made.head()}{made.writer.text()}"


class Advance:
    """The function in the making."""

    def __init__(self, node: Windowed, resources: Resources) -> None:
        self.node, self.writer, self.layout = node, Writer(), window_layout(node)
        self.code = AggregateCode(node.aggregates, node.rows, resources)
        self.resources, self.words = resources, Formulas(resources)

    def head(self) -> str:
        """Written when the body is."""
        head, schema = Writer(), self.node.schema
        head.line("task = Task(task_address)")
        head.line("panes = Panes(task.panes)")
        bind_output(head, "out", MAIN, "written", "room", schema)
        if WATERMARK in schema.names:
            head.line("may_have_watermarks(out)")
        if self.resources.literals:
            head.line("literals = views(task.literals)")
        if self.resources.creates_text:
            head.line("heap = Heap(task.heap)")
        return head.text()

    # ---- three ways to give out --------------------------------------------------------------

    def partial_results(self) -> None:
        """All records of all panes that are due."""
        writer = self.writer
        with writer.block("while task.firing < task.due_count:"):
            writer.line("store = Store(i64s(task.due)[task.firing])")
            with writer.block("while task.place < store.count:"):
                self.leave_if_full()
                writer.line(f"entry = {self.entry('store', 'task.place')}")
                values = self.keys("entry")
                values[PANE] = Value(int64, ("store.window",))
                values[KEY_HASH] = Value(int64, ("entry.hash",))
                for part in self.code.parts:
                    values[part.column] = self.layout.value(part.field, "entry")
                self.write(values)
                writer.line("task.place += 1")
            writer.line("task.place = 0")
            writer.line("task.firing += 1")
        self.return_("CONSUMED")

    def windows(self) -> None:
        """Window after window, each with its records by key, or (where nobody can tell) as they
        lie."""
        writer = self.writer
        with writer.block("while task.due_count > 0:"):
            writer.line("store = Store(i64s(task.due)[0])")
            writer.line("end = store.first")
            again = self._skip_what_was_given()
            with writer.block("if task.due_count > 1:"):
                self._bring_together()
            assert isinstance(self.node, WindowAggregate)
            count = "store.count"
            if self.node.sorted:
                self.sort("store")
                writer.line("pairs = i64s(task.order)")
                count = "task.sorted"
            with writer.block(f"while task.place < {count}:"):
                self.leave_if_full()
                if self.node.sorted:
                    self.sorted_entry()
                else:
                    writer.line(f"entry = {self.entry('store', 'task.place')}")
                if again:
                    self._skip_if_known()
                self.write(self._results("entry", "end"))
                writer.line("task.place += 1")
            writer.line("next_window(task)")
        self.return_("CONSUMED")

    def records_by_end(self, window: MergingWindow) -> None:
        """Record after record, by end and key, from pane to pane."""
        writer = self.writer
        with writer.block("while task.due_count > 0:"):
            writer.line("store = Store(i64s(task.due)[0])")
            with writer.block("if store.given == NOT_ORDERED:"):
                self._keep_order(window)
            writer.line("sequence = i32s(store.sequence)")
            writer.line(f"behind = find_pane(panes, {window.following('store.window')})")
            writer.line("end = store.last")
            with writer.block("while store.given < store.count:"):
                writer.line(f"entry = {self.entry('store', 'sequence[store.given]')}")
                writer.line(f"end = {window.record_end(self._measures('entry'))}")
                with writer.block("if end > task.watermark:"):
                    writer.line("break")
                self._ask_ahead("sequence[{}]", "store.given")
                with writer.block("if behind != 0:"):
                    writer.line("further = Store(behind)")
                    self.look_across("further", "sequence[{}]", "store.given", "store.count")
                    self._go_over(window)
                self.leave_if_full()
                self.write(self._results("entry", "end"))
                writer.line("store.given += 1")
            writer.line("store.first = end if store.given < store.count else store.last")
            writer.line("next_window(task)")
        self.return_("CONSUMED")

    # ---- pieces ------------------------------------------------------------------------------

    def entry(self, store: str, number: str) -> str:
        """Code of a record of a store."""
        return entry_code(self.layout, store, number)

    def keys(self, entry: str) -> dict[str, Value]:
        """The key of a record, by the names of its columns."""
        return dict(zip(self.node.key, self.layout.key_values(entry), strict=True))

    def _measures(self, entry: str) -> dict[str, str]:
        """What the kind of windows keeps of the times of rows."""
        names = [name for name, _ in self.node.window.measures]
        return {name: self.code.field_of(name, "value", entry).word for name in names}

    def _results(self, entry: str, end: str) -> dict[str, Value]:
        values, node = self.keys(entry), self.node
        made = node.window.results(self.words, end, self._measures(entry))
        values |= {name: Value(node.schema[name], (word,)) for name, word in made.items()}
        values[WATERMARK] = Value(int64, (f"{end} - 1",))
        if any(kind.writes_bytes for kind in self.code.kinds):
            self.writer.line("empty_heap(heap)")
        return values | self.code.results(self.writer, entry)

    def write(self, values: dict[str, Value]) -> None:
        """Give a row; there is room."""
        write_row(self.writer, "out", "written", self.node.schema, values.__getitem__)
        self.writer.line("written += 1")
        stop_when_full(self.writer, self.node.schema)

    def return_(self, answer: str) -> None:
        """Leave, with what was written so far."""
        self.writer.line("out.rows = written")
        self.writer.line(f"return {answer}")

    def leave_if_full(self) -> None:
        """Leave where there is no room for another row."""
        with self.writer.block("if written == room:"):
            self.return_("OUTPUT_FULL")

    def sorted_entry(self) -> None:
        """`entry` is the record at `task.place` of those that are sorted."""
        writer = self.writer
        number = writer.let(NUMBER.format("task.place"), "m")
        writer.line(f"entry = {self.entry('store', number)}")
        self._ask_ahead(NUMBER, "task.place", "task.sorted")

    def _ask_ahead(self, number: str, place: str, count: str = "store.count") -> None:
        """Records that are given out by key lie anywhere: ask for one that comes soon."""
        ahead = f"{place} + {PREFETCH_AHEAD}"
        with self.writer.block(f"if {ahead} < {count}:"):
            soon = f"entry_address(store, {number.format(ahead)}, {size_name(self.layout)})"
            self.writer.line(f"prefetch({soon})")

    def sort(self, store: str) -> None:
        """Order the records of a store, unless they are."""
        writer = self.writer
        with writer.block("if task.ordered < 0:"):
            with writer.block(f"if task.order_room < {store}.count:"):
                writer.line(f"task.needs_order = {store}.count")
                self.return_("NEED_MEMORY")
            writer.line(f"window_sort({store}, task)")

    def _keep_order(self, window: MergingWindow) -> None:
        """The order of a pane's records, for all watermarks that are to come."""
        writer = self.writer
        with writer.block("if store.sequence_room < store.count:"):
            writer.line("task.need = store.address")
            writer.line("task.needs_sequence = 1")
            self.return_("NEED_MEMORY")
        self.sort("store")
        writer.line("pairs, numbers = i64s(task.order), i32s(store.sequence)")
        with writer.block("for k in range(store.count):"):
            writer.line("numbers[k] = pairs[2 * (task.ordered + k) + 1]")
        writer.line("store.given = 0")
        with writer.block("while store.given < store.count:"):  # saved after they were given out
            writer.line(f"entry = {self.entry('store', 'numbers[store.given]')}")
            end = window.record_end(self._measures("entry"))
            with writer.block(f"if {end} >= store.first:"):
                writer.line("break")
            writer.line("store.given += 1")

    def _skip_what_was_given(self) -> bool:
        """Where a window is given out again, only the keys of its last pane count; is there such a
        kind of window? Panes are in order, and the last one is new, if any is."""
        writer = self.writer
        window, words = self.node.window, self.words
        again = window.repeats(words, "end", "store.window")
        if again is None:
            return False
        writer.line("latest = Store(i64s(task.due)[task.due_count - 1])")
        with writer.block(f"if {window.repeats(words, 'end', 'latest.window')}:"):
            writer.line("next_window(task)")
            writer.line("continue")
        writer.line(f"again = {again}")
        return True

    def _skip_if_known(self) -> None:
        """Pass over a record that has nothing new."""
        writer = self.writer
        keys = call_arguments(list(self.keys("entry").values()))
        found = f"window_find({', '.join(['latest', 'entry.hash', *keys])})"
        with writer.block(f"if again and {found} < 0:"):
            writer.line("task.place += 1")
            writer.line("continue")

    def _bring_together(self) -> None:
        """The records of all panes of a window, merged by key."""
        writer = self.writer
        with writer.block("if panes.gathered == 0:"):
            with writer.block("if panes.spare == 0:"):
                writer.line("task.needs_spare = 1")
                self.return_("NEED_MEMORY")
            writer.line("panes.gathered = take_spare(panes)")
        writer.line("store = Store(panes.gathered)")
        with writer.block("while task.firing < task.due_count:"):
            writer.line("pane = Store(i64s(task.due)[task.firing])")
            with writer.block("while task.place < pane.count:"):
                writer.line(f"part = {self.entry('pane', 'task.place')}")
                keys = call_arguments(list(self.keys("part").values()))
                arguments = ", ".join(["store", "part.hash", *keys])
                writer.line(f"number = window_find({arguments})")
                with writer.block("if number < 0:"):
                    writer.line(f"number = window_insert({arguments})")
                with writer.block("if number < 0:"):
                    self.need("store")
                writer.line(f"entry = {self.entry('store', 'number')}")
                self._merge("entry", "part", "store")
                writer.line("task.place += 1")
            writer.line("task.place = 0")
            writer.line("task.firing += 1")

    def look_across(
        self, other: str, number: str, place: str, count: str, hashed: str = "soon.hash"
    ) -> None:
        """Ask for the slots and records of another store that are looked at soon, for the records
        of this one that come next."""
        writer, far, near = self.writer, PREFETCH_AHEAD // 2, PREFETCH_AHEAD // 4
        with writer.block(f"if {place} + {far} < {count}:"):
            writer.line(f"soon = {self.entry('store', number.format(f'{place} + {far}'))}")
            writer.line(f"prefetch_slot({other}.index, {other}.mask, {hashed})")
            writer.line(f"soon = {self.entry('store', number.format(f'{place} + {near}'))}")
            where = ", ".join(f"{other}.{k}" for k in ("index", "mask", "chunks", "chunk_shift"))
            writer.line(f"prefetch_entry({where}, {hashed}, {size_name(self.layout)})")

    def _go_over(self, window: MergingWindow) -> None:
        """A record whose window goes on in the pane behind becomes part of the record there."""
        writer = self.writer
        keys = call_arguments(list(self.keys("entry").values()))
        writer.line(f"number = window_find({', '.join(['further', 'entry.hash', *keys])})")
        with writer.block("if number >= 0:"):
            writer.line(f"later = {self.entry('further', 'number')}")
            with writer.block(f"if {window.begins(self._measures('later'))} < end:"):
                self._merge("later", "entry", "further")
                writer.line("note_change(further, later, number)")
                writer.line("store.given += 1")
                writer.line("continue")

    def _merge(self, entry: str, other: str, store: str) -> None:
        def room(count: str) -> None:
            with self.writer.block(f"if lacks_bytes({store}, {count}):"):
                self.need(store)

        def held(part: Accumulator) -> Value:
            return self.layout.value(part.field, other)

        self.code.merge(self.writer, entry, held, room, store)

    def need(self, store: str) -> None:
        """Leave because a store needs room."""
        self.writer.line(f"task.need = {store}.address")
        self.return_("NEED_MEMORY")
