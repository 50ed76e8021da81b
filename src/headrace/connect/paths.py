"""Which files a path names."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.plan.errors import DataError


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


def find_files(path: str, endings: Sequence[str]) -> tuple[Path, list[str]]:
    """The folder that names are relative to, and the names of the files, sorted.

    A folder stands for the files in it and below it whose names have one of the endings. Neither it
    nor a glob finds what has a part that begins with "_" or "." in its path: what other writers
    have not finished.
    """
    found = Path(path)
    if found.is_file():
        return found.parent, [found.name]
    if found.is_dir():
        return found, sorted(files_below(found, endings))
    if glob.has_magic(path):
        fixed = []
        for part in found.parts:
            if glob.has_magic(part):
                break
            fixed.append(part)
        base = Path(*fixed)
        matches = (Path(match) for match in glob.iglob(path, recursive=True))
        inside = (match.relative_to(base) for match in matches if match.is_file())
        return base, sorted(
            match.as_posix() for match in inside if not any(part[0] in "_." for part in match.parts)
        )
    raise DataError(f"there is no file or folder {path}")


def files_below(folder: Path, endings: Sequence[str]) -> Iterator[str]:
    """The names, relative to a folder, of the files in it and below it that are not hidden."""
    wanted = tuple(endings)
    for current, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "_."]
        inside = Path(current).relative_to(folder).as_posix()
        before = "" if inside == "." else f"{inside}/"
        for name in names:
            if name.endswith(wanted) and name[0] not in "_.":
                yield before + name
