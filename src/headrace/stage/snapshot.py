"""Saved state: a base plus deltas of changed records, by key group, as Arrow columns.

A snapshot holds for each stateful operator its records as Arrow rows under a header that says what
they are, and for the inputs how far time has come. It is a base (everything) or a delta (what has
changed since the snapshot before it). The index of a store is not saved: it is built when the
records are loaded. Rows are sorted by key group, so that a part can be given to another owner.

As bytes it is sealed: a digest of all that follows comes first, so that not one other bit is ever
taken for the numbers that were saved.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.by_time import SortByTime
from headrace.plan.errors import DataError, StateError
from headrace.plan.nodes import WindowJoin
from headrace.plan.timed import TimedProcess

from .blocks.validation import validated
from .generate.layouts import column_fields
from .kernel import Kernel
from .keyed_store import KeyedStore
from .store import key_groups
from .tables import GROUP, StoreFunctions

FORMAT = 3  # of everything that is saved; another one is refused
MAGIC = b"headrace-state-%d" % FORMAT
DIGEST_BYTES = hashlib.sha256().digest_size
PANE_OF = "__pane"


@dataclass(frozen=True)
class OperatorState:
    """The records of one operator, or those that have changed."""

    header: dict[str, Any]
    rows: pa.RecordBatch

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return self.rows.nbytes


@dataclass(frozen=True)
class Snapshot:
    """What a stage knew at one moment, or (since is not None) what changed since another one."""

    token: str
    since: str | None
    operators: dict[str, OperatorState]
    inputs: dict[str, Any] = field(default_factory=dict)
    watermarks: dict[str, Any] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return sum(state.nbytes for state in self.operators.values())

    @property
    def records(self) -> int:
        """Records in it."""
        return sum(state.rows.num_rows for state in self.operators.values())

    def to_bytes(self) -> bytes:
        """The snapshot as bytes, for a file or another process."""
        parts, listed = [], []
        for identity, state in self.operators.items():
            made = _to_ipc(state.rows)
            listed.append({"identity": identity, "header": state.header, "bytes": len(made)})
            parts.append(made)
        header = {
            "token": self.token,
            "since": self.since,
            "inputs": self.inputs,
            "watermarks": self.watermarks,
            "operators": listed,
        }
        first = json.dumps(header).encode()
        content = [_LENGTH % len(first), first, *parts]
        return b"".join([MAGIC, _digest(content), *content])

    @classmethod
    def from_bytes(cls, given: bytes) -> Snapshot:
        """What `to_bytes` gave; a StateError where it is anything else, if only by one bit."""
        seen = memoryview(given)
        start = len(MAGIC) + DIGEST_BYTES
        if bytes(seen[: len(MAGIC)]) != MAGIC:
            raise StateError(f"these bytes are not a saved state of headrace, format {FORMAT}")
        if bytes(seen[len(MAGIC) : start]) != _digest([seen[start:]]):
            raise StateError("these bytes are not those that were saved: their digest differs")
        at = start + _LENGTH_BYTES
        length = int(bytes(seen[start:at]))
        header, at, operators = json.loads(bytes(seen[at : at + length])), at + length, {}
        for listed in header["operators"]:
            rows = _from_ipc(seen[at : at + listed["bytes"]])
            operators[listed["identity"]] = OperatorState(listed["header"], rows)
            at += listed["bytes"]
        return cls(
            header["token"], header["since"], operators, header["inputs"], header["watermarks"]
        )


_LENGTH, _LENGTH_BYTES = b"%016d", 16


def digest_of(given: bytes) -> str:
    """The digest that stands in a snapshot's bytes, as text."""
    return given[len(MAGIC) : len(MAGIC) + DIGEST_BYTES].hex()


def _digest(parts: Iterable[bytes | memoryview]) -> bytes:
    made = hashlib.sha256()
    for part in parts:
        made.update(part)
    return made.digest()


def new_token() -> str:
    """A name for a snapshot that no other one has, not even that of an attempt that failed."""
    return uuid.uuid4().hex


def _to_ipc(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()


def _from_ipc(given: memoryview) -> pa.RecordBatch:
    """Rows that compiled code may follow: every offset in them was looked at."""
    try:
        with pa.ipc.open_stream(pa.BufferReader(bytes(given))) as reader:
            return validated(reader.read_next_batch(), "the saved state")
    except (pa.ArrowException, StopIteration, OSError, DataError) as error:
        raise StateError(f"these bytes are not records of a state: {error}") from None


# ---- one kernel ----------------------------------------------------------------------------


class KernelState:
    """Saves and restores the records of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        node = kernel.chain.stateful
        assert node is not None
        self.identity = node.identity
        self.functions: StoreFunctions = kernel.functions
        self.columns = self.functions.numbered_columns()
        kinds = [str(kind) for kind in self.functions.layout.keys]
        values = [str(kind) for _, kind in self.functions.layout.values]
        state = kernel.chain.user_state
        names = [each.name for each in state.fields] if state is not None else []
        if isinstance(node, TimedProcess):
            names = ["at", "wakes", *node.kept, *names]
        elif isinstance(node, SortByTime):
            names = ["at", *node.kept]
        elif isinstance(node, WindowJoin):
            columns = {f: " or ".join(names) for f, names in column_fields(node).items()}
            names = [columns.get(name, name) for name, _ in self.functions.layout.values]
        self.shape = {
            "operator": node.kind,
            "key": dict(zip(node.key, kinds, strict=False)),
            "fields": names or [name for name, _ in self.functions.layout.values],
            "types": values,
            "window": str(getattr(node, "window", None)),
        }
        if node.partition is not None:
            self.shape["partition"] = node.partition.identity

    def _stores(self) -> list[tuple[int | None, KeyedStore]]:
        kernel = self.kernel
        if kernel.windows is not None:
            return list(kernel.windows.stores.items())
        assert kernel.store is not None
        return [(None, kernel.store)]

    def records(self) -> int:
        """Records there are."""
        return sum(store.count for _, store in self._stores())

    def save(self, changes: bool) -> OperatorState:
        """All records, or those changed since the last save; the next interval begins."""
        parts = []
        for pane, store in self._stores():
            every = np.arange(store.count, dtype=np.int32)
            numbers = store.changed_numbers() if changes else every
            rows, hashes = self.functions.save(store, self.columns, numbers)
            parts.append(_with_place(rows, hashes, pane))
            store.next_epoch()
        rows = pa.concat_batches(parts) if parts else self._no_rows()  # type: ignore[attr-defined]
        order: Any = pa.array(np.argsort(rows.column(GROUP).to_numpy(), kind="stable"))
        rows = rows.take(order)
        header: dict[str, Any] = {"shape": self.shape}
        windows = self.kernel.windows
        if windows is not None:
            header["open"] = sorted(windows.stores)
            header["ends"] = [windows.ends()[pane] for pane in header["open"]]
            header["fresh"] = windows.fresh()
            windows.note_snapshot()
        return OperatorState(header, rows)

    def _no_rows(self) -> pa.RecordBatch:
        schema = self.columns.schema.to_arrow()
        schema = schema.insert(0, pa.field(PANE_OF, pa.int64())).insert(0, _GROUP_FIELD)
        return pa.RecordBatch.from_pylist([], schema=schema)

    def load(self, states: list[OperatorState], groups: range | None) -> None:
        """Enter a base and its deltas, in order; `groups` chooses key groups."""
        for state in states:
            if state.header["shape"] != self.shape:
                raise StateError(_difference(self.identity, state.header["shape"], self.shape))
            rows = state.rows
            if groups is not None:
                group = rows.column(GROUP).to_numpy()
                rows = rows.filter(pa.array((group >= groups.start) & (group < groups.stop)))
            self._enter(rows, state.header)
        for _, store in self._stores():
            store.next_epoch()
        if self.kernel.windows is not None:
            self.kernel.windows.note_snapshot()

    def _enter(self, rows: pa.RecordBatch, header: dict[str, Any]) -> None:
        windows = self.kernel.windows
        if windows is None:
            self._load(self.kernel.store, rows)
            return
        # a pane that was closed, or closed and opened again, has lost what it had
        gone = set(windows.stores) - set(header["open"]) | set(header["fresh"])
        windows.close([pane for pane in windows.stores if pane in gone])
        panes = rows.column(PANE_OF).to_numpy()
        known, ends = windows.stores, dict(zip(header["open"], header["ends"], strict=True))
        for pane in header["open"]:
            chosen = rows.filter(pa.array(panes == pane))
            if chosen.num_rows or pane not in known:
                store = known.get(pane) or windows.open(pane, *ends[pane])
                self._load(store, chosen)
        windows.set_ends(ends)

    def _load(self, store: KeyedStore | None, rows: pa.RecordBatch) -> None:
        assert store is not None
        columns, groups = self.columns, rows.column(GROUP).to_numpy()
        rows = rows.select(columns.schema.names)
        self.functions.load(store, columns, rows, replace=True, groups=groups)


_GROUP_FIELD = pa.field(GROUP, pa.uint8())


def _with_place(rows: pa.RecordBatch, hashes: np.ndarray, pane: int | None) -> pa.RecordBatch:
    groups = key_groups(hashes).astype(np.uint8)
    panes = pa.array(np.full(len(hashes), pane or 0, np.int64))
    columns = [pa.array(groups), panes, *rows.columns]
    fields = [_GROUP_FIELD, pa.field(PANE_OF, pa.int64()), *rows.schema]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _difference(identity: str, saved: dict[str, Any], now: dict[str, Any]) -> str:
    """What changed between the pipeline that saved a state and the one it is given to."""
    said = [
        f"{what}: saved {saved.get(what)}, now {now.get(what)}"
        for what in dict.fromkeys([*saved, *now])
        if saved.get(what) != now.get(what)
    ]
    return (
        f"the saved state of {identity} does not fit the pipeline: {'; '.join(said)}\n"
        "  fix: give the operator a new name to start it empty, or undo the change"
    )
