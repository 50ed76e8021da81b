"""What sinks that stage rows in files have in common: who wrote what, and what is left over.

An attempt stages its rows in `<staging>/<batch>/<attempt>/rows<ending>`. What a commit makes of it
is up to the sink.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote

import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.located import Located, says_where
from headrace.plan.schema import Schema

from .behind import Behind
from .paths import DECODING_ERRORS, whole_path

# What is written at a time: small batches are put together, in memory that is bounded.
GROUP_ROWS = 131_072
GROUP_BYTES = 64 << 20
ENCODERS = min(4, os.cpu_count() or 1)  # threads for each file that is being written
DAY = 86_400.0
MODES = ("append", "overwrite", "error")
FULL = (errno.ENOSPC, errno.EDQUOT)
TRIES = 100

Message = dict[str, Any]  # {"attempt": its name, "rows": how many it had staged by then}


class RowWriter(Protocol):
    """What writes the rows of one file."""

    def encoded(self, rows: pa.Table) -> Any:
        """Rows, which lie in as many pieces as they came in, as `add` takes them; several threads
        may encode at once."""
        ...

    def add(self, encoded: Any) -> None:
        """Write rows that were encoded, behind those before them."""
        ...

    def close(self) -> None:
        """Write the end, and close the file."""
        ...


def published_otherwise(sink: Any, batch: str, known: str, end: str) -> DataError:
    """What to say of a batch that was published with another end."""
    return DataError(
        f"{sink}: batch {batch!r} was published with another end ({known or 'none'}, now "
        f"{end or 'none'}), so its rows were others: the job has lost what it knew of it\n"
        "  fix: restore the checkpoint that belongs to what is there, or begin with a new "
        "checkpoint and an empty place"
    )


class StagedSink(Located, ABC):
    """A sink whose attempts stage rows in files, for a commit that publishes them.

    Tasks may stage in other processes, as long as they see the same folder. `mode` says what
    becomes of rows that are there when a job begins: they stay ("append"), are removed
    ("overwrite"), or are a DataError ("error"). What the job itself has published, before it was
    started again, always stays.
    """

    exactly_once = True
    distributed = True
    keeps_ends = True  # commit takes the end of a batch, and keeps it with what it publishes
    kind: str  # as in write.<kind>
    ending: str  # of the names of staged files

    def __init__(
        self,
        path: str,
        staging: Path,
        *,
        mode: str = "append",
        keep_staged: float = DAY,
    ) -> None:
        if mode not in MODES:
            raise DataError(f"mode={mode!r}: use one of {', '.join(MODES)}")
        self._path, self._staging, self._mode = path, staging, mode
        self._job: str | None = None
        self._keep_staged = keep_staged
        self._schema: Schema | None = None
        self._open: dict[tuple[str, str], StagedFile] = {}
        self._finished: dict[tuple[str, str], Finished] = {}  # here: others' files are looked into
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return f"{self.kind} {self._path}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}, "_finished": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def begin(self, job: str) -> None:
        """Say, before `open`, with what the names of the batches begin: with this and "-"."""
        self._job = job

    @says_where
    def open(self, schema: Schema) -> None:
        """Make the place, check what is there already, and remove old leftovers."""
        if not len(schema):
            raise DataError(f"{self}: there must be at least one column")
        self._schema = schema
        self._check_place()
        with self._disk():
            make_folders(self._staging)
            self._prepare(schema)
            self._remove_leftovers()

    @says_where
    def write(self, rows: pa.RecordBatch, batch: str, attempt: str) -> Message:
        """Add rows to the file of an attempt."""
        if self._schema is None:
            raise DataError(f"{self}: open() comes before write()")
        with self._lock, self._disk():
            file = self._open.get((batch, attempt))
            if file is None:
                path = self._staged(batch, attempt)
                make_folders(path.parent)
                arrow = self._schema.to_arrow()
                file = StagedFile(path, arrow, self._writer(path, arrow))
                self._open[batch, attempt] = file
            file.add(rows)
            return {"attempt": attempt, "rows": file.rows}

    @says_where
    def commit(self, batch: str, messages: Sequence[Message], end: str = "") -> None:
        """Publish what the attempts of the messages staged; nothing if that was done before.

        end: stands for where the batch ends. One that was published with another end had other
        rows, and is a DataError.
        """
        staged: dict[str, int] = {}
        for message in messages:
            name = message["attempt"]
            staged[name] = max(staged.get(name, 0), message["rows"])
        with self._lock, self._disk():
            for key in [key for key in self._open if key[0] == batch]:
                self._finish(key, whole=key[1] in staged)
            if staged and not self._is_same(batch, end):
                self._publish(batch, staged, end)
            shutil.rmtree(self._staging / safe(batch), ignore_errors=True)
            for key in [key for key in self._finished if key[0] == batch]:
                del self._finished[key]

    def abort(self, batch: str, attempt: str) -> None:
        """Remove what an attempt has staged."""
        with self._lock:
            with suppress(Exception):  # of a full disk, say: nobody needs it any more
                self._finish((batch, attempt), whole=False)
            folder = self._staged(batch, attempt).parent
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):  # other attempts are there, or nothing was
                folder.parent.rmdir()

    @says_where
    def close(self) -> None:
        """Finish the files that are being written; they stay staged until a commit."""
        with self._lock, self._disk():
            for key in list(self._open):
                self._finish(key, whole=True)
        for folder in self._folders():
            with suppress(OSError):  # something is staged there, or others have removed it
                folder.rmdir()

    # ---- what a sink adds --------------------------------------------------------------------

    def _check_place(self) -> None:
        """What must be there already is not made: a DataError says what is missing."""

    def _folders(self) -> list[Path]:
        """The folders that are made for staging, the innermost first."""
        return [self._staging]

    @abstractmethod
    def _prepare(self, schema: Schema) -> None:
        """Check that what is there already fits rows of a schema."""

    def _is_of_job(self, published: str) -> bool:
        """Is this the name of a batch that the job itself has published?"""
        job = self._job
        return job is not None and published.startswith((f"{job}-", f"{safe(job)}-"))

    def _is_there(self, what: str) -> DataError:
        """What to say of rows that should not be there."""
        return DataError(
            f"{self}: {what} is there already, and the mode is 'error'; write to another place, or "
            'say mode="append" or mode="overwrite"'
        )

    @abstractmethod
    def _writer(self, path: Path, schema: pa.Schema) -> RowWriter:
        """What writes a staged file."""

    @abstractmethod
    def _rows_in(self, path: Path) -> int:
        """How many rows a staged file has; an ArrowException or OSError if it is not finished."""

    @abstractmethod
    def _published_end(self, batch: str) -> str | None:
        """The end with which a batch was published; None if it was not."""

    @abstractmethod
    def _publish(self, batch: str, staged: Mapping[str, int], end: str) -> None:
        """Publish what attempts have staged, in one step; they are given with their rows."""

    @contextmanager
    def _disk(self) -> Iterator[None]:
        """What the disk does not take is a DataError; it says where, be it full or read-only."""
        try:
            yield
        except OSError as error:
            said = os.strerror(error.errno) if error.errno else str(error)
            where = whole_path(error.filename or self._path)
            hint = "\n  fix: make room there, or write elsewhere" if error.errno in FULL else ""
            raise DataError(f"{self}: {where} cannot be written: {said}{hint}") from None

    def _is_same(self, batch: str, end: str) -> bool:
        """Was this batch published before? Another one of its name is a DataError."""
        known = self._published_end(batch)
        if known is None or known == end:
            return known is not None
        raise published_otherwise(self, batch, known, end)

    # ---- staged files ------------------------------------------------------------------------

    def _staged(self, batch: str, attempt: str) -> Path:
        return self._staging / safe(batch) / safe(attempt) / f"rows{self.ending}"

    def _finish(self, key: tuple[str, str], *, whole: bool) -> None:
        file = self._open.pop(key, None)
        if file is not None:
            file.finish(whole)
            if whole:
                self._finished[key] = Finished(file.rows, self._staged(*key).stat().st_size)

    def _whole(self, batch: str, attempt: str, rows: int) -> Path:
        """The file of an attempt, if it has all its rows."""
        path = self._staged(batch, attempt)
        where = f"{self}: batch {batch!r}: {path.relative_to(self._staging.parent)}"
        known = self._finished.get((batch, attempt))
        try:
            here = known is not None and path.stat().st_size == known.size
            found = known.rows if known is not None and here else self._rows_in(path)
        except FileNotFoundError:
            raise DataError(f"{where} is gone, and was staged before") from None
        except DECODING_ERRORS:
            raise DataError(f"{where} is not finished; close the sink that wrote it") from None
        if found != rows:
            raise DataError(f"{where} has {found} rows, and {rows} were staged")
        return path

    def _remove_leftovers(self) -> None:
        """Remove what was staged for batches that are published, or that nobody came back for."""
        for folder in [self._staging / name for name in _names_in(self._staging)]:
            newest = max(_modified(path) for path in [folder, *folder.rglob("*")])
            old = time.time() - newest > self._keep_staged
            if old or self._published_end(_unsafe(folder.name)) is not None:
                shutil.rmtree(folder, ignore_errors=True)


class Finished(NamedTuple):
    """A staged file that was closed by the sink that wrote it."""

    rows: int
    size: int


class StagedFile:
    """A file that is being written; small batches are put together to a useful size.

    What is put together is encoded by threads, while the next rows come, and written in its order:
    memory has one such piece more than there are threads, at most.
    """

    def __init__(self, path: Path, schema: pa.Schema, writer: RowWriter) -> None:
        self._path, self._schema, self._writer = path, schema, writer
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._behind = Behind(ENCODERS)
        self.rows = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows; an error may be that of rows that came before."""
        if not rows.schema.equals(self._schema):
            rows = rows.select(self._schema.names).cast(self._schema)
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        self.rows += rows.num_rows
        if self._waiting_rows >= GROUP_ROWS or self._waiting_bytes >= GROUP_BYTES:
            self._flush()

    def finish(self, whole: bool) -> None:
        """Close the file; what is not needed whole need not be safe on the disk either."""
        if not whole:
            self._behind.leave(self._writer.close)
            return
        if self._waiting_rows:
            self._flush()
        self._behind.wait()
        self._writer.close()
        sync(self._path)

    def _flush(self) -> None:
        rows = pa.Table.from_batches(self._waiting, self._schema)
        self._behind.do(partial(self._writer.encoded, rows), self._write)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def _write(self, encoded: Any) -> None:
        self._writer.add(encoded)
        begin_sync(self._path)


def _names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def safe(name: str) -> str:
    """An id as part of a file name; different ids stay different.

    >>> safe("a/b"), safe("..")
    ('a%2Fb', '%2E%2E')
    """
    return quote(name, safe="").replace(".", "%2E").replace("~", "%7E") or "%"


def published_as(batch: str, end: str) -> str:
    """The name under which a batch is published; no id can have the sign between the two (safe).

    >>> published_as("7", "9f3a"), published_as("7", "")
    ('7@9f3a', '7')
    """
    return f"{safe(batch)}@{end}" if end else safe(batch)


def _unsafe(name: str) -> str:
    """The id that became part of a file name."""
    return "" if name == "%" else unquote(name)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(path: Path, mode: int = 0o777, *, lasting: bool = True) -> None:
    """Make a folder, and those above it, also while others remove what they think is empty.

    lasting: their names survive a power cut, too.
    """
    for tries_left in range(TRIES, -1, -1):
        if path.is_dir():
            return
        if not path.parent.exists():
            make_folders(path.parent, mode, lasting=lasting)
        try:
            path.mkdir(mode, exist_ok=True)
            if lasting:
                sync(path.parent)
            return
        except FileNotFoundError:
            if not tries_left:
                raise


_BEGIN = 2  # SYNC_FILE_RANGE_WRITE: begin with what is not on its way yet, and wait for nothing


def _sync_file_range() -> Any:
    """Linux's call of this name; None elsewhere."""
    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is not None:
        found.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return found


_begin = _sync_file_range()


def begin_sync(path: Path) -> None:
    """Let a file that grows go to the disk by and by, so that `sync` has little to wait for.

    It is but a hint: what goes wrong shows in `sync`.
    """
    if _begin is None:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _begin(descriptor, 0, 0, _BEGIN)  # all of it
    finally:
        os.close(descriptor)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
