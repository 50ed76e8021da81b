"""Which files a path names."""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from headrace.plan.errors import DataError

from .remote import RemotePath, find_remote

# What Arrow raises of files that it cannot make sense of; some names in them are no texts.
DECODING_ERRORS = (pa.ArrowException, OSError, ValueError, OverflowError)
LOCAL = ("file://", "local://")  # how URLs of files of this machine begin


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


def readable_path(path: str | os.PathLike[str]) -> str:
    """A path or URL as text; one of a local file as a path.

    >>> readable_path("file:///data/my%20rows"), readable_path("s3://bucket/rows")
    ('/data/my rows', 's3://bucket/rows')
    """
    text = os.fspath(path)
    return unquote(urlsplit(text).path) if text.startswith(LOCAL) else text


def local_path(path: str | os.PathLike[str], why: str = "") -> str:
    """A path as text; a DataError, which says why, where it is a URL of something elsewhere."""
    text = readable_path(path)
    if is_url(text):
        said = f"{without_credentials(text)} is a URL; only local paths can be used"
        raise DataError(f"{said}: {why}" if why else said)
    return text


AnyPath = str | os.PathLike[str] | RemotePath
FilePath = Path | RemotePath


def whole_path(path: AnyPath) -> str:
    """A path as errors say it: the same on every engine, whatever folder a process is in.

    >>> whole_path("/data/./rows.json")
    '/data/rows.json'
    """
    return str(path) if isinstance(path, RemotePath) else os.path.abspath(path)


def open_regular(path: AnyPath) -> pa.NativeFile:
    """Open a file for Arrow; a DataError where it cannot be read, or is a pipe or a device."""
    return _opened(path, lambda local: pa.OSFile(os.fspath(local), "r"))


def open_bytes(path: AnyPath) -> Any:
    """Open a file to read its bytes; a DataError as for `open_regular`."""
    return _opened(path, lambda local: open(local, "rb"))


def _opened(path: AnyPath, open_local: Callable[[str | os.PathLike[str]], Any]) -> Any:
    if not isinstance(path, RemotePath):
        check_regular(path)
    try:
        return path.open() if isinstance(path, RemotePath) else open_local(path)
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


def not_readable(path: AnyPath, error: OSError) -> DataError:
    """What to say of a file or folder that cannot be opened."""
    if isinstance(error, FileNotFoundError):
        return DataError(f"{whole_path(path)} is gone; it was there before")
    return DataError(f"{whole_path(path)} cannot be read: {error.strerror or error}")


def find_files(path: str, endings: Sequence[str]) -> tuple[FilePath, list[str]]:
    """The folder that names are relative to, and the names of the files, sorted.

    A folder stands for the regular files in it and below it whose names have one of the endings.
    Neither it nor a glob finds what has a part that begins with "_" or "." in its path: what other
    writers have not finished. A folder that cannot be read is a DataError.
    """
    if is_url(path):
        return find_remote(path, without_credentials(path), endings)
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
