"""Runs that are recorded: what each channel gave and when, so that it can be given once more.

A recording is a folder. In it, each source has a folder with its number, with an Arrow file for
each channel: the rows as they came, and in a column beside them the microseconds since the run
began.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.connector import Batch, Position, Reader, Source
from headrace.plan.errors import DataError
from headrace.plan.expressions import Expression
from headrace.plan.located import Located, says_where
from headrace.plan.schema import HIDDEN_PREFIX, Schema
from headrace.stage.blocks.validation import validated

from .arrow import conform
from .arrow_files import END_MARK
from .clock import Clock, WallClock
from .paths import DECODING_ERRORS, whole_path
from .staging import make_folders, safe
from .wrapped import WrappedSource

DUE = f"{HIDDEN_PREFIX}due"  # the column of times
ENDING = ".arrows"
SECOND = 1_000_000


class Beginning:
    """When a run began: with the first channel that is opened, the same for all of them."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or WallClock()
        self._at: float | None = None
        self._lock = threading.Lock()

    def at(self) -> float:
        """That moment."""
        with self._lock:
            if self._at is None:
                self._at = self.clock.now()
            return self._at


class RecordingSource(WrappedSource):
    """Another source, all of whose rows are written down as they are given.

    Guarantees: what was given is in the recording, whole batches of it if the process dies. Ranges
    cannot be read again: what is recorded is one run.
    """

    replayable = False

    def __init__(self, source: Source, folder: Path, beginning: Beginning) -> None:
        super().__init__(source)
        self._folder, self._beginning = folder, beginning
        if folder.exists():
            raise DataError(f"{whole_path(folder)} is there already; record into a new folder")

    def __str__(self) -> str:
        return f"{self._source}, recorded in {self._folder}"

    @property
    def skipped(self) -> int | None:
        """As the source says."""
        return getattr(self._source, "skipped", None)

    @says_where
    def open(
        self,
        channel: str,
        start: Position = None,
        stop: Position = None,
        columns: Sequence[str] | None = None,
        predicate: Expression | None = None,
    ) -> RecordingReader:
        """Read a channel, all columns and rows of it: another run may need others."""
        reader = self._source.open(channel, start, stop)
        make_folders(self._folder)
        path = self._folder / f"{safe(channel)}{ENDING}"
        return RecordingReader(reader, path, self.schema(), columns, self._beginning)


class RecordingReader:
    """Reads a channel, and writes down what it gives."""

    def __init__(
        self,
        reader: Reader,
        path: Path,
        schema: Schema,
        columns: Sequence[str] | None,
        beginning: Beginning,
    ) -> None:
        self._reader, self._beginning = reader, beginning
        self._columns = None if columns is None else list(columns)
        self._schema = schema.to_arrow()
        self._file = pa.OSFile(str(path), "wb")
        self._writer: Any = None  # once it is known in which types the rows come
        self._written: pa.Schema | None = None
        self._lock, self._is_over = threading.Lock(), False

    def poll(self, max_rows: int, timeout: float) -> Batch:
        """What the reader gives."""
        begun = self._beginning.at()
        batch = self._reader.poll(max_rows, timeout)
        rows = batch.rows
        if rows is not None and rows.num_rows:
            due = round((self._beginning.clock.now() - begun) * SECOND)
            self._write(rows, due)
            if self._columns is not None:
                rows = rows.select(self._columns)
        if batch.ended:
            self._end()
        return Batch(rows, batch.position, batch.ended)

    def close(self) -> None:
        """End the recording of the channel."""
        self._reader.close()
        self._end()

    def _write(self, rows: pa.RecordBatch, due: int) -> None:
        times = pa.array(np.full(rows.num_rows, due))
        with self._lock:
            if not self._is_over:
                kinds = self._begin(rows.schema)
                kept = [rows[name].cast(kinds.field(name).type) for name in kinds.names[:-1]]
                self._writer.write_batch(pa.RecordBatch.from_arrays([*kept, times], schema=kinds))

    def _begin(self, kinds: pa.Schema) -> pa.Schema:
        """The columns of the file: in the types of the first rows."""
        if self._written is None:
            self._written = kinds.append(pa.field(DUE, pa.int64()))
            self._writer = pa.ipc.new_stream(self._file, self._written)
        return self._written

    def _end(self) -> None:
        with self._lock:
            if not self._is_over:
                self._is_over = True
                self._begin(self._schema)
                self._writer.close()
                self._file.close()


class RecordedSource(Located):
    """What a source gave in a run that was recorded, in the same order in every channel.

    speed: 1 gives rows when they came, 10 ten times as fast, None as fast as they are taken.

    Guarantees: each row once; a position is a number of rows. A recording that was cut off is an
    error behind its last whole batch.
    """

    replayable = False

    def __init__(
        self, folder: Path, schema: Schema, speed: float | None, beginning: Beginning
    ) -> None:
        if speed is not None and speed <= 0:
            raise DataError(f"speed={speed}: use a number above zero, or None for no pace")
        self._folder, self._schema = folder, schema
        self._speed, self._beginning = speed, beginning
        if not folder.is_dir():
            raise DataError(f"{whole_path(folder)} is not a recording of this pipeline's source")

    def __str__(self) -> str:
        pace = "as fast as possible" if self._speed is None else f"{self._speed:g} times as fast"
        return f"recording {self._folder}, {pace}"

    def schema(self) -> Schema:
        """That of the source that was recorded."""
        return self._schema

    def channels(self) -> Sequence[str]:
        """Those that were recorded."""
        return sorted(path.name for path in self._folder.glob(f"*{ENDING}"))

    def latest(self) -> dict[str, Position]:
        """Not known before it is read."""
        return dict.fromkeys(self.channels())

    @says_where
    def open(
        self,
        channel: str,
        start: int | None = None,
        stop: int | None = None,
        columns: Sequence[str] | None = None,
        predicate: Expression | None = None,
    ) -> RecordedReader:
        """Read a channel from its beginning."""
        if start or stop is not None:
            raise DataError(f"{self} is read from its beginning to its end")
        wanted = self._schema if columns is None else self._schema.select(columns)
        path = self._folder / channel
        reader = RecordedReader(path, self._schema, wanted, self._speed, self._beginning)
        reader.place = self.place
        return reader

    def committed(self, channel: str, position: int) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do: readers hold the files."""


class RecordedReader(Located):
    """Gives the rows of a channel when they are due."""

    def __init__(
        self,
        path: Path,
        schema: Schema,
        wanted: Schema,
        speed: float | None,
        beginning: Beginning,
    ) -> None:
        self._path, self._schema, self._wanted = path, schema, wanted
        self._speed, self._beginning = speed, beginning
        self._batches = self._read()
        self._rows: pa.RecordBatch | None = None  # that come next
        self._position = 0
        self._closed = threading.Event()

    @says_where
    def poll(self, max_rows: int, timeout: float) -> Batch:
        """The next rows, if they are due within `timeout` seconds."""
        if self._rows is None:
            self._rows = next(self._batches, None)
        rows = self._rows
        if rows is None:
            return Batch(None, self._position, ended=not self._closed.is_set())
        if self._closed.is_set() or not self._is_due(rows, timeout):
            return Batch(None, self._position)
        given = rows.slice(0, max_rows)
        self._rows = rows.slice(max_rows) if max_rows < rows.num_rows else None
        self._position += given.num_rows
        return Batch(given.select(list(self._wanted.names)), self._position)

    def close(self) -> None:
        """Give no more rows."""
        self._closed.set()

    def _is_due(self, rows: pa.RecordBatch, timeout: float) -> bool:
        begun = self._beginning.at()
        if self._speed is None:
            return True
        clock = self._beginning.clock
        due = begun + rows[DUE][0].as_py() / SECOND / self._speed
        clock.wait(due, timeout, self._closed)
        return clock.now() >= due and not self._closed.is_set()

    def _read(self) -> Iterator[pa.RecordBatch]:
        try:
            with pa.OSFile(str(self._path), "r") as file:
                reader = pa.ipc.open_stream(file)
                times = reader.schema.get_field_index(DUE)
                for batch in reader:
                    validated(batch, whole_path(self._path))
                    rows = conform(pa.Table.from_batches([batch]), self._schema)
                    yield from rows.append_column(DUE, batch.column(times)).to_batches()
                file.seek(file.size() - len(END_MARK))
                if file.read() != END_MARK:
                    raise DataError(f"{whole_path(self._path)} ends here: the run was killed")
        except DataError:
            raise
        except DECODING_ERRORS as error:
            raise DataError(f"{whole_path(self._path)} cannot be read: {error}") from None
