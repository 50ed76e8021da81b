"""The state of the shards of a query: files in the checkpoint folder, by Spark's batch numbers.

A shard of a level of stages has a folder. In each micro-batch its task writes what has changed of
each stage into a new file, a snapshot, and then, in one rename, the *list* of the batch: which
snapshots make up the state behind it. The next batch begins with that list. A batch that is run
again, by another attempt or after a crash, begins with the list of the batch before it and leaves
a list of its own: whatever attempts left that failed is never looked at. Snapshots have names of
their own, by a random token, and are not written twice; what no list needs any more is removed.

Files are as safe as those in which Spark keeps offsets: they outlive every process, and a machine
whose file system does.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headrace.plan.errors import StateError
from headrace.stage.snapshot import Snapshot

from .shipment import Shipment

KEPT_LISTS = 4  # of the last batches; Spark runs no other than the last one again
FIRST = 0  # the number of a query's first batch

Saved = dict[str, Any]  # by stage: {"token": ..., "snapshots": [[file, token], ...]}


class ShardState:
    """What one shard of a level knows, before and behind one micro-batch."""

    def __init__(self, folder: Path, batch: int) -> None:
        self._folder, self._batch = folder, batch

    def before(self) -> Saved:
        """The list of the batch before this one; empty for the first one."""
        if self._batch == FIRST:
            return {}
        path = self._list(self._batch - 1)
        try:
            found: Saved = json.loads(path.read_text())
        except FileNotFoundError:
            raise lacking(path) from None
        return found

    def load(self, listed: Iterable[tuple[str, str]]) -> list[Snapshot]:
        """Snapshots of a list."""
        found = []
        for name, _ in listed:
            try:
                found.append(Snapshot.from_bytes((self._folder / name).read_bytes()))
            except FileNotFoundError:
                raise lacking(self._folder / name) from None
        return found

    def write(self, stage: int, made: Snapshot) -> tuple[str, int]:
        """Keep a snapshot of a stage; gives the name of its file, and how many bytes it were."""
        name, content = f"{self._batch}-{stage}-{made.token}.snapshot", made.to_bytes()
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / name).write_bytes(content)
        return name, len(content)

    def publish(self, saved: Saved) -> None:
        """The list behind this batch; one that another attempt has left is replaced."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._list(self._batch)
        waiting = self._folder / f"{self._batch}-{uuid.uuid4().hex}.part"
        waiting.write_text(json.dumps(saved))
        os.replace(waiting, path)
        if self._batch % KEPT_LISTS == 0:
            self._clean()

    def _list(self, batch: int) -> Path:
        return self._folder / f"{batch}.json"

    def _clean(self) -> None:
        """Remove what was written before the last lists and stands in none of them."""
        oldest = self._batch - KEPT_LISTS
        needed: set[str] = set()
        for batch in range(max(oldest, FIRST), self._batch + 1):
            if self._list(batch).exists():
                for entry in json.loads(self._list(batch).read_text()).values():
                    needed.update(name for name, _ in entry["snapshots"])
        for path in self._folder.iterdir():
            batch = int(path.name.replace(".", "-").split("-")[0])
            if batch < oldest and path.name not in needed:
                path.unlink(missing_ok=True)


def shard_state(shipment: Shipment, query: str, level: int, shard: int, batch: int) -> ShardState:
    """The state of a shard in a micro-batch; queries over one plan have states of their own."""
    return ShardState(Path(shipment.state, query, f"{level}-{shard}"), batch)


def lacking(path: Path) -> StateError:
    """A file of the state is not there."""
    return StateError(
        f"the checkpoint lacks {path}, a part of the state behind its last batch\n"
        "  fix: restore the whole checkpoint folder, which all machines must see, or begin with "
        "a new one"
    )
