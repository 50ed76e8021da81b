"""Rows from a folder that is watched: files are read as they appear, without end."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.plan.connector import Batch
from headrace.plan.errors import DataError
from headrace.plan.expressions import Expression
from headrace.plan.located import Located, says_where
from headrace.plan.schema import Schema

from .arrow import said_of_unread
from .clock import Clock, WallClock
from .file_log import Entry, FileLog
from .files import (
    CHANNEL,
    FileReader,
    Format,
    Selection,
    check_channel,
    check_columns,
    schema_of_files,
)
from .paths import files_below, local_path, not_readable, whole_path

LOG = "_headrace_files.log"
MOST_FILES = 1000  # that are looked into before the first of them is read

Place = dict[str, Any]  # see WatchedSource
NO_WATCH = (
    "nobody tells whether a file elsewhere is whole\n"
    "  fix: read what is there, without watch=True, or let Spark read it: hr.read.spark(frame)"
)


@dataclass(frozen=True)
class Watch:
    """How a folder is watched.

    interval: seconds between two looks into the folder. patience: seconds after which a file that
    is not whole and does not grow is an error. log: where to keep the log of the files that were
    found; by default in the folder itself. clock: tells the time, for tests.
    """

    interval: float = 1.0
    patience: float = 600.0
    log: str | os.PathLike[str] | None = None
    clock: Clock | None = None

    def __post_init__(self) -> None:
        if self.interval <= 0 or self.patience < 0:
            raise DataError(f"{self}: interval and patience are seconds, more than none")


class WatchedSource(Located):
    """The files of a folder, and those that appear in it (and below it) while it is watched.

    Files that are found in one look are read in the order of their names, behind all that were
    found before. What was found is kept in a log, by default `_headrace_files.log` in the folder,
    which jobs and processes that watch the folder share. A file is read once it is whole:
    names that begin with "." or "_", and those without the ending of the format (such as .tmp or
    .part), are left out; a Parquet or Arrow file without its end is looked at again later,
    and so are JSON lines that do not end with a newline. (JSON cannot tell more: write such files
    elsewhere and move them here.) A file that stays like this, or has other columns, is an error
    that names it; moved away or mended, it is no longer in the way.

    Files must not change after they were found, and names must not be used again. Those that
    were read and committed may be removed. Reading from the beginning begins with the first file of
    the log that is still there.

    Guarantees: replayable, as long as the files and the log stay. A position is a place in the
    log, `{"log": "9f3a21c4", "at": 4711, "file": "part-7.parquet", "row": 4096}`: that many rows
    of the file whose line begins at this byte of that log, and all files before it. Where `file` is
    None, it is only the files before. Its size does not depend on the number of files.
    """

    replayable = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        form: Format,
        *,
        schema: Any = None,
        watch: Watch | None = None,
    ) -> None:
        self._path, self._format = local_path(path, NO_WATCH), form
        self._folder = Path(self._path)
        if not self._folder.is_dir():
            raise DataError(f"{self._path} is not a folder, and only folders can be watched")
        names: Sequence[str] = ()
        if schema is None:
            there = sorted(files_below(self._folder, form.endings))
            whole = (name for name in there if not form.unfinished(self._folder / name))
            names = list(itertools.islice(whole, 1))
        self._schema, self._unread = schema_of_files(form, self._path, self._folder, names, schema)
        self._finder = Finder(self._folder, form, self._schema, watch or Watch())

    def __str__(self) -> str:
        return f"{self._format.kind} {self._path}, watched{said_of_unread(self._unread)}"

    @property
    def skipped(self) -> int:
        """How many lines the readers of this source have left out; one read twice counts twice."""
        return int(getattr(self._format, "skipped", 0))

    def schema(self) -> Schema:
        """The schema given, or that of the first file."""
        return self._schema

    def channels(self) -> Sequence[str]:
        """One: the files follow each other."""
        return [CHANNEL]

    @says_where
    def latest(self) -> dict[str, Place]:
        """Behind all files that are there now and are whole."""
        while self._finder.look():
            pass
        return {CHANNEL: self._finder.place(self._finder.log.end)}

    @says_where
    def open(
        self,
        channel: str,
        start: Place | None = None,
        stop: Place | None = None,
        columns: Sequence[str] | None = None,
        predicate: Expression | None = None,
    ) -> WatchedReader:
        """Read from `start` to `stop`; without a stop there is no end."""
        check_channel(self, channel)
        for place in (start, stop):
            self._finder.check(place)
        selection = Selection.of(self._schema, columns, predicate)
        reader = self._reader(selection, start, stop)
        reader.place = self.place
        return reader

    def _reader(
        self, selection: Selection, start: Place | None, stop: Place | None
    ) -> WatchedReader:
        return WatchedReader(self._finder, selection, start, stop)

    def committed(self, channel: str, position: Place) -> None:
        """Nothing to do: the files belong to someone else."""

    def close(self) -> None:
        """Nothing to do: readers hold the files."""


class Finder:
    """Finds new files, and writes those that are whole into the log."""

    def __init__(self, folder: Path, form: Format, schema: Schema, watch: Watch) -> None:
        self.folder, self.format, self.schema, self.watch = folder, form, schema, watch
        self.clock = watch.clock or WallClock()
        self.log = FileLog(Path(folder / LOG if watch.log is None else watch.log))
        self._new: list[str] = []  # seen, and not looked into yet; the last comes first
        self._growing: dict[str, _Growing] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        return Finder, (self.folder, self.format, self.schema, self.watch)

    def look(self) -> bool:
        """Look for new files; are there more, which were not looked into yet?"""
        with self._lock:
            if not self._new:
                self.log.add([])
                below = files_below(self.folder, self.format.endings)
                self._new = sorted((n for n in below if n not in self.log), reverse=True)
            some = [self._new.pop() for _ in range(min(MOST_FILES, len(self._new)))]
            found = [(name, size) for name in some if (size := self._whole(name)) is not None]
            if found:
                self.log.add(found)
            return bool(self._new)

    def place(self, at: int, file: str | None = None, row: int = 0) -> Place:
        """A position."""
        return {"log": self.log.identity, "at": at, "file": file, "row": row}

    def check(self, place: Place | None) -> None:
        """A position of another log, or of something else, is a DataError."""
        if place is None:
            return
        if "log" not in place:
            raise DataError(
                f"{place} is not a position in a watched folder; was it watched before?"
            )
        if place["log"] != self.log.identity:
            raise DataError(
                f"the position is one of log {place['log']}, and {self.log} is log "
                f"{self.log.identity}; without the log of old it is not known which files were read"
            )

    def _whole(self, name: str) -> int | None:
        """The size of a file, if it can be read; None if it is still being written."""
        path = self.folder / name
        try:
            before = path.stat()
            known = self._growing.get(name)
            same = known is not None and known.is_like(before)
            lacks = known.lacks if known and same else self.format.unfinished(path)
            if lacks:
                if known is None or not same:
                    known = _Growing(before.st_size, before.st_mtime_ns, lacks, self.clock.now())
                    self._growing[name] = known
                self._lose_patience(name, known)
                return None
            content = self.format.open(path, name)
        except FileNotFoundError:
            return None  # it was renamed or removed just now
        except OSError as error:
            raise not_readable(path, error) from None
        try:
            check_columns(content, self.schema)
        finally:
            content.close()
        self._growing.pop(name, None)
        return before.st_size

    def _lose_patience(self, name: str, growing: _Growing) -> None:
        waited = self.clock.now() - growing.since
        if waited >= self.watch.patience:
            raise DataError(
                f"{whole_path(self.folder / name)} lacks {growing.lacks}, and has not grown for "
                f"{waited:.0f} seconds; its writer may have died: finish it, or move it away"
            )


@dataclass(frozen=True)
class _Growing:
    """A file that was not whole when it had this size, and what it lacked."""

    size: int
    modified: int
    lacks: str
    since: float

    def is_like(self, found: os.stat_result) -> bool:
        return (found.st_size, found.st_mtime_ns) == (self.size, self.modified)


class WatchedReader(Located):
    """Reads the files of the log one after the other, and waits for more."""

    def __init__(
        self, finder: Finder, selection: Selection, start: Place | None, stop: Place | None
    ) -> None:
        self._finder, self._selection, self._stop = finder, selection, stop
        self._position = start
        self._begun = start is not None
        finder.log.add([])  # so that it is there
        self._at = finder.log.first if start is None else start["at"]
        self._entries = finder.log.entries(self._at)
        self._entry: Entry | None = None  # the file that is being read
        self._reader: FileReader | None = None
        self._next_look = finder.clock.now()
        self._closed = threading.Event()

    @says_where
    def poll(self, max_rows: int, timeout: float) -> Batch:
        """The next rows, at most to the end of a piece; waits for a file `timeout` seconds long."""
        deadline = time.monotonic() + timeout
        while not self._closed.is_set():
            reader = self._reader or self._open_next()
            if reader is None:
                if self._is_done():
                    return Batch(None, self._stop, ended=True)
                if not self._look(deadline):
                    break
                continue
            batch = reader.poll(max_rows, max(0.0, deadline - time.monotonic()))
            if batch.ended:
                self._finish_file()
                continue
            if batch.position is not None:
                self._position = self._finder.place(self._at, **batch.position)
            return Batch(batch.rows, self._position)
        return Batch(None, self._position)

    def close(self) -> None:
        """Give no more rows; a poll that waits comes back."""
        self._closed.set()

    def _is_done(self) -> bool:
        stop = self._stop
        if stop is None:
            return False
        return self._at > stop["at"] or (self._at == stop["at"] and stop["file"] is None)

    def _open_next(self) -> FileReader | None:
        """A reader of the next file of the log; None if there is none (yet)."""
        while not self._is_done():
            entry = next(self._entries, None)
            if entry is None:
                self._entries = self._finder.log.entries(self._at)
                if self._stop is not None:
                    raise DataError(f"{self._finder.log} ends before the place to read up to")
                return None
            if self._is_there(entry):
                self._begun, self._entry = True, entry
                self._reader = FileReader(
                    self._finder.format,
                    self._finder.folder,
                    [entry.name],
                    self._selection,
                    self._inside(entry, self._position),
                    self._inside(entry, self._stop),
                )
                return self._reader
            self._at = entry.behind
        return None

    def _is_there(self, entry: Entry) -> bool:
        """Is a file there, as it was when it was found? If it must be, and is not: a DataError."""
        try:
            size = (self._finder.folder / entry.name).stat().st_size
        except FileNotFoundError:
            if not self._begun:
                return False
            raise DataError(
                f"{whole_path(self._finder.folder / entry.name)} is gone, and was to be read "
                "(again); put it back"
            ) from None
        if size != entry.size:
            raise DataError(
                f"{whole_path(self._finder.folder / entry.name)} had {entry.size} bytes when it "
                f"was found, and has {size} now; files of a watched folder must not change: write "
                "a new one, or move it here when it is whole"
            )
        return True

    def _inside(self, entry: Entry, place: Place | None) -> Place | None:
        """The part of a position that speaks of a row of a file, if it is this file."""
        if place is None or place["file"] is None or place["at"] != entry.at:
            return None
        if place["file"] != entry.name:
            raise DataError(
                f"{self._finder.log} has {entry.name} at byte {entry.at}, and the position has "
                f"{place['file']}; it is not the log of old"
            )
        return {"file": place["file"], "row": place["row"]}

    def _finish_file(self) -> None:
        assert self._entry is not None
        self._at = self._entry.behind
        self._position = self._finder.place(self._at)
        self._entry = self._reader = None

    def _look(self, deadline: float) -> bool:
        """Look for files when it is time to; False where that is too late, or none was there."""
        clock = self._finder.clock
        if clock.now() < self._next_look:
            clock.wait(self._next_look, max(0.0, deadline - time.monotonic()), self._closed)
        if clock.now() < self._next_look:
            return False
        before = self._finder.log.end
        more = self._finder.look()
        self._next_look = clock.now() + (0.0 if more else self._finder.watch.interval)
        return more or self._finder.log.end > before or time.monotonic() < deadline
