"""Which files a path names."""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from headrace.plan.errors import DataError

# What Arrow raises of files that it cannot make sense of; some names in them are no texts.
DECODING_ERRORS = (pa.ArrowException, OSError, ValueError, OverflowError)


def without_credentials(path: str) -> str:
    """A path or URL as it may be shown.

    >>> without_credentials("s3://key:secret@bucket/rows?token=x")
    's3://bucket/rows'
    """
    if not is_url(path):
        return path
    return re.sub(r"(?<=://)[^/@]*@", "", path).partition("?")[0]


def is_url(text: str) -> bool:
    """Does a path name something elsewhere? Hadoop's own way of writing has but one slash.

    >>> [is_url(text) for text in ("s3://bucket/x", "dbfs:/x", "hdfs:/x", "/data/a:b", "c:/x")]
    [True, True, True, False, False]
    """
    return "://" in text or re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", text) is not None


def local_path(path: str | os.PathLike[str]) -> str:
    """A path as text; a DataError where it is a URL."""
    text = os.fspath(path)
    if is_url(text):
        raise DataError(f"{without_credentials(text)} is a URL; only local paths can be used")
    return text


def whole_path(path: str | os.PathLike[str]) -> str:
    """A path as errors say it: the same on every engine, whatever folder a process is in.

    >>> whole_path("/data/./rows.json")
    '/data/rows.json'
    """
    return os.path.abspath(path)


def open_regular(path: str | os.PathLike[str]) -> pa.OSFile:
    """Open a file for Arrow; a DataError where it cannot be read, or is a pipe or a device."""
    check_regular(path)
    try:
        return pa.OSFile(os.fspath(path), "r")
    except OSError as error:
        raise not_readable(path, error) from None


def open_bytes(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file to read its bytes; a DataError as for `open_regular`."""
    check_regular(path)
    try:
        return open(path, "rb")
    except OSError as error:
        raise not_readable(path, error) from None


def check_regular(path: str | os.PathLike[str]) -> None:
    """What is not a file that can be read again is a DataError: a pipe would wait for ever."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise not_readable(path, error) from None
    if not stat.S_ISREG(mode):
        raise DataError(f"{whole_path(path)} is not a regular file, and cannot be read again")


def not_readable(path: str | os.PathLike[str], error: OSError) -> DataError:
    """What to say of a file or folder that cannot be opened."""
    if isinstance(error, FileNotFoundError):
        return DataError(f"{whole_path(path)} is gone; it was there before")
    return DataError(f"{whole_path(path)} cannot be read: {error.strerror or error}")


def find_files(path: str, endings: Sequence[str]) -> tuple[Path, list[str]]:
    """The folder that names are relative to, and the names of the files, sorted.

    A folder stands for the regular files in it and below it whose names have one of the endings.
    Neither it nor a glob finds what has a part that begins with "_" or "." in its path: what other
    writers have not finished. A folder that cannot be read is a DataError.
    """
    found = Path(path)
    if found.is_file():
        return found.parent, [found.name]
    if found.is_dir():
        return found, sorted(files_below(found, endings))
    if glob.has_magic(path):
        fixed = list(itertools.takewhile(lambda part: not glob.has_magic(part), found.parts))
        base = Path(*fixed)
        return base, sorted(set(_matches(base, "", found.parts[len(fixed) :])))
    if found.exists():
        check_regular(found)
    raise DataError(f"there is no file or folder {path}")


def files_below(folder: Path, endings: Sequence[str]) -> Iterator[str]:
    """The names, relative to a folder, of the files in it and below it that are not hidden."""
    wanted, waiting = tuple(endings), [""]
    while waiting:
        inside = waiting.pop()
        for entry in _entries(folder, inside):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{inside}{entry.name}/")
            elif entry.name.endswith(wanted) and entry.is_file():
                yield inside + entry.name


def _matches(folder: Path, inside: str, parts: Sequence[str]) -> Iterator[str]:
    """The names of the files that match the parts of a glob, some of them more than once."""
    first, rest = parts[0], parts[1:]
    anywhere = first == "**"
    if anywhere and rest:
        yield from _matches(folder, inside, rest)
    for entry in _entries(folder, inside):
        if not anywhere and not fnmatch.fnmatchcase(entry.name, first):
            continue
        if not rest and entry.is_file():
            yield inside + entry.name
        elif (anywhere or rest) and entry.is_dir(follow_symlinks=not anywhere):
            yield from _matches(folder, f"{inside}{entry.name}/", parts if anywhere else rest)


def _entries(folder: Path, inside: str) -> list[os.DirEntry[str]]:
    """What is in a folder and not hidden; a DataError where nobody can tell."""
    try:
        with os.scandir(folder / inside) as entries:
            return [entry for entry in entries if entry.name[0] not in "_."]
    except FileNotFoundError:
        return []  # it was removed just now
    except OSError as error:
        raise not_readable(folder / inside, error) from None
