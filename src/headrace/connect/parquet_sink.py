"""Rows into a folder of Parquet files, each batch published by one rename."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.plan.errors import DataError
from headrace.plan.schema import Schema
from headrace.plan.types import from_arrow

from .parquet_files import local_path

STAGING = "_staging"  # readers of Parquet folders leave out names that begin with "_"
COMMIT = ".commit"  # where attempts are put together; no attempt can have this name (_safe)
COMPRESSIONS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
GROUP_ROWS = 131_072
DAY = 86_400.0

Message = dict[str, Any]  # {"attempt": its name, "rows": how many it had staged by then}


class ParquetSink:
    """A folder of Parquet files, one for each batch that was committed.

    An attempt stages its rows in `_staging/<batch>/<attempt>/rows.parquet`; a commit renames that
    file to `part-<batch>.parquet`. Where several attempts wrote parts of one batch, they become
    a folder of that name, again by one rename. What other readers see is therefore always whole
    batches. (Spark reads such folders with `recursiveFileLookup`.)

    Guarantees: exactly-once, as long as a batch has one name for ever: a batch that is there is
    not published again. Jobs that write to one folder need names of batches that differ. Staged
    rows of a batch are removed with its commit, and those that nobody committed for a day when
    the folder is next opened.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> sink = ParquetSink(folder.name)
    >>> sink.open(Schema.of({"n": int}))
    >>> message = sink.write(pa.record_batch({"n": [1, 2]}), "7", "first")
    >>> sink.commit("7", [message])
    >>> sink.commit("7", [message])
    >>> [path.name for path in Path(folder.name).glob("*.parquet")]
    ['part-7.parquet']
    >>> folder.cleanup()
    """

    exactly_once = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        compression: str = "zstd",
        keep_staged: float = DAY,
    ) -> None:
        if compression not in COMPRESSIONS:
            raise DataError(f"compression={compression!r}: use one of {', '.join(COMPRESSIONS)}")
        self._path = local_path(path)
        self._compression, self._keep_staged = compression, keep_staged
        self._folder = Path(self._path)
        self._arrow: pa.Schema | None = None
        self._open: dict[tuple[str, str], _StagedFile] = {}
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return f"parquet {self._path}"

    def __reduce__(self) -> Any:
        return _rebuilt, (self._path, self._compression, self._keep_staged, self._arrow)

    def open(self, schema: Schema) -> None:
        """Make the folder and remove old leftovers; committed files must have the same columns."""
        self._arrow = schema.to_arrow()
        if not len(schema):
            raise DataError(f"{self}: a Parquet file needs at least one column")
        try:
            (self._folder / STAGING).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"{self}: cannot make this folder: {error.strerror}") from None
        self._check_committed(schema)
        self._remove_leftovers()

    def write(self, rows: pa.RecordBatch, batch: str, attempt: str) -> Message:
        """Add rows to the file of an attempt."""
        if self._arrow is None:
            raise DataError(f"{self}: open() comes before write()")
        with self._lock:
            file = self._open.get((batch, attempt))
            if file is None:
                path = self._staged(batch, attempt)
                file = self._open[batch, attempt] = _StagedFile(
                    path, self._arrow, self._compression
                )
            file.add(rows)
            return {"attempt": attempt, "rows": file.rows}

    def commit(self, batch: str, messages: Sequence[Message]) -> None:
        """Publish what the attempts of the messages staged; nothing if that was done before."""
        staged: dict[str, int] = {}
        for message in messages:
            name = message["attempt"]
            staged[name] = max(staged.get(name, 0), message["rows"])
        with self._lock:
            for key in [key for key in self._open if key[0] == batch]:
                self._finish(key, whole=key[1] in staged)
            target = self._published(batch)
            if staged and not target.exists():
                source = self._one_source(batch, staged)
                os.rename(source, target)
                _sync(self._folder)
            shutil.rmtree(self._folder / STAGING / _safe(batch), ignore_errors=True)

    def abort(self, batch: str, attempt: str) -> None:
        """Remove what an attempt has staged."""
        with self._lock:
            self._finish((batch, attempt), whole=False)
            shutil.rmtree(self._staged(batch, attempt).parent, ignore_errors=True)
            with suppress(OSError):  # other attempts are there, or nothing was
                self._staged(batch, attempt).parent.parent.rmdir()

    def close(self) -> None:
        """Finish the files that are being written; they stay staged until a commit."""
        with self._lock:
            for key in list(self._open):
                self._finish(key, whole=True)

    def _finish(self, key: tuple[str, str], *, whole: bool) -> None:
        file = self._open.pop(key, None)
        if file is not None:
            file.finish(whole)

    def _staged(self, batch: str, attempt: str) -> Path:
        return self._folder / STAGING / _safe(batch) / _safe(attempt) / "rows.parquet"

    def _published(self, batch: str) -> Path:
        return self._folder / f"part-{_safe(batch)}.parquet"

    def _one_source(self, batch: str, staged: dict[str, int]) -> Path:
        """The file, or the folder of files, that holds exactly what was staged."""
        if len(staged) == 1:
            ((attempt, rows),) = staged.items()
            return self._whole(self._staged(batch, attempt), batch, rows)
        folder = self._folder / STAGING / _safe(batch) / COMMIT
        folder.mkdir(parents=True, exist_ok=True)
        parts = {attempt: folder / f"rows-{_safe(attempt)}.parquet" for attempt in staged}
        for attempt, rows in staged.items():
            if not parts[attempt].exists():  # it does where a commit died half way
                path = self._whole(self._staged(batch, attempt), batch, rows)
                os.rename(path, parts[attempt])
        for path in set(folder.iterdir()) - set(parts.values()):
            path.unlink()  # of a commit that died, with other attempts
        _sync(folder)
        return folder

    def _whole(self, path: Path, batch: str, rows: int) -> Path:
        """The path, if the file there has all its rows."""
        where = f"{self}: batch {batch!r}: {path.relative_to(self._folder)}"
        try:
            found = pq.read_metadata(path).num_rows
        except FileNotFoundError:
            raise DataError(f"{where} is gone, and was staged before") from None
        except (pa.ArrowException, OSError):
            raise DataError(f"{where} is not finished; close the sink that wrote it") from None
        if found != rows:
            raise DataError(f"{where} has {found} rows, and {rows} were staged")
        return path

    def _check_committed(self, schema: Schema) -> None:
        for path in self._committed():
            try:
                found = pq.read_schema(path)
            except (pa.ArrowException, OSError) as error:
                raise DataError(f"{self}: {path.name} cannot be read: {error}") from None
            there = {field.name: from_arrow(field.type) for field in found}
            for field in schema:
                other = there.pop(field.name, None)
                if other is None or other.name != field.type.name:
                    said = "no such column" if other is None else str(other)
                    raise DataError(
                        f"{self}: column {field.name!r} is {field.type.required}, and in "
                        f"{path.name}, which is there already, {said}; write to another folder"
                    )
            if there:
                raise DataError(
                    f"{self}: {path.name}, which is there already, has a column "
                    f"{next(iter(there))!r} more; write to another folder"
                )
            return  # all of them were checked against one another when they were written

    def _committed(self) -> Iterator[Path]:
        for path in sorted(self._folder.glob("part-*.parquet")):
            yield from sorted(path.glob("*.parquet")) if path.is_dir() else [path]

    def _remove_leftovers(self) -> None:
        """Remove what was staged for batches that are published, or that nobody came back for."""
        published = {
            path.stem.removeprefix("part-") for path in self._folder.glob("part-*.parquet")
        }
        for folder in (self._folder / STAGING).iterdir():
            newest = max(
                (_modified(path) for path in [folder, *folder.rglob("*")]), default=time.time()
            )
            if folder.name in published or time.time() - newest > self._keep_staged:
                shutil.rmtree(folder, ignore_errors=True)


class _StagedFile:
    """A file that is being written; small batches become row groups of a useful size."""

    def __init__(self, path: Path, schema: pa.Schema, compression: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._schema = path, schema
        # Texts repeat; to look for repeated numbers costs more than all the rest of the writing.
        texts = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_binary(f.type)]
        options: Any = {"compression": compression, "use_dictionary": texts or False}
        self._writer = pq.ParquetWriter(path, schema, **options)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self.rows = 0

    def add(self, rows: pa.RecordBatch) -> None:
        if not rows.schema.equals(self._schema):
            rows = rows.select(self._schema.names).cast(self._schema)
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self.rows += rows.num_rows
        if self._waiting_rows >= GROUP_ROWS:
            self._flush()

    def finish(self, whole: bool) -> None:
        """Close the file; what is not needed whole need not be safe on the disk either."""
        if whole:
            self._flush()
        self._writer.close()
        if whole:
            _sync(self._path)

    def _flush(self) -> None:
        if self._waiting_rows:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(table, row_group_size=GROUP_ROWS)
        self._waiting, self._waiting_rows = [], 0


def _safe(name: str) -> str:
    """An id as part of a file name; different ids stay different."""
    return quote(name, safe="").replace(".", "%2E").replace("~", "%7E") or "%"


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rebuilt(path: str, compression: str, keep_staged: float, arrow: pa.Schema | None) -> Any:
    sink = ParquetSink(path, compression=compression, keep_staged=keep_staged)
    sink._arrow = arrow
    return sink
