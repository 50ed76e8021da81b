"""The state of the shards of a query: files in the checkpoint folder, by Spark's batch numbers.

A shard of a level of stages has a folder. In each micro-batch its task writes what has changed of
each stage into a new file, a snapshot, and then, in one rename, the *list* of the batch: which
snapshots make up the state behind it. The next batch begins with that list. A batch that is run
again, by another attempt or after a crash, begins with the list of the batch before it and leaves
a list of its own: whatever attempts left that failed is never looked at. Snapshots have names of
their own, by a random token, and are not written twice; what no list needs any more is removed.

The list says for each snapshot its size and its digest, and is sealed by one of its own: a state
that is not what was saved is an error. Both are on the disk before the batch is published, and
outlive a machine that crashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headrace.plan.errors import StateError
from headrace.stage.snapshot import Snapshot, digest_of

from .files import damaged, lacking, make_folder, read_sealed, write_new, write_sealed
from .shipment import Shipment

KEPT_LISTS = 4  # of the last batches; Spark runs no other than the last one again
FIRST = 0  # the number of a query's first batch
OURS = re.compile(r"(\d+)(-.*\.snapshot|\.json|\.json\..*\.part)$")  # and the batch in front

Saved = dict[str, Any]  # by stage: {"token": ..., "snapshots": [Listed, ...]}
Listed = list[Any]  # [file, token, size, digest]
SIZE = 2  # where it stands there


class ShardState:
    """What one shard of a level knows, before and behind one micro-batch.

    lasting: it must outlive a machine that crashes.
    """

    def __init__(self, folder: Path, batch: int, lasting: bool = True) -> None:
        self._folder, self._batch, self._lasting = folder, batch, lasting
        self._written: list[Path] = []  # and not yet safe on the disk

    def before(self) -> Saved:
        """The list of the batch before this one; empty for the first one."""
        return {} if self._batch == FIRST else self._read(self._batch - 1)

    def load(self, listed: Iterable[Listed]) -> list[Snapshot]:
        """Snapshots of a list."""
        return [self._load(*entry) for entry in listed]

    def _load(self, name: str, token: str, size: int, digest: str) -> Snapshot:
        path = self._folder / name
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise lacking(path) from None
        if len(content) != size:
            raise damaged(path, f"it has {len(content):,} bytes, and was written with {size:,}")
        if digest_of(content) != digest:
            raise damaged(path, "its digest is not that of the list")
        try:
            return Snapshot.from_bytes(content)
        except StateError as error:
            raise damaged(path, str(error)) from None

    def write(self, stage: int, made: Snapshot) -> Listed:
        """Keep a snapshot of a stage; gives its entry in the list."""
        name, content = f"{self._batch}-{stage}-{made.token}.snapshot", made.to_bytes()
        make_folder(self._folder, lasting=self._lasting)
        write_new(self._folder / name, content)
        self._written.append(self._folder / name)
        return [name, made.token, len(content), digest_of(content)]

    def publish(self, saved: Saved) -> None:
        """The list behind this batch; one that another attempt has left is replaced."""
        content = {"batch": self._batch, "stages": saved}
        path = self._list(self._batch)
        write_sealed(path, content, lasting=self._lasting, behind=self._written)
        if self._batch % KEPT_LISTS == 0:
            self._clean()

    def _read(self, batch: int) -> Saved:
        path = self._list(batch)
        found = read_sealed(path)
        if found["batch"] != batch:
            raise damaged(path, f"it is the list of batch {found['batch']}")
        stages: Saved = found["stages"]
        return stages

    def _list(self, batch: int) -> Path:
        return self._folder / f"{batch}.json"

    def _clean(self) -> None:
        """Remove what was written before the last lists and stands in none of them.

        What has other names is not ours: a file that NFS keeps for who has it open, say.
        """
        oldest = self._batch - KEPT_LISTS
        needed: set[str] = set()
        for batch in range(max(oldest, FIRST), self._batch + 1):
            if self._list(batch).exists():
                for entry in self._read(batch).values():
                    needed.update(name for name, *_ in entry["snapshots"])
        for path in self._folder.iterdir():
            named = OURS.match(path.name)
            if named and int(named[1]) < oldest and path.name not in needed:
                path.unlink(missing_ok=True)


def shard_state(shipment: Shipment, query: str, level: int, shard: int, batch: int) -> ShardState:
    """The state of a shard in a micro-batch; queries over one plan have states of their own."""
    folder = Path(shipment.state, query, f"{level}-{shard}")
    return ShardState(folder, batch, shipment.lasting)
