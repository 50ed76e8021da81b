"""The files of a checkpoint: private, written in one step, safe on the disk, sealed by a digest.

Whoever can write here decides what a job computes, and what its tasks run: folders and files
belong to the user alone. What is read is what was written, to the last bit, or a StateError.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from headrace.connect.staging import make_folders, sync
from headrace.plan.errors import StateError

FOLDER_MODE, FILE_MODE = 0o700, 0o600
WAY_OUT = (
    "restore the whole checkpoint folder, which all machines must see, or begin with a new one"
)


def make_folder(path: Path, *, lasting: bool = True) -> None:
    """Make a folder, and those above it, for this user alone; what is there stays as it is."""
    make_folders(path, FOLDER_MODE, lasting=lasting)


def write_file(
    path: Path, content: bytes, *, lasting: bool = True, behind: Sequence[Path] = ()
) -> None:
    """Write a file in one rename; with `lasting` it outlives a machine that crashes.

    behind: other files of the folder that must be safe when this one appears.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as made:
    ...     write_file(Path(made, "new", "file"), b"rows")
    ...     oct(Path(made, "new", "file").stat().st_mode), Path(made, "new", "file").read_bytes()
    ('0o100600', b'rows')
    """
    make_folder(path.parent, lasting=lasting)
    waiting = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    write_new(waiting, content)
    if lasting:
        _sync_all([*behind, waiting])
    os.replace(waiting, path)
    if lasting:
        sync(path.parent)


def write_new(path: Path, content: bytes) -> None:
    """Write a file whose name nobody else uses; it is not yet safe on the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, FILE_MODE)
    with open(descriptor, "wb") as file:
        file.write(content)


def _sync_all(paths: Sequence[Path]) -> None:
    """All at a time: a disk takes hardly longer for them than for one."""
    if len(paths) == 1:
        sync(paths[0])
        return
    with ThreadPoolExecutor(len(paths)) as threads:
        list(threads.map(sync, paths))


# ---- sealed by a digest --------------------------------------------------------------------------


def write_sealed(
    path: Path, content: Any, *, lasting: bool = True, behind: Sequence[Path] = ()
) -> None:
    """Write JSON with its digest, in one rename; else as `write_file`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as made:
    ...     write_sealed(Path(made, "list"), {"a": 1})
    ...     read_sealed(Path(made, "list"))
    {'a': 1}
    """
    made = {"digest": _digest(content), "content": content}
    write_file(path, json.dumps(made).encode(), lasting=lasting, behind=behind)


def read_sealed(path: Path) -> Any:
    """What `write_sealed` wrote; a StateError if it is anything else, or not there."""
    try:
        found = json.loads(path.read_bytes())
        if _digest(found["content"]) == found["digest"]:
            return found["content"]
    except FileNotFoundError:
        raise lacking(path) from None
    except (ValueError, KeyError, TypeError, RecursionError):  # half of it, or something else
        pass
    raise damaged(path, "it is not what was written")


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def lacking(path: Path) -> StateError:
    """A file of the checkpoint is not there."""
    return StateError(f"the checkpoint lacks {path}\n  fix: {WAY_OUT}")


def damaged(path: Path, why: str) -> StateError:
    """A file of the checkpoint is not what it was."""
    return StateError(f"{path}, a part of the checkpoint, is damaged: {why}\n  fix: {WAY_OUT}")


# ---- whose they are ------------------------------------------------------------------------------


def check_owner(path: Path) -> None:
    """A folder or file that others own, or could change, is a StateError.

    >>> check_owner(Path("/"))
    >>> check_owner(Path("/tmp"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    headrace.plan.errors.StateError: /tmp can be written by everybody on this machine...
    """
    found = path.stat()
    if found.st_uid not in (os.getuid(), 0):
        raise StateError(
            f"{path} belongs to another user (number {found.st_uid}), who could let this job run "
            "whatever they like\n  fix: give a folder of your own"
        )
    if found.st_mode & stat.S_IWOTH:
        raise StateError(
            f"{path} can be written by everybody on this machine, who could let this job run "
            f"whatever they like\n  fix: chmod o-w {path}, or give a folder inside of it"
        )


def check_file_system(folder: Path) -> None:
    """A folder whose file system does not do what a checkpoint rests on is a StateError."""
    probe = folder / f"probe-{uuid.uuid4().hex}"
    try:
        for content in (b"one", b"other"):  # the second time, it replaces a file
            write_file(probe, content)
        kept = probe.read_bytes()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or errno.errorcode.get(error.errno or 0, "unknown")
        raise unfit(folder, reason) from None
    if kept != b"other":
        raise unfit(folder, "a file that was replaced reads as before")


def unfit(folder: Path, why: str) -> StateError:
    """This place cannot hold a checkpoint."""
    return StateError(
        f"the checkpoint {folder} lies on a file system that cannot hold one: {why}\n"
        "  fix: give a folder of a file system with locks, renames and syncs (a local disk, NFS "
        "version 4); mounted object stores are not"
    )
