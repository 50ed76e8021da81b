"""A chain of operators into one kernel: `rows`, a loop over the rows of a block.

Filters in front that cannot fail make a selection first, without branches; everything else runs
row by row over what they left. A chain ends in an output block, in a function that yields rows
(`flat_map`, `process`; other steps may follow it), or in the update of windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.plan.expression_types import can_fail
from headrace.plan.expressions import Column, Expression, substitute
from headrace.plan.nodes import (
    WATERMARK,
    Filter,
    FlatMap,
    Node,
    OnTime,
    Process,
    Project,
    TableJoin,
    WindowAggregate,
)
from headrace.plan.schema import Schema

from ..layout import Layout
from .aggregates import AggregateCode
from .expressions import Resources, Scope, argument, hash_code, nothing, zero
from .stores import (
    StoreLayout,
    assign,
    call_arguments,
    entry_code,
    find_text,
    insert_text,
    order_text,
    record_text,
)
from .writer import Value, Writer

PREFETCH_AHEAD = 16  # rows
START = "window_start"


@dataclass
class Chain:
    """Operators that run as one kernel, in order."""

    nodes: tuple[Node, ...]
    input: Schema
    late_wanted: bool = False  # does anyone read the late rows of the OnTime in it?

    @property
    def last(self) -> Node:
        """The operator whose rows the kernel gives."""
        return self.nodes[-1]

    @property
    def windowed(self) -> WindowAggregate | None:
        """The aggregate that the chain ends in, if any."""
        return self.last if isinstance(self.last, WindowAggregate) else None

    @property
    def emitter(self) -> FlatMap | None:
        """The function that yields rows, if any."""
        return next((node for node in self.nodes if isinstance(node, FlatMap)), None)

    @property
    def late_schema(self) -> Schema | None:
        """The columns of the late rows, if they are wanted."""
        if not self.late_wanted:
            return None
        return next(n.schema for n in self.nodes if isinstance(n, OnTime))


@dataclass
class KernelText:
    """The source of a kernel, and what its task must be given."""

    text: str
    resources: Resources
    stores: list[StoreLayout] = field(default_factory=list)
    tables: list[TableJoin] = field(default_factory=list)
    uses_selection: bool = False
    uses_hashes: bool = False


class ChainWriter:
    """Writes the kernel of one chain."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.input = Layout.of(chain.input)
        self.made = KernelText("", Resources())
        self.writer = Writer()
        self._inputs: dict[int, None] = {}  # columns of the input that are read
        self._fails = self._can_fail()
        self._definitions: list[str] = []
        self._start: str | None = None  # the window start of the row, once it is computed

    # ---- the parts of the module -----------------------------------------------------------

    def write(self) -> KernelText:
        """The whole module."""
        chain = self.chain
        front, rest = self._split_front()
        early_hash = self._early_hash(rest)
        self._define_stores()
        self.made.uses_selection, self.made.uses_hashes = bool(front), early_hash is not None
        body = self.writer
        body.line("position = task.row")
        self._selection(front)
        if early_hash is not None:
            self._hash_pass(early_hash)
        if chain.emitter is not None:
            self._emitter_loop(rest)
        else:
            self._plain_loop(rest)
        rows = f"@compiled\ndef rows(task_address):\n{self._bindings()}{body.text()}"
        parts = [*self._definitions, rows]
        if chain.emitter is not None:
            parts.append(self._frame_text())
        if chain.windowed is not None:
            parts.append(self._advance_text(chain.windowed))
        self.made.text = "\n\n".join(parts)
        return self.made

    def _can_fail(self) -> bool:
        for node in self.chain.nodes:
            if isinstance(node, FlatMap) or isinstance(node, WindowAggregate):
                return True
            schema = node.inputs[0].schema
            if isinstance(node, Filter) and can_fail(node.predicate, schema):
                return True
            if isinstance(node, Project) and any(can_fail(e, schema) for _, e in node.columns):
                return True
        return False

    def _split_front(self) -> tuple[list[Filter], list[Node]]:
        """The filters in front that cannot fail, and the other operators."""
        nodes = list(self.chain.nodes)
        front: list[Filter] = []
        while nodes and isinstance(nodes[0], Filter):
            if can_fail(nodes[0].predicate, self.chain.input):
                break
            front.append(nodes.pop(0))
        return front, nodes

    def _define_stores(self) -> None:
        for node in self.chain.nodes:
            if isinstance(node, TableJoin):
                self._define_table(node)
            elif isinstance(node, Process):
                layout = state_layout(node)
                self._define(layout, record_text(layout), find_text(layout), insert_text(layout, {}))
            elif isinstance(node, WindowAggregate):
                code = AggregateCode(node.aggregates, node.rows)
                layout = window_layout(node)
                self._define(
                    layout,
                    record_text(layout),
                    find_text(layout),
                    insert_text(layout, code.initial()),
                    order_text(layout),
                )

    def _define(self, layout: StoreLayout, *texts: str) -> None:
        self.made.stores.append(layout)
        self._definitions.extend(texts)

    def _define_table(self, node: TableJoin) -> None:
        layout = table_layout(node, len(self.made.tables))
        self.made.tables.append(node)
        self._define(layout, record_text(layout), find_text(layout))

    def _bindings(self) -> str:
        """The head of `rows`: names for columns and whatever else the body uses."""
        head = Writer()
        head.line("task = Task(task_address)")
        head.line("block = BlockRecord(task.input)")
        self._bind_columns(head, "in", "block", self.input, self._inputs)
        if self._has_output:
            self._bind_output(head, "out", "task.output", "written", "room", self.chain.last.schema)
        if self.chain.late_wanted:
            self._bind_output(
                head, "late", "task.late_output", "late_written", "late_room", self.chain.late_schema
            )
        self._bind_resources(head)
        if self.made.uses_selection:
            head.line("selection = i32s(task.selection)")
        if self.made.uses_hashes:
            head.line("hashes = i64s(task.hashes)")
        for k, _ in enumerate(self.made.tables):
            head.line(f"table_{k} = Store(task.tables[{k}])")
        if isinstance(self.chain.emitter, Process):
            head.line("store = Store(task.store)")
        if self.chain.windowed is not None:
            head.line("panes = Panes(task.panes)")
            head.line("pane_start = NO_WINDOW")
            head.line("store = Store(0)")
        return head.text()

    def _bind_resources(self, head: Writer) -> None:
        if self.made.resources.literals:
            head.line("literals = views(task.literals)")
        if self.made.resources.creates_text:
            head.line("heap = Heap(task.heap)")

    @staticmethod
    def _bind_columns(head: Writer, prefix: str, block: str, layout: Layout, which) -> None:
        for k in which:
            column = layout.columns[k]
            array = "views" if column.kind == "view" else f"{column.kind}s"
            head.line(f"{prefix}_{k} = {array}({block}.columns[{k}].data)")
            if column.type.nullable:
                head.line(f"{prefix}_{k}_valid = flags({block}.columns[{k}].valid)")

    def _bind_output(
        self, head: Writer, prefix: str, block: str, written: str, room: str, schema: Schema
    ) -> None:
        layout = Layout.of(schema)
        head.line(f"{prefix} = BlockRecord({block})")
        head.line(f"{written} = {prefix}.rows")
        head.line(f"{room} = {prefix}.capacity")
        self._bind_columns(head, prefix, prefix, layout, range(len(layout.columns)))

    @property
    def _has_output(self) -> bool:
        """Does `rows` write to the main output? A window writes there only when it fires."""
        return self.chain.windowed is None

    # ---- rows in and out -------------------------------------------------------------------

    def _input_scope(self) -> Scope:
        """The columns of the input block at `row`."""
        columns: dict[str, Callable[[], Value]] = {}
        for k, column in enumerate(self.input.columns):
            columns[column.name] = lambda k=k: self._load(k)
        return Scope(self.writer, self.chain.input, columns, self.made.resources)

    def _load(self, k: int) -> Value:
        self._inputs[k] = None
        return self._read(f"in_{k}", "row", self.input.columns[k].type)

    def _read(self, array: str, row: str, kind) -> Value:
        valid = self.writer.let(f"{array}_valid[{row}]", "n") if kind.nullable else None
        if kind.is_text:
            view = self.writer.let(f"{array}[{row}]", "s")
            return Value(kind, (f"{view}.head", f"{view}.tail"), valid)
        return Value(kind, (self.writer.let(f"{array}[{row}]"),), valid)

    @staticmethod
    def _write_row(
        writer: Writer, prefix: str, row: str, schema: Schema, value_of: Callable[[str], Value]
    ) -> None:
        for k, column in enumerate(Layout.of(schema).columns):
            value = value_of(column.name)
            if column.kind == "view":
                view = writer.let(f"{prefix}_{k}[{row}]", "s")
                places = (f"{view}.head", f"{view}.tail")
            else:
                places = (f"{prefix}_{k}[{row}]",)
            valid = f"{prefix}_{k}_valid[{row}]" if column.type.nullable else None
            assign(writer, Value(column.type, places, valid), value)

    # ---- selection and hashes --------------------------------------------------------------

    def _selection(self, front: Sequence[Filter]) -> None:
        writer = self.writer
        if not front:
            writer.line("selected = block.rows")
            return
        with writer.block("if task.selected == NOT_SELECTED:"):
            writer.line("chosen = 0")
            with writer.block("for row in range(block.rows):"):
                writer.line("selection[chosen] = row")
                scope = self._input_scope()
                for node in front:
                    condition = scope.value(node.predicate)
                    keep = condition.word
                    if condition.valid is not None:
                        keep = f"{condition.valid} and {keep}"
                    if node is not front[-1]:
                        with writer.block(f"if not ({keep}):"):
                            writer.line("continue")
                    else:
                        writer.line(f"chosen += 1 if {keep} else 0")
            writer.line("task.selected = chosen")
        writer.line("selected = task.selected")

    def _row_of(self, place: str) -> str:
        return f"selection[{place}]" if self.made.uses_selection else place

    def _early_hash(self, rest: Sequence[Node]) -> list[Expression] | None:
        """The key over the input's columns, where hashes can be made before the row loop.

        Then the records of the rows ahead are prefetched, which hides most cache misses.
        """
        made: dict[str, Expression] = {name: Column(name) for name in self.chain.input.names}
        for node in rest:
            if isinstance(node, Process) or (
                isinstance(node, WindowAggregate) and node.phase != "final"
            ):
                keys = [made[name] for name in node.key]
                safe = not any(can_fail(key, self.chain.input) for key in keys)
                return keys if keys and safe else None
            if isinstance(node, Project):
                made = {name: substitute(e, made) for name, e in node.columns}
            elif not isinstance(node, OnTime):
                return None
        return None

    def _hash_pass(self, keys: list[Expression]) -> None:
        writer = self.writer
        with writer.block("for place in range(position, selected):"):
            writer.line(f"row = {self._row_of('place')}")
            scope = self._input_scope()
            writer.line(f"hashes[place] = {hash_code([scope.value(key) for key in keys])}")

    def _prefetch(self, layout: StoreLayout) -> None:
        """Ask for the slot of a row ahead, and for the record of one half as far ahead."""
        if not self.made.uses_hashes:
            return
        writer, half = self.writer, PREFETCH_AHEAD // 2
        with writer.block(f"if place + {PREFETCH_AHEAD} < selected:"):
            writer.line(f"prefetch_slot(store, hashes[place + {PREFETCH_AHEAD}])")
            size = f"{layout.prefix.upper()}_SIZE"
            writer.line(f"prefetch_entry(store, hashes[place + {half}], {size})")

    # ---- steps -----------------------------------------------------------------------------

    def _steps(
        self, scope: Scope, nodes: Sequence[Node], skip: str, *, resuming: bool = False
    ) -> Scope:
        """Operators that give at most one row for a row; `skip` goes on with the next row."""
        for node in nodes:
            if isinstance(node, Filter):
                if not resuming:  # a row that is resumed has passed
                    self._skip_unless(scope, node.predicate, skip)
            elif isinstance(node, Project):
                scope = self._project(scope, node)
            elif isinstance(node, TableJoin):
                scope = self._join(scope, node, skip, resuming)
            elif isinstance(node, OnTime):
                self._on_time(scope, node, skip)
            else:
                raise TypeError(f"{node.kind} cannot stand inside a chain")
        return scope

    def _skip_unless(self, scope: Scope, predicate: Expression, skip: str) -> None:
        condition = scope.value(predicate)
        keep = condition.word
        if condition.valid is not None:
            keep = f"{condition.valid} and {keep}"
        self._skip_if(f"not ({keep})", skip)

    def _skip_if(self, condition: str, skip: str) -> None:
        with self.writer.block(f"if {condition}:"):
            for line in skip.split("\n"):
                self.writer.line(line)

    def _project(self, scope: Scope, node: Project) -> Scope:
        """What can fail is computed here, as the user wrote it; the rest where it is needed."""
        columns: dict[str, Value | Callable[[], Value]] = {}
        for name, expression in node.columns:
            if scope.can_fail(expression):
                columns[name] = scope.value(expression)
            else:
                columns[name] = lambda e=expression: scope.value(e)
        return Scope(self.writer, node.schema, columns, self.made.resources)

    def _join(self, scope: Scope, node: TableJoin, skip: str, resuming: bool) -> Scope:
        writer, k = self.writer, self.made.tables.index(node)
        layout, store = table_layout(node, k), f"table_{k}"
        keys = [scope.column(name) for name in node.left_on]
        valid = " and ".join(key.valid for key in keys if key.valid is not None)
        plain = [Value(key.type.required, key.words) for key in keys]
        number = writer.let("-1", "m")
        # a constant start keeps the number an int64 in both branches
        with writer.block(f"if {valid or 'True'}:"):
            arguments = ", ".join([store, hash_code(plain), *call_arguments(plain)])
            writer.line(f"{number} = {layout.prefix}_find({arguments})")
        found = None
        if node.how == "inner":
            if not resuming:
                self._skip_if(f"{number} < 0", skip)
        else:
            found = writer.let(f"{number} >= 0", "n")
        entry = writer.let(entry_code(layout, store, f"max({number}, 0)"), "e")
        columns: dict[str, Value | Callable[[], Value]] = {
            name: (lambda name=name: scope.column(name)) for name in scope.schema.names
        }
        for j, (_, name) in enumerate(node.taken):
            columns[name] = lambda j=j: self._taken(layout.value(f"value_{j}", entry), found)
        return Scope(writer, node.schema, columns, self.made.resources)

    def _taken(self, value: Value, found: str | None) -> Value:
        """A column of a table's record; where a left join found none, null."""
        writer = self.writer
        if found is None:
            words = tuple(writer.let(word) for word in value.words)
            valid = None if value.valid is None else writer.let(value.valid, "n")
            return Value(value.type, words, valid)
        names = tuple(writer.fresh() for _ in value.words)
        valid = writer.let("False", "n")
        writer.line(f"{', '.join(names)} = {', '.join(zero(value.type))}")
        with writer.block(f"if {found}:"):
            for name, word in zip(names, value.words, strict=True):
                writer.line(f"{name} = {word}")
            writer.line(f"{valid} = {value.valid or 'True'}")
        return Value(value.type, names, valid)

    def _window_start(self, time: Value, window) -> str:
        return self.writer.let(f"window_start({time.word}, {window.size}, {window.offset})", "w")

    def _on_time(self, scope: Scope, node: OnTime, skip: str) -> None:
        """A row is late if its window was closed by the watermark before it, or has no time."""
        writer = self.writer
        time, watermark = scope.column(node.time), scope.column(WATERMARK)
        self._start = self._window_start(time, node.window)
        late = f"{self._start} + {node.window.size} <= {watermark.word}"
        if time.valid is not None:
            late = f"not {time.valid} or {late}"
        with scope.branch(f"if {late}:"):
            writer.line("task.late += 1")
            if self.chain.late_wanted:
                self._write_row(writer, "late", "late_written", node.schema, scope.column)
                writer.line("late_written += 1")
            for line in skip.split("\n"):
                writer.line(line)

    # ---- chains that give at most one row for a row ----------------------------------------

    def _plain_loop(self, rest: Sequence[Node]) -> None:
        writer, chain = self.writer, self.chain
        bounds = ["selected - position"]
        if self._has_output:
            bounds.append("room - written")
        if chain.late_wanted:
            bounds.append("late_room - late_written")
        taken = f"min({', '.join(bounds)})" if len(bounds) > 1 else bounds[0]
        # as many rows as surely fit: no test inside the loop (variable batching, Enjima 3.1.2)
        writer.line(f"taken = {taken}")
        with writer.block("while taken > 0:"):
            with writer.block("for place in range(position, position + taken):"):
                writer.line(f"row = {self._row_of('place')}")
                self._note_row("place")
                self._plain_row(rest)
            writer.line("position += taken")
            writer.line(f"taken = {taken}")
        writer.line("task.row = position")
        self._keep_counts()
        writer.line("return CONSUMED if position >= selected else OUTPUT_FULL")

    def _note_row(self, place: str) -> None:
        """Where a row can fail, its place and what was written before it are noted."""
        if not self._fails:
            return
        self.writer.line(f"task.row = {place}")
        if self._has_output:
            self.writer.line("task.written = written")
        if self.chain.late_wanted:
            self.writer.line("task.late_written = late_written")

    def _keep_counts(self) -> None:
        if self._has_output:
            self.writer.line("out.rows = written")
        if self.chain.late_wanted:
            self.writer.line("late.rows = late_written")

    def _leave(self, answer: str, place: str) -> None:
        """Return in the middle of a row, which is run again from its start."""
        self.writer.line(f"task.row = {place}")
        self._keep_counts()
        self.writer.line(f"return {answer}")

    def _plain_row(self, rest: Sequence[Node]) -> None:
        windowed = self.chain.windowed
        steps = [node for node in rest if node is not windowed]
        scope = self._steps(self._input_scope(), steps, "continue")
        if windowed is not None:
            self._update_window(scope, windowed)
            return
        self._write_row(self.writer, "out", "written", self.chain.last.schema, scope.column)
        self.writer.line("written += 1")

    def _update_window(self, scope: Scope, node: WindowAggregate) -> None:
        writer, layout = self.writer, window_layout(node)
        code = AggregateCode(node.aggregates, node.rows)
        start = self._start
        if node.phase == "final":
            start = scope.column(START).word
        elif start is None:  # the test for late rows was made elsewhere
            start = self._window_start(scope.column(node.inputs[0].time), node.window)
        with writer.block(f"if {start} != pane_start:"):
            writer.line(f"pane = find_pane(panes, {start})")
            with writer.block("if pane == 0:"):
                writer.line(f"task.need_window = {start}")
                writer.line("task.needs_window = 1")
                self._leave("NEED_MEMORY", "place")
            writer.line("store = Store(pane)")
            writer.line(f"pane_start = {start}")
        self._prefetch(layout)
        number, entry = self._find_or_insert(scope, node.key, layout)
        enter = code.merge if node.phase == "final" else code.update
        enter(scope, entry, self._room_for)
        writer.line(f"note_change(store, {entry}, {number})")

    def _room_for(self, count: str) -> None:
        """Memory for the bytes of a string, or the row is run again when there is some."""
        with self.writer.block(f"if lacks_bytes(store, {count}):"):
            self.writer.line("task.need = store.address")
            self._leave("NEED_MEMORY", "place")

    def _find_or_insert(
        self, scope: Scope, key: Sequence[str], layout: StoreLayout
    ) -> tuple[str, str]:
        """(number, record) of a key in `store`."""
        writer, p = self.writer, layout.prefix
        keys = [scope.column(name) for name in key]
        key_hash = "hashes[place]" if self.made.uses_hashes else hash_code(keys)
        key_hash = writer.let(key_hash, "h")
        arguments = ", ".join(["store", key_hash, *call_arguments(keys)])
        number = writer.let(f"{p}_find({arguments})", "m")
        with writer.block(f"if {number} < 0:"):
            writer.line(f"{number} = {p}_insert({arguments})")
            with writer.block(f"if {number} < 0:"):
                writer.line("task.need = store.address")
                self._leave("NEED_MEMORY", "place")
            if layout.in_state:
                target = f"{entry_code(layout, 'store', number)}.state"
                writer.line(f"copy_record({target}, State(task.initial))")
        return number, writer.let(entry_code(layout, "store", number), "e")

    # ---- chains with a function that yields rows -------------------------------------------

    def _emitter_loop(self, rest: Sequence[Node]) -> None:
        """The loop stands twice: to go on with a row that was suspended, and for all others."""
        writer, emitter = self.writer, self.chain.emitter
        at = list(rest).index(emitter)
        before, behind = rest[:at], rest[at + 1 :]
        if isinstance(emitter, Process) and state_layout(emitter).keeps_text_values:
            with writer.block("if task.suspended == BEFORE_COMMIT:"):
                self._commit(emitter, "position")
                writer.line("task.suspended = RUNNING")
                writer.line("position += 1")
        with writer.block("if task.suspended == IN_ROW:"):
            writer.line("place = position")
            writer.line(f"row = {self._row_of('place')}")
            scope = self._steps(self._input_scope(), before, "", resuming=True)
            made = self._generator(scope, emitter)
            self._yields(scope, emitter, behind, f"resume({made}, task.frame)", fresh=False)
            self._finish_row(emitter)
        with writer.block("while position < selected and written < room:"):
            writer.line("place = position")
            writer.line(f"row = {self._row_of('place')}")
            self._note_row("place")
            scope = self._steps(self._input_scope(), before, "position += 1\ncontinue")
            if isinstance(emitter, Process):
                self._load_state(scope, emitter)
            writer.line(f"generator = {self._generator(scope, emitter)}")
            self._yields(scope, emitter, behind, "generator", fresh=True)
            self._finish_row(emitter)
        writer.line("task.row = position")
        self._keep_counts()
        writer.line("return CONSUMED if position >= selected else OUTPUT_FULL")

    def _generator(self, scope: Scope, emitter: FlatMap) -> str:
        arguments = [argument(scope.column(name)) for name in emitter.arguments]
        if isinstance(emitter, Process):
            arguments.insert(0, "State(task.scratch)")
        name = self.made.resources.function(emitter.function)
        return f"{name}({', '.join(arguments)})"

    def _yields(
        self, scope: Scope, emitter: FlatMap, behind: Sequence[Node], generator: str, fresh: bool
    ) -> None:
        writer = self.writer
        with scope.branch(f"for result in {generator}:"):
            inner = self._results(scope, emitter)
            inner = self._steps(inner, behind, "continue")
            self._write_row(writer, "out", "written", self.chain.last.schema, inner.column)
            writer.line("written += 1")
            with writer.block("if written == room:"):
                if fresh:
                    writer.line("suspend(generator, task.frame)")
                    writer.line("task.suspended = IN_ROW")
                self._leave("OUTPUT_FULL", "place")

    def _results(self, scope: Scope, emitter: FlatMap) -> Scope:
        """The columns of a yielded row: those that are carried along, and the results."""
        columns: dict[str, Value | Callable[[], Value]] = {
            name: (lambda name=name: scope.column(name)) for name in emitter.carry
        }
        outputs = emitter.function.outputs
        names = [name for name in emitter.schema.names if name not in emitter.carry]
        for k, (name, kind) in enumerate(zip(names, outputs, strict=True)):
            code = f"result[{k}]" if len(outputs) > 1 else "only(result)"
            columns[name] = scope.result(code, kind)
        return Scope(self.writer, emitter.schema, columns, self.made.resources)

    def _finish_row(self, emitter: FlatMap) -> None:
        writer = self.writer
        if isinstance(emitter, Process):
            self._commit(emitter, "place")
        writer.line("task.suspended = RUNNING")
        writer.line("position += 1")

    def _load_state(self, scope: Scope, emitter: Process) -> None:
        """A copy of the state record: it is written back when the row has succeeded."""
        writer, layout = self.writer, state_layout(emitter)
        self._prefetch(layout)
        number, entry = self._find_or_insert(scope, emitter.key, layout)
        writer.line(f"task.number = {number}")
        writer.line(f"copy_record(State(task.scratch), {entry}.state)")
        if layout.keeps_text_values:
            self.made.resources.creates_text = True
            writer.line("State(task.scratch).heap = task.heap")

    def _commit(self, emitter: Process, place: str) -> None:
        """The row has succeeded: its state is the key's state now, strings copied."""
        writer, layout = self.writer, state_layout(emitter)
        writer.line(f"entry = {entry_code(layout, 'store', 'task.number')}")
        texts = [name for name, kind in layout.values if kind.is_text]
        if texts:
            self._keep_strings(layout, texts, place)
        writer.line("copy_record(entry.state, State(task.scratch))")
        writer.line("note_change(store, entry, task.number)")

    def _keep_strings(self, layout: StoreLayout, texts: Sequence[str], place: str) -> None:
        writer = self.writer
        writer.line("new, kept = StateFields(task.scratch), StateFields(entry.state.address)")
        pairs = [(layout.value(name, "new"), layout.value(name, "kept")) for name in texts]
        for new, _ in pairs:
            if new.valid is not None:
                with writer.block(f"if not {new.valid}:"):
                    writer.line(f"{new.words[0]} = 0")
                    writer.line(f"{new.words[1]} = 0")
        both = [", ".join(new.words + kept.words) for new, kept in pairs]
        wanted = " + ".join(f"changed_bytes({words})" for words in both)
        with writer.block(f"if lacks_bytes(store, {wanted}):"):
            writer.line("task.need = store.address")
            writer.line("task.suspended = BEFORE_COMMIT")
            self._leave("NEED_MEMORY", place)
        for (new, _), words in zip(pairs, both, strict=True):
            writer.line(f"{new.words[1]} = keep_changed({words}, Heap(store.heap))")

    def _frame_text(self) -> str:
        """frame(task): the bytes that the generator of the chain needs when it is suspended."""
        emitter = self.chain.emitter
        arguments = [argument(nothing(kind)) for kind in emitter.function.inputs]
        if isinstance(emitter, Process):
            arguments.insert(0, "State(Task(task_address).scratch)")
        name = self.made.resources.function(emitter.function)
        call = f"{name}({', '.join(arguments)})"
        return f"@compiled\ndef frame(task_address):\n    return frame_bytes({call})\n"

    # ---- firing windows --------------------------------------------------------------------

    def _advance_text(self, node: WindowAggregate) -> str:
        """advance(task): give the results of the windows that are due, ordered by key."""
        layout, writer = window_layout(node), Writer()
        head = Writer()
        head.line("task = Task(task_address)")
        self._bind_output(head, "out", "task.output", "written", "room", node.schema)
        with writer.block("while task.firing < task.due_count:"):
            writer.line("store = Store(i64s(task.due)[task.firing])")
            if node.phase != "partial":
                with writer.block("if task.ordered < 0:"):
                    with writer.block("if task.order_room < store.count:"):
                        writer.line("task.needs_order = store.count")
                        writer.line("out.rows = written")
                        writer.line("return NEED_MEMORY")
                    writer.line("task.ordered = window_sort(store, task.order)")
                writer.line("pairs = i64s(task.order)")
            with writer.block("while task.place < store.count:"):
                with writer.block("if written == room:"):
                    writer.line("out.rows = written")
                    writer.line("return OUTPUT_FULL")
                number = "task.place"
                if node.phase != "partial":
                    number = writer.let("pairs[2 * (task.ordered + task.place) + 1]", "m")
                writer.line(f"entry = {entry_code(layout, 'store', number)}")
                self._fire(writer, node, layout)
                writer.line("written += 1")
                writer.line("task.place += 1")
            writer.line("task.place = 0")
            writer.line("task.ordered = -1")
            writer.line("task.firing += 1")
        writer.line("out.rows = written")
        writer.line("return CONSUMED")
        return f"@compiled\ndef advance(task_address):\n{head.text()}{writer.text()}"

    def _fire(self, writer: Writer, node: WindowAggregate, layout: StoreLayout) -> None:
        values = dict(zip(node.key, layout.key_values("entry"), strict=True))
        time = node.schema[START]
        values[START] = Value(time, ("store.window",))
        code = AggregateCode(node.aggregates, node.rows)
        if node.phase == "partial":
            for part in (part for parts in code.fields for part in parts):
                values[part.column] = layout.value(part.field, "entry")
        else:
            names = [name for name, _ in node.aggregates]
            values.update(zip(names, code.results(writer, layout, "entry"), strict=True))
        self._write_row(writer, "out", "written", node.schema, values.__getitem__)


def state_layout(node: Process) -> StoreLayout:
    """The records of `process`: the key and the user's state."""
    keys = tuple(node.inputs[0].schema[name] for name in node.key)
    assert node.function.state is not None
    fields = node.function.state.fields
    values = tuple((f"field_{k}", field.type) for k, field in enumerate(fields))
    return StoreLayout("state", keys, values, in_state=True)


def window_layout(node: WindowAggregate) -> StoreLayout:
    """The records of an open window: the key and the accumulators."""
    keys = tuple(node.inputs[0].schema[name] for name in node.key)
    return StoreLayout("window", keys, AggregateCode(node.aggregates, node.rows).values())


def table_layout(node: TableJoin, k: int) -> StoreLayout:
    """The records of a static table: the key, never null, and the columns that are taken."""
    keys = tuple(node.table.schema[name].required for name in node.right_on)
    values = tuple(
        (f"value_{j}", node.table.schema[name]) for j, (name, _) in enumerate(node.taken)
    )
    return StoreLayout(f"table{k}", keys, values)
