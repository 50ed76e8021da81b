"""Files elsewhere, by URLs: of object stores through Arrow, of others through fsspec."""

from __future__ import annotations

import fnmatch
import glob
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from headrace.plan.errors import DataError

ARROW_SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")  # that Arrow reads by itself


@dataclass(frozen=True)
class Stat:
    """What is known of a file."""

    st_size: int
    st_mtime_ns: int


@dataclass(frozen=True)
class RemotePath:
    """A file or folder of a file system that Arrow or fsspec knows; joined with `/` as a Path is.

    >>> path = RemotePath("memory://rows", None, "/rows") / "a.parquet"
    >>> path.name, str(path)
    ('a.parquet', 'memory://rows/a.parquet')
    """

    url: str  # as it may be shown
    system: Any
    inside: str  # the path that the file system has for it

    def __truediv__(self, name: str) -> RemotePath:
        inside = f"{self.inside.rstrip('/')}/{name}"
        return RemotePath(f"{self.url.rstrip('/')}/{name}", self.system, inside)

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """Its last part."""
        return self.inside.rpartition("/")[2]

    def open(self) -> pa.NativeFile:
        """Open the file, at any place of it; an OSError where it cannot be read."""
        return self.system.open_input_file(self.inside)

    def stat(self) -> Stat:
        """Its size, and when it was changed; an OSError where nobody knows."""
        found = self.system.get_file_info(self.inside)
        if not found.is_file:
            raise FileNotFoundError(f"there is no {self.url}")
        return Stat(found.size, found.mtime_ns or 0)


def find_remote(url: str, shown: str, endings: Sequence[str]) -> tuple[RemotePath, list[str]]:
    """What `paths.find_files` finds, by a URL, which is shown without anything secret."""
    scheme, _, rest = shown.partition(":")
    if not rest.startswith("//"):  # `Path` makes one slash of two
        raise DataError(
            f"{shown} is a URL with one slash\n  fix: write {scheme}://{rest.lstrip('/')}, as a str"
        )
    system, inside = _file_system(url, shown)
    path = RemotePath(shown, system, inside)
    try:
        if glob.has_magic(inside):
            return _matching(path)
        found = system.get_file_info(inside)
        if found.is_file:
            parent, _, name = inside.rpartition("/")
            return RemotePath(shown.rpartition("/")[0], system, parent), [name]
        names = _names_below(path)
        if names is not None:
            return path, sorted(name for name in names if name.endswith(tuple(endings)))
    except OSError as error:
        raise DataError(f"{shown} cannot be read: {error}") from None
    raise DataError(f"there is no file or folder {shown}")


def _names_below(path: RemotePath) -> list[str] | None:
    """The files below a folder, but hidden ones; None where there is no such folder."""
    from pyarrow.fs import FileSelector

    try:
        found = path.system.get_file_info(FileSelector(path.inside, recursive=True))
    except FileNotFoundError:
        return None
    start = path.inside.strip("/")
    names = [info.path.strip("/").removeprefix(start).strip("/") for info in found if info.is_file]
    return [name for name in names if not any(part[0] in "_." for part in name.split("/"))]


def _matching(path: RemotePath) -> tuple[RemotePath, list[str]]:
    """The folder in front of the first pattern, and the files below it that fit all of them."""
    parts = path.inside.split("/")
    fixed = next(k for k, part in enumerate(parts) if glob.has_magic(part))
    shown = path.url.rsplit("/", len(parts) - fixed)[0]
    base = RemotePath(shown, path.system, "/".join(parts[:fixed]))
    names = _names_below(base) or []
    return base, sorted(name for name in names if _fits(name.split("/"), parts[fixed:]))


def _fits(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Do the parts of a name fit those of a glob, of which ** is any number of folders?

    >>> [_fits(["a", "b.csv"], glob) for glob in (["*"], ["*", "*.csv"], ["**", "*.csv"], ["**"])]
    [False, True, True, True]
    """
    if not patterns or not parts:
        return not patterns and not parts
    first, rest = patterns[0], patterns[1:]
    if first == "**":
        return not rest or any(_fits(parts[k:], rest) for k in range(len(parts)))
    return fnmatch.fnmatchcase(parts[0], first) and _fits(parts[1:], rest)


@lru_cache(maxsize=64)
def _file_system(url: str, shown: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    from pyarrow import fs

    if urlsplit(url).username is not None:
        raise DataError(
            f"{shown}: a URL with a password in it would be written into plans and logs\n  fix: "
            "leave it out, and give it as the store's own tools take it, by environment variables"
        )
    try:
        if urlsplit(url).scheme in ARROW_SCHEMES:
            return fs.FileSystem.from_uri(url)
        import fsspec

        system, inside = fsspec.core.url_to_fs(url)
        handler: Any = fs.FSSpecHandler
        return fs.PyFileSystem(handler(system)), inside
    except ImportError as error:
        package = "headrace[remote]" if error.name == "fsspec" else error
        raise DataError(f"{shown} needs a package: pip install '{package}'") from None
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:  # settings are missing
        raise DataError(f"{shown} cannot be read: {error}") from None
