"""Stores filled from Arrow and read back as Arrow: static tables and saved state."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.functions import StateSpec
from headrace.plan.nodes import KEY_HASH, TableJoin, extended
from headrace.plan.schema import Field, Schema
from headrace.plan.types import int64, uint8

from .blocks.arrow import Feed, to_arrow
from .blocks.block import Block
from .blocks.layout import Layout
from .generate.moving import load_text, save_text
from .generate.stores import StoreLayout, find_text, insert_text, record_text
from .keyed_store import KeyedStore
from .module import build

GROUP = "__group"  # the column of the key groups of saved records
BATCH = 4096  # rows moved at a time
FEW_ROWS = 2000  # of a table: interpreting them takes less time than compiling


class StoreFunctions:
    """load and save for the records of one layout."""

    def __init__(
        self, layout: StoreLayout, state: StateSpec | None, compiled: bool, grouped: bool
    ) -> None:
        texts = [record_text(layout), find_text(layout), insert_text(layout, {})]
        text = "".join([*texts, load_text(layout, grouped), save_text(layout)])
        self.layout, self._grouped = layout, grouped
        module = build(text, "load and save records", state=state, compiled=compiled)
        self._load, self._save = module.load, module.save
        self.entry = getattr(module, layout.entry)

    def columns(self, keys: tuple[str, ...], values: tuple[str, ...]) -> Layout:
        """The block layout of records under given column names."""
        kinds = [*self.layout.keys, *(kind for _, kind in self.layout.values)]
        return Layout.of(Schema(tuple(map(Field, (*keys, *values), kinds))))

    def numbered_columns(self) -> Layout:
        """The block layout of records, its columns named by their place."""
        keys = tuple(f"key_{k}" for k in range(len(self.layout.keys)))
        return self.columns(keys, tuple(name for name, _ in self.layout.values))

    def load(
        self,
        store: KeyedStore,
        columns: Layout,
        rows: pa.RecordBatch,
        *,
        replace: bool,
        groups: np.ndarray | None = None,
    ) -> int | None:
        """Enter rows; gives the number of a row whose key was there and may not be replaced.

        groups: the key groups of rows of a state, which only their partition knows."""
        assert (groups is not None) == self._grouped, "records of a state have key groups"
        if groups is not None:
            columns = Layout.of(extended(columns.schema, Field(GROUP, uint8)))
            given = [*rows.columns, pa.array(groups.astype(np.uint8))]
            rows = pa.RecordBatch.from_arrays(given, names=list(columns.schema.names))
        block, feed = Block.allocate(columns, BATCH, borrows=True), Feed(columns, rows)
        for start in range(0, rows.num_rows, BATCH):
            feed.fill(block, start, min(BATCH, rows.num_rows - start))
            row = 0
            while row < block.rows:
                row = self._load(store.header.address, block.address, row, replace)
                if row < 0:
                    return start + store.header.repeated
                if row < block.rows:
                    store.make_room()
        return None

    def save(
        self, store: KeyedStore, columns: Layout, numbers: np.ndarray
    ) -> tuple[pa.RecordBatch, np.ndarray]:
        """Records by their numbers, as columns; and the hashes of their keys."""
        hashed = Layout.of(extended(columns.schema, Field(KEY_HASH, int64)))
        parts = []
        for start in range(0, max(len(numbers), 1), BATCH):
            some = np.ascontiguousarray(numbers[start : start + BATCH], np.int32)
            block = Block.allocate(hashed, BATCH, borrows=True)
            self._save(store.header.address, some.ctypes.data, len(some), block.address)
            parts.append(to_arrow(block))
        rows = pa.concat_batches(parts)  # type: ignore[attr-defined]
        hashes = rows.column(KEY_HASH).to_numpy()
        return rows.select(columns.schema.names), hashes


@lru_cache(maxsize=256)
def store_functions(
    layout: StoreLayout,
    state: StateSpec | None = None,
    compiled: bool = True,
    grouped: bool = False,
) -> StoreFunctions:
    """The functions of a layout, made once. grouped: rows that are loaded say their key group."""
    return StoreFunctions(layout, state, compiled, grouped)


def load_table(node: TableJoin, layout: StoreLayout, compiled: bool) -> KeyedStore:
    """The static table of a join, found by its key; a repeated key is an error."""
    table = node.table.load()
    functions = store_functions(layout, None, compiled and table.num_rows > FEW_ROWS)
    taken = tuple(name for name, _ in node.taken)
    wanted = node.right_on + taken
    keys = functions.columns(node.right_on, tuple(f"{k}: {name}" for k, name in enumerate(taken)))
    columns = [table.column(name) for name in wanted]
    rows = pa.table(columns, names=list(keys.schema.names))
    for name in node.right_on:
        if rows.column(name).null_count:  # a null key matches nothing
            rows = rows.filter(rows.column(name).is_valid())
    store = KeyedStore(functions.entry, keeps_text=layout.keeps_text)
    store.reserve(rows.num_rows)
    done = 0
    for batch in rows.combine_chunks().to_batches():
        repeated = functions.load(store, keys, batch, replace=False)
        if repeated is not None:
            values = rows.select(list(node.right_on)).slice(done + repeated, 1).to_pylist()[0]
            raise DataError(
                f"{node.written}: the key {_shown(values)} stands more than once in table "
                f"{node.table}\n  at {node.site!r}\n  fix: keep one row per key before joining"
            )
        done += batch.num_rows
    if layout.keys_beside_slots:
        store.put_keys_beside_slots(_numbers(rows.column(0)))
    return store


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """A column without nulls as 64-bit integers. (`to_numpy` would load pandas, and `cast` all of
    Arrow's functions.)"""
    chunks = [
        chunk if chunk.type == pa.int64() else chunk.cast(pa.int64())
        for chunk in column.chunks
        if len(chunk)
    ]
    parts = [
        np.frombuffer(  # type: ignore[call-overload]
            chunk.buffers()[1], np.int64, len(chunk), chunk.offset * np.dtype(np.int64).itemsize
        )
        for chunk in chunks
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _shown(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
