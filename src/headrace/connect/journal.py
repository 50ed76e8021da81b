"""Lines that nobody can send again, kept in a folder: from there they are read, and read again.

What comes from a connection is gone once it was received. A *recorder* writes it into files of a
folder, the *journal*; the source watches that folder like any other (`watch`), so its positions
name what was read, on every engine.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headrace.plan.connector import Batch
from headrace.plan.located import says_where

from .files import Format, Selection
from .pump import Pump
from .staging import make_folders, sync
from .watch import Finder, Place, Watch, WatchedReader, WatchedSource

FILE_LINES = 50_000  # of one file, at most
INTERVAL = 0.05  # seconds for which lines are gathered, and between two looks for files

Lines = Callable[[], Iterator[bytes]]  # opens a connection


class JournaledSource(WatchedSource):
    """Lines of a connection, by way of a journal.

    Guarantees: replayable from the moment that lines are in the journal, at most some 50 ms after
    they came; what a sender has sent before that, or while nobody was connected, is lost if the
    process dies. The connection is opened by the first process that asks for rows (on Spark the
    driver), once. Files of the journal may be removed once their rows were committed.
    """

    def __init__(self, said: str, lines: Lines, folder: str, form: Format, *, schema: Any) -> None:
        make_folders(Path(folder))
        super().__init__(folder, form, schema=schema, watch=Watch(interval=INTERVAL))
        self._said, self._ending = said, form.endings[0]
        self._recorder: Recorder | None = Recorder(lines, Path(folder), self._ending)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_recorder": None}  # tasks read what the driver records

    def __str__(self) -> str:
        return f"{self._said}, journal {self._path}"

    @says_where
    def latest(self) -> dict[str, Place]:
        """Behind all lines that are in the journal now."""
        if self._recorder is not None:
            self._recorder.start()
            self._recorder.check()
        return super().latest()

    def _reader(
        self, selection: Selection, start: Place | None, stop: Place | None
    ) -> WatchedReader:
        """Without a stop, to the end of the connection."""
        if stop is not None or self._recorder is None:
            return super()._reader(selection, start, stop)
        self._recorder.start()
        return JournalReader(self._recorder, self._finder, selection, start)

    def close(self) -> None:
        """End the connection."""
        if self._recorder is not None:
            self._recorder.close()


class JournalReader(WatchedReader):
    """Reads the journal while it grows, to its end."""

    def __init__(
        self, recorder: Recorder, finder: Finder, selection: Selection, start: Place | None
    ) -> None:
        super().__init__(finder, selection, start, None)
        self._recorder = recorder

    @says_where
    def poll(self, max_rows: int, timeout: float) -> Batch:
        """The next rows; what the connection has raised comes behind all lines before it."""
        is_over = self._recorder.is_over  # before the look: no file comes after it
        batch = super().poll(max_rows, 0.0 if is_over else timeout)
        if batch.rows is not None or batch.ended or not is_over or self._closed.is_set():
            return batch
        while self._finder.look():
            pass
        batch = super().poll(max_rows, 0.0)
        if batch.rows is None and not self._closed.is_set():
            self._recorder.check()
            return Batch(None, batch.position, ended=True)
        return batch


class Recorder:
    """Writes the lines of a connection into files, on a thread of its own."""

    def __init__(self, lines: Lines, folder: Path, ending: str) -> None:
        self._lines, self._folder, self._ending = lines, folder, ending
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._pump: Pump | None = None
        self.is_over = False  # there will be no more files

    def start(self) -> None:
        """Connect and record, if that was not done before."""
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
                self._thread.start()

    def check(self) -> None:
        """Raise what has ended the connection, if it was an error."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """End the connection; what was received is kept."""
        self._stopped.set()
        with self._lock:
            if self._pump is not None:
                self._pump.close()

    def _run(self) -> None:
        try:
            pump = Pump(self._lines())
            with self._lock:
                self._pump = pump
            while not self._stopped.is_set() and not pump.has_ended:
                lines = pump.take(FILE_LINES, INTERVAL, self._stopped)
                if lines:
                    self._write(lines)
                elif pump.failure is not None:
                    raise pump.failure
        except BaseException as error:  # whoever reads the journal is to have it
            self._failure = error
        finally:
            self.is_over = True

    def _write(self, lines: list[bytes]) -> None:
        name = f"{time.time_ns():020}-{uuid.uuid4().hex[:8]}{self._ending}"
        hidden = self._folder / f".{name}"
        with open(hidden, "wb") as file:
            file.writelines(line + b"\n" for line in lines)
        sync(hidden)
        os.rename(hidden, self._folder / name)
        sync(self._folder)
