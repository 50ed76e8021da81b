"""A source and a sink that fail now and then, as disks and networks do."""

import os
from pathlib import Path

from headrace.connect.memory import MemorySource
from headrace.connect.parquet_sink import ParquetSink


def first_time(folder, name) -> bool:
    """True for the first that asks under a name, in whichever process."""
    try:
        os.close(os.open(Path(folder, name), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class FailingSource(MemorySource):
    """In every batch a task fails when it has read all its rows."""

    def __init__(self, data, marks):
        super().__init__(data)
        self._marks = marks

    def open(self, channel, start=None, stop=None, columns=None, predicate=None):
        reader = super().open(channel, start, stop, columns, predicate)
        if stop is None or not first_time(self._marks, f"read-{channel}-{stop}"):
            return reader
        return _FailingReader(reader, stop)


class _FailingReader:
    def __init__(self, reader, stop):
        self._reader, self._stop, self.close = reader, stop, reader.close

    def poll(self, max_rows, timeout):
        batch = self._reader.poll(max_rows, timeout)
        if batch.ended or batch.position == self._stop:
            raise OSError("the network is gone")
        return batch


class FailingSink(ParquetSink):
    """In every batch a task fails when it has staged rows."""

    def __init__(self, path, marks):
        super().__init__(path)
        self._marks = marks

    def write(self, rows, batch, attempt):
        message = super().write(rows, batch, attempt)
        if first_time(self._marks, f"write-{Path(self._path).name}-{batch}"):
            raise OSError("the disk is gone")
        return message
