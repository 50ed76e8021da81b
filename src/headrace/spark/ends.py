"""Where batches end: kept with what is published, and safe on the disk before it is.

Spark plans a batch, writes its end into its log of offsets, and runs it. It does not sync that log:
after a machine has crashed, a batch may be planned again, with another end. Were its results known
by its number alone, other rows would pass for those that are published. So what Spark has written
of a batch is synced before it is published, while its tasks run, and a batch that was published
with another end is refused.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from headrace.connect.staging import sync
from headrace.plan.errors import StateError

from .files import WAY_OUT, read_sealed, write_sealed

DIGITS = 16  # of what stands for an end
KEPT = 32  # batches whose ends are kept
COMMITS = "commits"  # Spark's folder for the batches that are done
HEAD = 2  # lines of Spark's file before the offsets: its version, and when it was planned


def end_of(path: Path) -> str:
    """What stands for the end of a batch, from Spark's file of its offsets."""
    offsets = path.read_bytes().splitlines()[HEAD:]
    return hashlib.sha256(b"\n".join(offsets)).hexdigest()[:DIGITS]


class Ends:
    """The ends of the last batches of a job, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, str] | None = None

    def keep(self, batch: int, end: str) -> None:
        """Keep the end of a batch that will be published now; one with another is a StateError."""
        if self._known is None:
            self._known = read_sealed(self._path) if self._path.exists() else {}
        known = self._known.get(str(batch))
        if known == end:
            return
        if known is not None or any(int(other) > batch for other in self._known):
            raise StateError(
                f"batch {batch} was published before, and ended elsewhere: the checkpoint has lost "
                f"what was planned (see {self._path})\n  fix: {WAY_OUT}, and an empty place for "
                "the results"
            )
        self._known[str(batch)] = end
        for old in sorted(self._known, key=int)[:-KEPT]:
            del self._known[old]
        write_sealed(self._path, self._known)


class Synced:
    """What Spark has written of its batches, and which of it is safe on the disk.

    Not of that they were committed: such a batch would be run again, and is published already. Nor
    its checksums: Hadoop does without those that are gone, and `drop_torn` removes what is half.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: dict[Path, tuple[int, int]] = {}

    def sync(self) -> None:
        """Sync all that is new or has changed, and then the folders it lies in.

        Spark removes old files meanwhile: what is gone need not be safe.
        """
        found: dict[Path, tuple[int, int]] = {}
        changed = set()
        for above, inside, names in os.walk(self.folder):
            inside[:] = [name for name in inside if name != COMMITS]
            names = [name for name in names if not name.endswith(".crc")]
            for path in (Path(above, name) for name in (*inside, *names)):
                with suppress(FileNotFoundError):
                    seen = path.stat()
                    found[path] = seen.st_mtime_ns, seen.st_size
                    if self._seen.get(path) != found[path]:
                        sync(path)
                        changed.add(path.parent)
        for folder in changed:
            sync(folder)
        self._seen = found


def drop_torn(spark: Path) -> None:
    """Remove what Spark was writing when the machine crashed: names without content.

    Offsets are safe before a batch is published, and a commit is but a note that it was: a batch
    whose offsets or commit are torn is planned, or run, again.
    """
    for folder in (spark / "offsets", spark / COMMITS):
        numbers = [int(path.name) for path in folder.glob("*") if path.name.isdigit()]
        last = folder / str(max(numbers, default=0))
        if last.exists() and not last.stat().st_size:
            last.unlink()
            last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    for path in spark.rglob(".*.crc"):  # Hadoop does without a checksum, but not with half of one
        if not path.stat().st_size:
            path.unlink()
