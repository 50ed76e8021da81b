"""Temporary folders that do not outlive a process for long, not even one that was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

LOCK = "headrace.lock"


def locked(folder: Path) -> IO[str] | None:
    """Hold a folder: the open file is the lock. None if another process holds it."""
    file = open(folder / LOCK, "a+")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def new_folder(prefix: str) -> Path:
    """A new temporary folder; those of processes that died are removed.

    Who makes one holds it with `locked`, and removes it in the end.

    >>> import shutil
    >>> left = new_folder("headrace-doctest-")
    >>> locked(left).close()  # as when its process dies
    >>> other = new_folder("headrace-doctest-")
    >>> left.exists(), other.exists()
    (False, True)
    >>> shutil.rmtree(other)
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        _remove_if_left(folder)
    return Path(tempfile.mkdtemp(prefix=prefix))


def _remove_if_left(folder: Path) -> None:
    try:
        if folder.stat().st_uid != os.getuid() or not (folder / LOCK).exists():
            return  # of another user, or so new that it is not held yet
        lock = locked(folder)
    except OSError:  # it was removed just now
        return
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()
