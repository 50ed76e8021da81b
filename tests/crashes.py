"""Where processes of the tests have crashed: `conftest.py` prints it at the end of the run, behind
what the other processes have said meanwhile."""

from __future__ import annotations

import faulthandler
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

FOLDER = "crashes"  # what the processes are told it by
MOST_LINES = 25  # of the thread that crashed,
LINES_OF_OTHERS = 4  # and of each other one


def new_folder() -> str:
    """A folder for what the processes of a run leave."""
    return tempfile.mkdtemp(prefix="headrace-tests-")


def note_in(folder: str, process: str) -> IO[str]:
    """From now on a crash of this process is noted in the folder. The file must stay open."""
    file = Path(folder, process).open("w")
    faulthandler.enable(file=file)
    return file


def summary(folder: str) -> Iterator[str]:
    """What was noted, process by process."""
    for file in sorted(Path(folder).iterdir()):
        noted = file.read_text()
        if noted:
            yield f"{file.name}:"
            yield from told(noted)
        file.unlink()
    Path(folder).rmdir()


def told(noted: str) -> Iterator[str]:
    """What happened, the thread that crashed, and where the others were at that moment."""
    parts = [part.splitlines() for part in noted.split("\n\n")]
    threads = [part for part in parts[1:] if part and "hread 0x" in part[0]]
    threads.sort(key=lambda part: not part[0].startswith("Current"))
    yield from parts[0]
    for thread in threads:
        most = MOST_LINES if thread[0].startswith("Current") else 1 + LINES_OF_OTHERS
        yield from thread[:most]
