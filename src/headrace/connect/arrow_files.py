"""Rows from Arrow IPC files, of the file format (also known as Feather) and the stream format."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.plan.errors import DataError

from . import files
from .arrow import check_names
from .file_source import FileSource
from .files import Numbers, Selection, row_numbers
from .paths import DECODING_ERRORS, FilePath, open_regular, whole_path

FILE_MAGIC = b"ARROW1"  # at the beginning and the end of the file format
END_MARK, OLD_END_MARK = b"\xff\xff\xff\xff\0\0\0\0", b"\0\0\0\0"  # of the stream format


class ArrowSource(FileSource):
    """The rows of an Arrow file, of the files of a folder, or of those that a glob names.

    Files of the file format and of the stream format may be mixed; in a folder, those whose names
    end in .arrow, .arrows, .ipc or .feather are read, in the order of their names. Without a
    schema, it is that of the first file, less the columns that headrace has no type for.

    Guarantees: replayable, as long as the files stay as they are; a position is a file and a row
    in it, `{"file": "part-0.arrow", "row": 4096}`. One record batch of a file is in memory at a
    time, of the columns that are wanted.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> rows = pa.table({"n": [1, 2, 3]})
    >>> with pa.ipc.new_file(f"{folder.name}/a.arrow", rows.schema) as writer:
    ...     writer.write_table(rows)
    >>> source = ArrowSource(folder.name)
    >>> batch = source.open("files", start={"file": "a.arrow", "row": 1}).poll(1, 0.0)
    >>> batch.rows.to_pylist(), batch.position
    ([{'n': 2}], {'file': 'a.arrow', 'row': 2})
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, schema: Any = None) -> None:
        super().__init__(path, ArrowFormat(), schema=schema)


class ArrowFormat:
    """Arrow IPC files; one without its footer or its end mark is still being written."""

    kind = "arrow"
    endings: tuple[str, ...] = (".arrow", ".arrows", ".ipc", ".feather")

    def open(self, path: FilePath, name: str) -> ArrowContent:
        """Open a file."""
        return ArrowContent(path, name)

    def unfinished(self, path: Path) -> str:
        """The file format ends with a footer, the stream format with an end mark."""
        with pa.OSFile(os.fspath(path), "r") as file:
            try:
                if _is_file_format(file):
                    pa.ipc.open_file(file)
                    return ""
                return "" if _has_end_mark(file) else "an end mark"
            except DECODING_ERRORS:
                return "its end"


class ArrowContent:
    """One open file of either format."""

    def __init__(self, path: FilePath, name: str) -> None:
        self.name, self.path = name, whole_path(path)
        self._count: int | None = None
        self._file = open_regular(path)
        try:
            self.schema = self._reader().schema
            check_names(self.schema)
        except DECODING_ERRORS as error:
            self._file.close()
            raise self._unreadable(error) from None

    def count(self) -> int:
        """How many rows there are; the first column is read for it."""
        if self._count is None:
            self._count = sum(batch.num_rows for batch in self._record_batches([0]))
        return self._count

    def batches(
        self, selection: Selection, start: int, stop: int | None
    ) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
        """Pieces that share the memory of a record batch."""
        fields = [self.schema.get_field_index(name) for name in selection.columns.names]
        first = 0
        for batch in self._record_batches(fields or [0]):
            for offset in range(max(0, start - first), batch.num_rows, files.DECODED_ROWS):
                piece = batch.slice(offset, files.DECODED_ROWS)
                yield piece, row_numbers(first + offset, piece.num_rows)
            first += batch.num_rows
            if stop is not None and first >= stop:
                return
        self._count = first

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _record_batches(self, fields: list[int]) -> Iterator[pa.RecordBatch]:
        try:
            reader = self._reader(fields)
            if isinstance(reader, pa.RecordBatchFileReader):
                yield from map(reader.get_batch, range(reader.num_record_batches))
            else:
                yield from self._stream(reader)
        except DECODING_ERRORS as error:
            raise self._unreadable(error) from None

    def _stream(self, reader: pa.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
        """The batches of a stream; one that was cut off looks like an end to Arrow."""
        behind = self._file.tell()
        for batch in reader:
            behind = self._file.tell()
            yield batch
        if not _is_end_mark(self._file, behind):
            raise self._unreadable("it has no end mark, so it is not whole")

    def _reader(self, fields: Sequence[int] = ()) -> Any:
        """A reader of these fields, or of all if none is named."""
        is_file = _is_file_format(self._file)
        options = pa.ipc.IpcReadOptions(included_fields=sorted(fields), use_threads=False)
        return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(self._file, options=options)

    def _unreadable(self, error: object) -> DataError:
        return DataError(f"{self.path} cannot be read as Arrow: {error}")


def _is_file_format(file: pa.NativeFile) -> bool:
    """Does a file begin as the file format does? Leaves it at its beginning."""
    file.seek(0)
    found = file.read(len(FILE_MAGIC)) == FILE_MAGIC
    file.seek(0)
    return found


def _has_end_mark(file: pa.NativeFile) -> bool:
    """Does a stream come to an end mark, and not only to the end of the file?"""
    messages = pa.MessageReader.open_stream(file)
    behind = file.tell()
    with suppress(StopIteration):
        while messages.read_next_message() is not None:
            behind = file.tell()
    return _is_end_mark(file, behind)


def _is_end_mark(file: pa.NativeFile, at: int) -> bool:
    """Is there an end mark at this place?"""
    file.seek(at)
    return file.read(len(END_MARK)).startswith((END_MARK, OLD_END_MARK))
