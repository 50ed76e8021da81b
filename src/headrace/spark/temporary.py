"""Temporary folders that do not outlive a process for long, not even one that was killed."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

LOCK = "headrace.lock"


def locked(folder: Path) -> IO[str] | None:
    """Hold a folder: the open file is the lock. None if another process holds it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    file = open(os.open(folder / LOCK, flags, 0o600), "a+")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:  # there are no locks here
        file.close()
        raise
    return file


def new_folder(prefix: str, inside: Path | None = None) -> Path:
    """A new folder, for a while and for this user alone; those of processes that died are removed.

    Who makes one holds it with `locked`, and removes it in the end.

    >>> import shutil
    >>> left = new_folder("headrace-doctest-")
    >>> locked(left).close()  # as when its process dies
    >>> other = new_folder("headrace-doctest-")
    >>> left.exists(), other.exists()
    (False, True)
    >>> shutil.rmtree(other)
    """
    place = inside or Path(tempfile.gettempdir())
    for folder in place.glob(f"{prefix}*"):
        _remove_if_left(folder)
    return Path(tempfile.mkdtemp(prefix=prefix, dir=place))


def folder_of_process(prefix: str, inside: Path | None = None) -> Path:
    """A new folder that is there as long as this process is.

    >>> folder_of_process("headrace-doctest-").is_dir()
    True
    """
    folder = new_folder(prefix, inside)
    lock, process = locked(folder), os.getpid()

    def remove() -> None:
        if os.getpid() == process:  # a child that ends must leave it alone
            shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            lock.close()

    atexit.register(remove)
    return folder


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
