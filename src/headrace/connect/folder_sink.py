"""Rows into a folder of files, each batch published by one rename, whatever the format."""

from __future__ import annotations

import os
import shutil
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.schema import Schema
from headrace.plan.types import from_arrow

from .paths import DECODING_ERRORS, local_path
from .staging import DAY, StagedSink, published_as, safe, sync

PART = "part-"  # how the names of published files begin
STAGING = "_staging"  # readers of folders leave out names that begin with "_"
COMMIT = ".commit"  # where attempts are put together; no attempt can have this name (safe)
NO_RENAME = (
    "a batch is published by a rename, which object stores lack: others would see half of it\n"
    "  fix: write to a folder of this machine or one that is mounted, or let Spark write: "
    "stream.to_spark()"
)


class FolderSink(StagedSink):
    """A folder of files, one for each batch that was committed.

    An attempt stages its rows in `_staging/<batch>/<attempt>/`; a commit renames that file to
    `part-<batch>` with the ending of the format, and, where the end of the batch is known,
    `@<end>` between the two. Where several attempts wrote parts of one batch,
    they become a folder of that name, again by one rename.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: str = "append",
        keep_staged: float = DAY,
    ) -> None:
        text = local_path(path, NO_RENAME)
        self._folder = Path(text)
        self._ends: dict[str, str] | None = None  # of the batches that are published, if known
        super().__init__(text, self._folder / STAGING, mode=mode, keep_staged=keep_staged)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_ends": None}

    def _prepare(self, schema: Schema) -> None:
        if self._mode != "append":
            self._make_empty()
        # One is enough: all of them were checked against one another when they were written.
        for path in self._committed():
            self._check_file(path, schema)
            break

    def _make_empty(self) -> None:
        """Remove what others have published, or refuse it; nothing if it was done before."""
        there = sorted(self._folder.glob(f"{PART}*{self.ending}"))
        if any(self._is_of_job(path.name.removeprefix(PART)) for path in there):
            return
        for path in there:
            if self._mode == "error":
                raise self._is_there(path.name)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        sync(self._folder)

    @abstractmethod
    def _check_file(self, path: Path, schema: Schema) -> None:
        """Rows of a schema must fit a file that is there."""

    def _committed(self) -> Iterator[Path]:
        for path in sorted(self._folder.glob(f"{PART}*{self.ending}")):
            yield from sorted(path.glob(f"*{self.ending}")) if path.is_dir() else [path]

    def _published(self, name: str) -> Path:
        return self._folder / f"{PART}{name}{self.ending}"

    def _published_end(self, batch: str) -> str | None:
        if self._published(published_as(batch, "")).exists():
            return ""
        if self._ends is None:  # looked for once: nobody else publishes batches of these names
            names = (p.name for p in self._folder.glob(f"{PART}*@*{self.ending}"))
            ended = (n.removeprefix(PART).removesuffix(self.ending) for n in names)
            self._ends = dict(name.split("@", 1) for name in ended)
        return self._ends.get(safe(batch))

    def _publish(self, batch: str, staged: Mapping[str, int], end: str) -> None:
        os.rename(self._one_source(batch, staged), self._published(published_as(batch, end)))
        sync(self._folder)
        if end and self._ends is not None:
            self._ends[safe(batch)] = end

    def _one_source(self, batch: str, staged: Mapping[str, int]) -> Path:
        """The file, or the folder of files, that holds exactly what was staged."""
        if len(staged) == 1:
            ((attempt, rows),) = staged.items()
            return self._whole(batch, attempt, rows)
        folder = self._staging / safe(batch) / COMMIT
        folder.mkdir(parents=True, exist_ok=True)
        parts = {attempt: folder / f"rows-{safe(attempt)}{self.ending}" for attempt in staged}
        for attempt, rows in staged.items():
            if not parts[attempt].exists():  # it does where a commit died half way
                os.rename(self._whole(batch, attempt, rows), parts[attempt])
        for path in set(folder.iterdir()) - set(parts.values()):
            path.unlink()  # of a commit that died, with other attempts
        sync(folder)
        return folder


class CompressedFolderSink(FolderSink):
    """A folder of files of a format that compresses by itself, and says its columns."""

    compressions: ClassVar[tuple[str, ...]]
    usual: ClassVar[str]  # the one where none is named

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        compression: str | None = None,
        mode: str = "append",
        keep_staged: float = DAY,
    ) -> None:
        self._compression = self.usual if compression is None else compression
        if self._compression not in self.compressions:
            known = ", ".join(self.compressions)
            raise DataError(f"compression={compression!r}: use one of {known}")
        super().__init__(path, mode=mode, keep_staged=keep_staged)

    def _check_file(self, path: Path, schema: Schema) -> None:
        """Rows of a schema must fit a file that is there."""
        try:
            found = self._schema_of(path)
        except DECODING_ERRORS as error:
            raise DataError(f"{self}: {path.name} cannot be read: {error}") from None
        there = {field.name: from_arrow(field.type) for field in found}
        for field in schema:
            other = there.pop(field.name, None)
            if other is None or other.name != field.type.name:
                said = "no such column" if other is None else str(other)
                raise DataError(
                    f"{self}: column {field.name!r} is {field.type.required}, and in "
                    f"{path.name}, which is there already, {said}; write to another folder"
                )
        if there:
            raise DataError(
                f"{self}: {path.name}, which is there already, has a column "
                f"{next(iter(there))!r} more; write to another folder"
            )

    @abstractmethod
    def _schema_of(self, path: Path) -> pa.Schema:
        """The columns of a file; an ArrowException or OSError if it cannot be read."""
