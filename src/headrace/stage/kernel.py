"""A kernel and its memory: what the host of a stage calls."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.plan.dedup import DedupWithin
from headrace.plan.nodes import FAIL, Node, Process, Running, TableJoin, Windowed
from headrace.plan.schema import Schema

from .blocks.block import Block
from .blocks.layout import Layout
from .blocks.packed import constant
from .functions.state import state_record
from .generate.chain import kernel_text
from .generate.context import Chain, KernelText
from .generate.layouts import state_layout, table_layout, window_layout
from .generate.stores import StoreLayout
from .keyed_store import KeyedStore, by_host
from .letters import DeadLetters, is_full, leave_out
from .memory.records import i32s
from .module import build
from .room import make_room
from .store import key_groups
from .store_room import give_memory
from .strings.heap import new_heap
from .strings.text import words
from .strings.words import View
from .support import forget_frame
from .tables import StoreFunctions, load_table, store_functions
from .task import CONSUMED, MAIN, NEED_MEMORY, NOT_SELECTED, OUTPUT_FULL, RUNNING, SIDE, Task
from .windows import NONE_DUE, OpenWindows, begin_firing, begin_flush, end_firing

PROCESS_CHUNK = 4096  # records of a chunk of state
ROW_TEXT = 1 << 12  # bytes of strings that a row makes; what is more comes from malloc


Tables = dict[int, KeyedStore]  # static tables that are loaded, by the id of their join


def cell(record: Any, name: str) -> Any:
    """A field of a record as a ctypes integer, the quickest way to write it from Python."""
    return ctypes.c_int64.from_address(record.address + type(record).fields[name].offset)


def cells(record: Any, name: str) -> Any:
    """An array of integers in a record, likewise."""
    field = type(record).fields[name]
    count = field.kind.size // ctypes.sizeof(ctypes.c_int64)
    return (ctypes.c_int64 * count).from_address(record.address + field.offset)


class Kernel:
    """One chain, ready to run: give it a block (`start`), then `run` until all is consumed.

    Whenever `run` says that the output is full, `take` it. `fire` makes the windows that a
    watermark has closed ready; then `run_fire` likewise.
    """

    def __init__(
        self,
        chain: Chain,
        capacity: int,
        compiled: bool = True,
        tables: Tables | None = None,
        account: Any = None,
    ) -> None:
        self.chain, self.capacity, self.is_compiled = chain, capacity, compiled
        self._account = account  # the Account that state counts against
        self.made: KernelText = kernel_text(chain)
        self._state = chain.user_state
        module = build(
            self.made.text,
            " -> ".join(node.kind for node in chain.nodes),
            functions=self.made.resources.functions,
            state=self._state,
            compiled=compiled,
        )
        self._rows, self._advance = module.rows, getattr(module, "advance", None)
        self._room = getattr(module, "room", None) or self._mode(make_room)
        self.task = Task.allocate()
        self._address = self.task.address
        # written for every block, so without the way through descriptors
        self._input, self._row = cell(self.task, "input"), cell(self.task, "row")
        self._first, self._last = cell(self.task, "first"), cell(self.task, "last")
        self._selected, self._out = cell(self.task, "selected"), cells(self.task, "outputs")
        self._memory: list[Any] = []  # what the task's addresses point to
        self.block: Block | None = None
        self.store: KeyedStore | None = None
        self.functions: StoreFunctions  # of the state, where there is one
        self.windows: OpenWindows | None = None
        self._free: list[Block] = []
        self._twins: dict[tuple[Any, ...], Kernel] = {}  # those without state
        self.outputs = {k: self._new_block(schema) for k, schema in chain.outputs.items()}
        self.letters = None if chain.letters is None else DeadLetters(chain.letters)
        self.task.skips = chain.tolerates and self.letters is None
        self._loaded: Tables = {} if tables is None else tables
        self._tables = [self._table(node, k) for k, node in enumerate(self.made.tables)]
        self._prepare(module)

    # ---- memory ------------------------------------------------------------------------------

    def _table(self, node: TableJoin, k: int) -> KeyedStore:
        found = self._loaded.get(id(node))
        if found is None:
            found = load_table(node, table_layout(node, k), self.is_compiled)
            self._loaded[id(node)] = found
        return found

    def _prepare(self, module: Any) -> None:
        task, made = self.task, self.made
        task.ordered, task.due_count = NOT_SELECTED, NONE_DUE
        if made.uses_selection:
            task.selection = self._zeros(self.capacity + 1, np.int32)
        if made.uses_matches:
            task.matches = self._zeros(self.capacity + 1, np.int32)
        if made.uses_retry:
            task.retry = self._zeros(self.capacity + 1, np.int32)
        if made.uses_known:
            first = self._tables[0]  # the join whose matches are found first
            task.known = self._zeros(max(first.count, 1), np.int64)
        if made.uses_hashes:
            task.hashes = self._zeros(self.capacity + 1, np.int64)
        if made.resources.creates_text:
            heap = new_heap(ROW_TEXT)
            self._memory.append(heap)
            task.heap = heap.address
        self._prepare_literals()
        for k, table in enumerate(self._tables):
            task.tables[k] = table.header.address
        if self.chain.emitter is not None:
            self._prepare_emitter(module)
        node = self.chain.last
        if isinstance(node, Windowed | DedupWithin):
            self._prepare_windows(node, module)
        elif isinstance(node, Running):
            self._keep_records(window_layout(node))

    def _zeros(self, count: int, dtype: Any) -> int:
        array = np.zeros(count, dtype)
        self._memory.append(array)
        return array.ctypes.data

    def _prepare_literals(self) -> None:
        literals = self.made.resources.literals
        if not literals:
            return
        table = View.allocate(len(literals))
        size = sum(len(str(literal.value)) * 4 + 16 for literal in literals)
        heap = new_heap(size)
        self._memory += [table, heap]
        for literal, at in literals.items():
            table[at].head, table[at].tail = words(constant(literal), heap)
        self.task.literals = table.address

    def _prepare_emitter(self, module: Any) -> None:
        if self._state is not None:
            self._prepare_state()
        self._prepare_frame(module)

    def _prepare_frame(self, module: Any) -> None:
        from .functions.silent import quiet  # with Numba, which compiled the user's function

        with quiet():
            size = module.frame(self._address)
        self.task.frame = self._zeros(max(size, 8), np.uint8)

    def _prepare_state(self) -> None:
        node = self.chain.emitter
        assert isinstance(node, Process)
        store = self._keep_records(state_layout(node))
        store.header.initial = self._user_states()

    def _user_states(self) -> int:
        """The state record of the row in work; gives the address of one as it is in the
        beginning."""
        assert self._state is not None
        record = state_record(self._state)
        scratch, initial = record.allocate(), record.allocate()
        heap = new_heap(sum(len(str(v)) * 4 + 16 for v in self._state.initial))
        if any(field.type.is_view for field in self._state.fields):
            initial.heap = heap.address
        for field, value in zip(self._state.fields, self._state.initial, strict=True):
            setattr(initial, field.name, value)
        self._memory += [scratch, initial, heap]
        self.task.scratch = scratch.address
        return int(initial.address)

    def _keep_records(self, layout: StoreLayout) -> KeyedStore:
        """A store of all keys."""
        self.functions = store_functions(layout, self._state, self.is_compiled, grouped=True)
        self.store = KeyedStore(
            self.functions.entry,
            chunk_records=PROCESS_CHUNK,
            keeps_text=layout.keeps_text,
            account=self._account,
        )
        self.task.store = self.store.header.address
        return self.store

    def _prepare_windows(self, node: Windowed | DedupWithin, module: Any) -> None:
        layout = window_layout(node)
        entry = getattr(module, layout.entry)
        self.windows = OpenWindows(
            entry,
            step=node.window.step,
            delay=node.window.delay,
            keeps_text=layout.keeps_text,
            partial=isinstance(node, Windowed) and node.phase == "partial",
            account=self._account,
        )
        self.functions = store_functions(layout, None, self.is_compiled, grouped=True)
        single = entry.allocate()
        self._memory.append(single)
        self.task.single = single.address
        self.task.panes = self.windows.panes.address
        if self._state is not None:
            self.task.initial = self._user_states()
            self._prepare_frame(module)

    def _new_block(self, schema: Schema) -> Block:
        return Block.allocate(Layout.of(schema), self.capacity)

    # ---- running -----------------------------------------------------------------------------

    @property
    def compiled_rows(self) -> Any:
        """The compiled function, for calls by its address."""
        return self._rows

    @property
    def loaded_tables(self) -> Tables:
        """The static tables that are loaded, for other kernels over the same."""
        return self._loaded

    @property
    def compiled_advance(self) -> Any:
        """The compiled function that fires windows; None where there are none."""
        return self._advance

    def bind(self, block: Block) -> None:
        """A block that is filled and run by others, without `start` and `run`."""
        self.block = block
        self._bind_outputs()

    def start(self, block: Block) -> None:
        """Begin with a block of input."""
        self.block = block
        self._input.value, self._row.value = block.address, 0
        self._first.value, self._last.value = 0, block.rows
        self._selected.value = NOT_SELECTED

    def run(self) -> int:
        """CONSUMED, or OUTPUT_FULL with rows to be taken from an output."""
        self._bind_outputs()
        while True:
            try:
                answer = self._rows(self._address)
            except Exception as error:
                if not leave_out(self, error):
                    raise
                if self.letters is not None and is_full(self.outputs[SIDE]):
                    return OUTPUT_FULL
                continue
            if answer != NEED_MEMORY:
                return answer
            self.make_room()

    def _bind_outputs(self) -> None:
        for k, block in self.outputs.items():
            self._out[k] = block.address

    def make_room(self) -> None:
        """What the kernel asked for when it answered NEED_MEMORY."""
        self._room(self._address)

    @property
    def stores_anything(self) -> bool:
        """Has it state, and so may need room?"""
        return self.store is not None or self.windows is not None

    @property
    def compiled_room(self) -> Any:
        """The compiled function that makes room, for calls by its address."""
        return self._room

    def _mode(self, function: Any) -> Any:
        return function if self.is_compiled else by_host(function)

    def take(self, output: int = MAIN) -> Block:
        """The block of an output with its rows; the kernel goes on with an empty one."""
        taken = self.outputs[output]
        is_free = output == MAIN and self._free
        schema = self.chain.outputs[output]
        self.outputs[output] = self._free.pop() if is_free else self._new_block(schema)
        return taken

    def recycle(self, block: Block) -> None:
        """A block that `take` gave and nobody reads any more."""
        block.clear()
        self._free.append(block)

    # ---- windows -----------------------------------------------------------------------------

    def fire(self, watermark: int) -> bool:
        """Make the windows that end at or before a watermark ready to be given out."""
        return by_host(begin_firing)(self.task, watermark) > 0

    def flush(self) -> bool:
        """Make all windows ready to be given out: for partial results, which are merged later."""
        return by_host(begin_flush)(self.task) > 0

    def run_fire(self) -> int:
        """CONSUMED, or OUTPUT_FULL with rows to be taken from the output."""
        self._bind_outputs()
        assert self._advance is not None
        answer = self._advance(self._address)
        while answer == NEED_MEMORY:
            self.make_room()
            answer = self._advance(self._address)
        if answer == CONSUMED:  # they have been given out
            by_host(end_firing)(self.task)
        return answer

    # ---- errors ------------------------------------------------------------------------------

    @property
    def is_firing(self) -> bool:
        """Are windows being given out, and not rows worked on?"""
        return self.task.due_count > 0

    def failed_row(self) -> int:
        """After an exception: the row of the block; outputs are cut back to before it."""
        for k, block in self.outputs.items():
            if k != MAIN or self.chain.windowed is None:
                block.rows = self.task.written[k]
        return self.row_in_work

    @property
    def row_in_work(self) -> int:
        """The row of the block that it has come to."""
        task = self.task
        row = i32s(task.selection)[task.row] if self.made.uses_selection else task.row
        return task.first + row

    def twin(
        self, operators: int | None = None, compiled: bool = False, branch: Sequence[Node] = ()
    ) -> Kernel:
        """The same kernel, mostly interpreted, with the same tables and the state of the row in
        work; what fails in it raises its error.

        operators: how many of the chain's, the first ones; None: all of them. branch: behind them,
        so many operators of one of the branches that the chain ends in.
        """
        asked = operators, compiled, tuple(map(id, branch))
        known = self._twins.get(asked)
        if known is not None:
            known.task.suspended = RUNNING
            return known
        nodes = (*self.chain.nodes[:operators], *branch)
        if self.chain.tolerates:
            nodes = replace(nodes[0], on_error=FAIL), *nodes[1:]
        twin = Kernel(Chain(nodes, self.chain.input), 1, compiled, tables=self._loaded)
        twin.task.low_group, twin.task.high_group = self.task.low_group, self.task.high_group
        if self.store is not None and self.store.count and twin.store is not None:
            columns = self.functions.numbered_columns()
            number = np.array([self.task.number], np.int32)
            rows, hashes = self.functions.save(self.store, columns, number)
            groups = key_groups(hashes)
            twin.functions.load(twin.store, columns, rows, replace=True, groups=groups)
        if not twin.stores_anything:
            self._twins[asked] = twin
        return twin

    def stores(self) -> list[KeyedStore]:
        """All state of the kernel."""
        if self.windows is not None:
            return list(self.windows.stores.values())
        return [] if self.store is None else [self.store]

    def state_size(self) -> dict[str, int]:
        """Keys (per window) and bytes of the state."""
        stores = self.stores()
        keys, size = sum(s.count for s in stores), sum(s.size_bytes for s in stores)
        return {"state_keys": keys, "state_bytes": size}

    def close(self) -> None:
        """Let go of what the kernel holds."""
        forget_frame(self.task.frame)

    def __del__(self) -> None:
        if hasattr(self, "task"):
            by_host(give_memory)(0, self.task.order)
