"""The log of a watched folder: which files were found in it, in which order.

The first line names the log, every other line one file, its size when it was found, and a checksum
of both:

    {"log": "9f3a21c4"}
    ["part-0.parquet", 4096, "f1b52a0c"]

Lines are only ever added, so the place of a line in the log stands for the file and for all those
before it, however many there are. Several processes may add to one log.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import uuid
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from headrace.plan.errors import DataError

HEADER = b'{"log": "'  # how a log begins


@dataclass(frozen=True)
class Entry:
    """A file in the log; its line lies between two places."""

    name: str
    size: int
    at: int
    behind: int


class FileLog:
    """A log in a file, made when it is first needed.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> log = FileLog(Path(folder.name) / "log")
    >>> log.add([("b.json", 10), ("a.json", 20)])
    >>> log.add([("a.json", 20), ("c.json", 30)])
    >>> [entry.name for entry in log.entries(log.first)]
    ['b.json', 'a.json', 'c.json']
    >>> "a.json" in log, "d.json" in log
    (True, False)
    >>> folder.cleanup()
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: set[str] = set()
        self._identity = ""
        self.first = 0  # the place of the first file
        self.end = 0  # the place behind all that was seen here so far

    def __reduce__(self) -> Any:
        return FileLog, (self._path,)  # others read it for themselves

    def __str__(self) -> str:
        return os.fspath(self._path)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    @property
    def identity(self) -> str:
        """The name that a log gets when it is made, and keeps."""
        if not self._identity:
            self.add([])
        return self._identity

    def add(self, found: Sequence[tuple[str, int]]) -> None:
        """Add the files that are not in the log, in this order; when it returns, they are safe."""
        with self._locked() as file:
            self._take(file)
            fresh = [(name, size) for name, size in found if name not in self._names]
            if fresh or not self._identity:
                self._check_rest(file)
                file.truncate(self.end)  # half a line, of a process that died
                file.seek(self.end)
                if not self._identity:
                    file.write(_line({"log": uuid.uuid4().hex[:8]}))
                file.write(b"".join(_line([*entry, _checksum(*entry)]) for entry in fresh))
                file.flush()
                os.fsync(file.fileno())
                self._take(file)

    def entries(self, start: int, stop: int | None = None) -> Iterator[Entry]:
        """The files between two places, or to what is now the end."""
        with self._opened(os.O_RDONLY) as file:
            file.seek(start)
            at = start
            while stop is None or at < stop:
                line = file.readline()
                if not line.endswith(b"\n"):
                    return
                name, size = self._parsed(line, at)
                yield Entry(name, size, at, at + len(line))
                at += len(line)

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        with self._opened(os.O_RDWR | os.O_CREAT) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # given back when the file is closed
            yield file

    def _opened(self, flags: int) -> BinaryIO:
        """The file itself: a link in the folder could lead to any other one."""
        try:
            descriptor = os.open(self._path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except OSError as error:
            said = "it is a link" if error.errno == errno.ELOOP else error.strerror
            raise DataError(
                f"{self._path}, the log of the files that were found, cannot be written: {said}; "
                "name another with watch=read.Watch(log=...)"
            ) from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise self._foreign()
        return open(descriptor, "r+b" if flags & os.O_RDWR else "rb")

    def _foreign(self) -> DataError:
        return DataError(f"{self._path} is not the log of a watched folder; name another")

    def _check_rest(self, file: BinaryIO) -> None:
        """What is to be overwritten must be half a line of a log, and of nothing else."""
        file.seek(self.end)
        rest = file.read()
        begins = HEADER if self.end == 0 else b"["
        if not rest.startswith(begins) and not begins.startswith(rest):
            raise self._foreign()

    def _take(self, file: BinaryIO) -> None:
        """Learn what has been added since the last time."""
        file.seek(self.end)
        for line in file:
            if not line.endswith(b"\n"):
                break
            if self.end == 0:
                self._identity = self._header(line)
                self.first = len(line)
            else:
                self._names.add(self._parsed(line, self.end)[0])
            self.end += len(line)

    def _header(self, line: bytes) -> str:
        try:
            found = json.loads(line)
            if isinstance(found, dict) and isinstance(found.get("log"), str):
                return str(found["log"])
        except (ValueError, RecursionError):
            pass
        raise self._foreign()

    def _parsed(self, line: bytes, at: int) -> tuple[str, int]:
        try:
            name, size, checksum = json.loads(line)
        except (ValueError, TypeError, RecursionError):
            name, size, checksum = None, None, None
        known = isinstance(name, str) and isinstance(size, int) and size >= 0
        if not known or checksum != _checksum(name, size):
            raise DataError(f"{self._path} has no file at byte {at}; it is not what it was")
        if not _is_inside(name):
            raise DataError(
                f"{self._path} names a file outside of the folder at byte {at}, {name!r}; it is "
                "not what it was"
            )
        return name, size


def _checksum(name: str, size: int) -> str:
    return f"{zlib.crc32(json.dumps([name, size]).encode()):08x}"


def _is_inside(name: str) -> bool:
    """Is this the name of something below a folder, whatever links there are?"""
    return "\0" not in name and not {"", ".", ".."} & set(name.split("/"))


def _line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"
