"""What the parts of a kernel's text share: the chain, its columns, and how rows come and go."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

from headrace.plan.accumulators import accumulators
from headrace.plan.dedup import DedupWithin
from headrace.plan.functions import StateSpec
from headrace.plan.fusion import node_can_fail, numbers_rows
from headrace.plan.nodes import (
    KEY_HASH,
    WATERMARK,
    FlatMap,
    Node,
    OnTime,
    Process,
    Received,
    Running,
    Stateful,
    TableJoin,
    Windowed,
    visible,
)
from headrace.plan.schema import Schema
from headrace.plan.timed import TimedProcess

from ..blocks.layout import Layout
from ..task import MAIN, SIDE
from .expressions import Resources, Scope
from .layouts import records_layout, table_layout
from .stores import (
    LOCATION,
    StoreLayout,
    assign,
    call_arguments,
    keep,
    local_entry,
    locate,
    located,
    size_name,
)
from .values import hash_code
from .writer import Value, Writer

PREFETCH_AHEAD = 16  # rows
NEAR_SLOTS = 2048  # so many fit into the first cache, with their records
BEGIN_ROW = "empty_heap(heap)"


@dataclass
class Chain:
    """Operators that run as one kernel, in order."""

    nodes: tuple[Node, ...]
    input: Schema
    late_wanted: bool = False  # does anyone read the late rows of the OnTime in it?
    letters: Schema | None = None  # the columns of its dead letters, if anyone reads them

    @property
    def is_owned(self) -> bool:
        """Does its input hold rows of all owners, of which only some are for this one?"""
        source = self.nodes[0].inputs[0]
        return isinstance(source, Received) and source.owned

    @property
    def last(self) -> Node:
        """The operator whose rows the kernel gives."""
        return self.nodes[-1]

    @property
    def windowed(self) -> Windowed | None:
        """The windows that the chain ends in, if any."""
        return self.last if isinstance(self.last, Windowed) else None

    @property
    def running(self) -> Running | None:
        """The running aggregates that the chain ends in, if any."""
        return self.last if isinstance(self.last, Running) else None

    @property
    def stateful(self) -> Stateful | None:
        """The operator that keeps state, if any."""
        return next((node for node in self.nodes if isinstance(node, Stateful)), None)

    @property
    def keeps_panes(self) -> bool:
        """Does the state lie in panes, which are forgotten as time goes on?"""
        return isinstance(self.last, Windowed | DedupWithin)

    @property
    def user_state(self) -> StateSpec | None:
        """The state of the user's function that it calls, if that has one."""
        match self.stateful:
            case TimedProcess() as node:
                return node.state
            case Process() as node:
                return node.function.state
        return None

    @property
    def gives_single_rows(self) -> bool:
        """Can each row be given as a partial result of its own, without a window in between?"""
        node = self.windowed
        if node is None or node.phase != "partial":
            return False
        parts = accumulators(tuple(a for _, a in node.aggregates), node.rows)
        return not any(part.type.is_view for each in parts for part in each)

    @property
    def gives_early_rows(self) -> bool:
        """Does a row of a window give an early result now and then?"""
        return self.windowed is not None and self.windowed.window.rows > 0

    @property
    def emitter(self) -> FlatMap | None:
        """The function that yields rows, if any."""
        return next((node for node in self.nodes if isinstance(node, FlatMap)), None)

    @property
    def late_schema(self) -> Schema | None:
        """The columns of the late rows, if they are wanted."""
        if not self.late_wanted:
            return None
        return next(visible(n.schema) for n in self.nodes if isinstance(n, OnTime))

    @property
    def outputs(self) -> dict[int, Schema]:
        """The columns of each output."""
        aside = self.late_schema or self.letters
        given = {MAIN: self.last.schema}
        return given if aside is None else {**given, SIDE: aside}

    @property
    def tolerates(self) -> bool:
        """Are rows that fail left out? See `plan/fusion.py`."""
        return self.nodes[0].tolerates

    @property
    def numbers_rows(self) -> bool:
        """Does it number the rows that it gives?"""
        return any(map(numbers_rows, self.nodes))

    def can_fail(self) -> bool:
        """Can a row raise an error?"""
        return any(node_can_fail(node) for node in self.nodes)


@dataclass
class KernelText:
    """The source of a kernel, and what its task must be given."""

    text: str
    resources: Resources
    tables: list[TableJoin] = field(default_factory=list)
    uses_selection: bool = False
    uses_hashes: bool = False
    uses_matches: bool = False
    uses_retry: bool = False
    uses_known: bool = False
    copies_watermarks: bool = False  # from its input, and only where there are some


class Context:
    """One kernel in the making: its writer, and the names that stand for columns and rows."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.made = KernelText("", Resources())
        self.writer = Writer()
        self.early_join: TableJoin | None = None  # whose matches are found before the row loop
        self.tests_lateness = False
        # Columns of the output that are written elsewhere, and those of projections that are
        # computed there, whether they can fail or not; see wide.py.
        self.apart: frozenset[str] = frozenset()
        self.computed_apart: dict[Node, frozenset[str]] = {}
        self._input = Layout.of(chain.input)
        self._inputs: dict[int, None] = {}  # columns of the input that are read
        self._fails = chain.can_fail()

    @property
    def has_output(self) -> bool:
        """Does `rows` write to the main output? A window writes there only when it fires, unless
        rows are given as partial results of their own, or give early ones."""
        chain = self.chain
        return chain.windowed is None or chain.gives_single_rows or chain.gives_early_rows

    # ---- rows in -----------------------------------------------------------------------------

    def row_of(self, place: str) -> str:
        """Code of the row at a place of the selection."""
        return f"selection[{place}]" if self.made.uses_selection else place

    def input_scope(self) -> Scope:
        """The columns of the input block at `row`, loaded when they are used."""
        columns: dict[str, Callable[[], Value]] = {}
        for k, column in enumerate(self._input.columns):
            columns[column.name] = partial(self._load, k)
        return Scope(self.writer, self.chain.input, columns, self.made.resources)

    def _load(self, k: int) -> Value:
        self._inputs[k] = None
        kind, writer = self._input.columns[k].type, self.writer
        valid = writer.let(f"in_{k}_valid[row]", "n") if kind.nullable else None
        if kind.is_view:
            view = writer.let(f"in_{k}[row]", "s")
            return Value(kind, (f"{view}.head", f"{view}.tail"), valid)
        return Value(kind, (writer.let(f"in_{k}[row]"),), valid)

    def note_row(self, place: str) -> None:
        """Where a row can fail, its place and what was written before it are noted."""
        if not self._fails:
            return
        self.writer.line(f"task.row = {place}")
        if self.has_output:
            self.writer.line(f"task.written[{MAIN}] = written")
        if self.chain.late_wanted:
            self.writer.line(f"task.written[{SIDE}] = late_written")
        self.keep_row()

    def keep_row(self) -> None:
        """Where rows that fail are left out, what was given before them stays."""
        if self.chain.tolerates:
            self.keep_counts()

    def begin_row(self) -> None:
        """Forget the strings that were made for the row before; see `finished`."""
        self.writer.line(BEGIN_ROW)

    def finished(self) -> str:
        """The body of `rows`. Only at its end it is known whether rows make strings."""
        writer = self.writer
        if not self.made.resources.creates_text:
            writer.lines = [line for line in writer.lines if line.strip() != BEGIN_ROW]
        return writer.text()

    # ---- rows out ----------------------------------------------------------------------------

    def write(self, scope: Scope) -> None:
        """Store the row."""
        self.write_columns(scope)
        self.leave_if_full("out", self.chain.last.schema)

    def write_columns(self, scope: Scope) -> None:
        """Its columns; its watermark only where there is one (`marks`)."""
        schema, columns = self.chain.last.schema, self.chain.input.names
        self.made.copies_watermarks = WATERMARK in schema.names and WATERMARK in columns
        for name in schema.names:
            if name in self.apart:
                continue
            seldom = name == WATERMARK and self.made.copies_watermarks
            with scope.branch("if marks:") if seldom else nullcontext():
                write_column(self.writer, "out", "written", schema, name, scope.column(name))
        self.writer.line("written += 1")
        if self.chain.numbers_rows:
            self.writer.line("place_number += 1")

    def write_late(self, scope: Scope, schema: Schema) -> None:
        """Store a late row."""
        write_row(self.writer, "late", "late_written", schema, scope.column)
        self.writer.line("late_written += 1")
        self.leave_if_full("late", schema)

    def leave_if_full(self, prefix: str, schema: Schema) -> None:
        """A block may be full before its last row: when a string did not fit its heap."""
        if Layout.of(schema).has_views:
            with self.writer.block(f"if has_overflown({prefix}_heap):"):
                self.leave("OUTPUT_FULL", "place + 1")

    def keep_counts(self) -> None:
        """Say how many rows the output blocks have now."""
        if self.has_output:
            self.writer.line("out.rows = written")
        if self.chain.numbers_rows:
            self.writer.line("task.places = place_number")
        if self.chain.late_wanted:
            self.writer.line("late.rows = late_written")

    def leave(self, answer: str, place: str) -> None:
        """Return in the middle of a row, which is run again, or goes on, in the next call."""
        self.writer.line(f"task.row = {place}")
        self.keep_counts()
        self.writer.line(f"return {answer}")

    def need_store(self, place: str) -> None:
        """Return because the store needs room."""
        self.writer.line("task.need = store.address")
        self.leave("NEED_MEMORY", place)

    # ---- records -----------------------------------------------------------------------------

    def prefetch(self, layout: StoreLayout, hashed: str = "{}") -> None:
        """Ask for the slot of a row ahead, and for the record of one half as far ahead, unless all
        slots are near anyway. hashed: the hash under which a record lies, by that of its key."""
        if not self.made.uses_hashes:
            return
        writer, p = self.writer, layout.prefix
        far, half = (
            hashed.format(f"hashes[place + {n}]") for n in (PREFETCH_AHEAD, PREFETCH_AHEAD // 2)
        )
        with writer.block(f"if {p}_mask >= {NEAR_SLOTS} and place + {PREFETCH_AHEAD} < selected:"):
            writer.line(f"prefetch_slot({p}_index, {p}_mask, {far})")
            writer.line(f"prefetch_entry({located(layout)}, {half}, {size_name(layout)})")

    def key_hash(self, scope: Scope, keys: list[Value]) -> str:
        """Code of the hash of a row's key; the row may carry it."""
        if self.made.uses_hashes:
            return "hashes[place]"
        return scope.column(KEY_HASH).word if KEY_HASH in scope.schema else hash_code(keys)

    def find_or_insert(
        self, scope: Scope, key: Sequence[str], layout: StoreLayout
    ) -> tuple[str, str]:
        """(number, record) of a row's key in `store`."""
        writer, p = self.writer, layout.prefix
        keys = [scope.column(name) for name in key]
        arguments = ", ".join([writer.let(self.key_hash(scope, keys), "h"), *call_arguments(keys)])
        number = writer.let(f"{p}_probe({located(layout)}, {arguments})", "m")
        with writer.block(f"if {number} < 0:"):
            writer.line(f"{number} = {p}_enter(store, {arguments})")
            with writer.block(f"if {number} < 0:"):
                self.need_store("place")
        return number, writer.let(local_entry(layout, number), "e")

    def find_by_match(
        self, scope: Scope, key: Sequence[str], layout: StoreLayout
    ) -> tuple[str, str]:
        """The same for a key that comes from a static table: looked up once for each of its
        records and window, then remembered under the number of the record."""
        writer = self.writer
        kept = writer.let("known[matches[place]]", "k")
        number = writer.let(f"{kept} & TAG", "m")
        with scope.branch(f"if {kept} >> NUMBER_SHIFT != serial:"):
            found, _ = self.find_or_insert(scope, key, layout)
            writer.line(f"known[matches[place]] = (serial << NUMBER_SHIFT) | {found}")
            writer.line(f"{number} = {found}")
        return number, writer.let(local_entry(layout, number), "e")

    def note_change(self, entry: str, number: str) -> None:
        """Remember that a record has changed since the last snapshot."""
        with self.writer.block(f"if {entry}.epoch != epoch:"):
            self.writer.line(f"note_change(store, {entry}, {number})")

    # ---- names for what the body uses --------------------------------------------------------

    def bindings(self) -> str:
        """The head of `rows`, written when the body is."""
        head, chain = Writer(), self.chain
        head.line("task = Task(task_address)")
        head.line("block = BlockRecord(task.input)")
        head.line("first = task.first")
        bind_columns(head, "in", "block", self._input, self._inputs, first="first")
        if self.has_output:
            bind_output(head, "out", MAIN, "written", "room", chain.last.schema, self.apart)
            if self.made.copies_watermarks:
                column = chain.last.schema.names.index(WATERMARK)
                head.line(f"marks = copies_watermarks(block, task.last, out, {column})")
            elif WATERMARK in chain.last.schema.names:
                head.line("may_have_watermarks(out)")
        if chain.late_schema is not None:
            bind_output(head, "late", SIDE, "late_written", "late_room", chain.late_schema)
            if WATERMARK in chain.late_schema.names:
                head.line("may_have_watermarks(late)")
        if self.tests_lateness:
            head.line("marked = block.without_watermark < task.last")
        if self.chain.numbers_rows:
            head.line("place_number = task.places")
        if self.chain.is_owned:
            head.line("low_group, high_group = task.low_group, task.high_group")
        if self.made.resources.literals:
            head.line("literals = views(task.literals)")
        if self.made.resources.creates_text:
            head.line("heap = Heap(task.heap)")
        if self.made.uses_selection:
            head.line("selection = i32s(task.selection)")
        if self.made.uses_matches:
            head.line("matches = i32s(task.matches)")
        if self.made.uses_retry:
            head.line("retry = i32s(task.retry)")
        if self.made.uses_known:
            head.line("known = i64s(task.known)")
        if self.made.uses_hashes:
            head.line("hashes = i64s(task.hashes)")
        for k, node in enumerate(self.made.tables):
            locate(head, table_layout(node, k), f"Store(task.tables[{k}])")
        if isinstance(chain.stateful, Process | Running) and not chain.keeps_panes:
            layout = records_layout(chain.stateful)
            head.line("store = Store(task.store)")
            head.line("epoch = store.epoch")
            locate(head, layout, "store")
        if chain.keeps_panes:
            head.line("panes = Panes(task.panes)")
            if chain.gives_single_rows:
                head.line("direct = task.direct != 0")
            head.line("pane_number = NO_WINDOW")
            head.line("store = Store(0)")
            head.line("epoch = 0")
            if self.made.uses_known:
                head.line("serial = 0")
            for part in LOCATION:
                head.line(f"window_{part} = 0")
        return head.text()


def bind_columns(
    head: Writer,
    prefix: str,
    block: str,
    layout: Layout,
    which: Iterable[int],
    first: str = "",
) -> None:
    """Names for the columns of a block, from row `first` on."""
    for k in which:
        column = layout.columns[k]
        array = "views" if column.kind == "view" else f"{column.kind}s"
        skipped = f" + {first} * {column.width}" if first else ""
        head.line(f"{prefix}_{k} = {array}({block}.columns[{k}].data{skipped})")
        if column.type.nullable:
            skipped = f" + {first}" if first else ""
            head.line(f"{prefix}_{k}_valid = flags({block}.columns[{k}].valid{skipped})")


def bind_output(
    head: Writer,
    prefix: str,
    output: int,
    written: str,
    room: str,
    schema: Schema,
    apart: Container[str] = (),
) -> None:
    """Names for the block of an output, its columns but some, and how full it is."""
    layout = Layout.of(schema)
    head.line(f"{prefix} = BlockRecord(task.outputs[{output}])")
    head.line(f"{written} = {prefix}.rows")
    head.line(f"{room} = {prefix}.capacity")
    if layout.has_views:
        head.line(f"{prefix}_heap = Heap({prefix}.heap)")
    own = [k for k, name in enumerate(schema.names) if name not in apart]
    bind_columns(head, prefix, prefix, layout, own)


def write_row(
    writer: Writer, prefix: str, row: str, schema: Schema, value_of: Callable[[str], Value]
) -> None:
    """Store a row in an output block."""
    for name in schema.names:
        write_column(writer, prefix, row, schema, name, value_of(name))


def write_column(
    writer: Writer, prefix: str, row: str, schema: Schema, name: str, value: Value
) -> None:
    """Store a column of a row in an output block; the bytes of a long string go to its heap."""
    k = schema.index(name)
    column = Layout.of(schema).columns[k]
    valid = f"{prefix}_{k}_valid[{row}]" if column.type.nullable else None
    if column.kind == "view":
        view = writer.let(f"{prefix}_{k}[{row}]", "s")
        place = Value(column.type, (f"{view}.head", f"{view}.tail"), valid)
        keep(writer, value, place, f"{prefix}_heap")
    else:
        assign(writer, Value(column.type, (f"{prefix}_{k}[{row}]",), valid), value)


def stop_when_full(writer: Writer, schema: Schema) -> None:
    """Where a string did not fit the heap of the output, there is no room for further rows."""
    if Layout.of(schema).has_views:
        with writer.block("if has_overflown(out_heap):"):
            writer.line("room = written")
