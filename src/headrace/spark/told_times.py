"""Event times that tasks write down themselves, as small files, for the batches after.

Each task has a file of its own, in a folder for its batch. A task that runs again writes the same
file again, and one that ran twice in vain has seen rows of the same batch: the largest time in the
folder is the same. All machines see it, as they see the checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

KEPT_BATCHES = 4

Times = dict[str, dict[str, int | None]]  # by source and channel


def tell(folder: Path, batch: int, source: str, channel: str, task: str, largest: int | None):
    """Write down the largest time of a channel that a task of a batch knows of.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as made:
    ...     for task, time in (("0", 5), ("1", 7)):
    ...         tell(Path(made), 3, "views", "rows", task, time)
    ...     told_before(Path(made), 9)
    {'views': {'rows': 7}}
    """
    place = folder / str(batch)
    place.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(json.dumps([source, channel, task]).encode()).hexdigest()[:32]
    waiting = place / f"{uuid.uuid4().hex}.part"
    waiting.write_text(json.dumps([source, channel, largest]))
    os.replace(waiting, place / f"{name}.json")
    for old in _batches(folder)[:-KEPT_BATCHES]:
        shutil.rmtree(folder / str(old), ignore_errors=True)


def told(folder: Path, batch: int) -> Times:
    """What the tasks of a batch have written down; empty if there is nothing."""
    found: Times = {}
    for source, channel, largest in _read(folder / str(batch)):
        known = found.setdefault(source, {}).get(channel)
        if known is None or (largest is not None and largest > known):
            found[source][channel] = largest
    return found


def told_before(folder: Path, batch: int) -> Times:
    """What the tasks of the last batch before a batch have written down."""
    earlier = [number for number in _batches(folder) if number < batch]
    return told(folder, earlier[-1]) if earlier else {}


def _batches(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.glob("*") if path.name.isdigit())


def _read(place: Path) -> Iterator[tuple[str, str, int | None]]:
    for path in place.glob("*.json"):
        yield tuple(json.loads(path.read_text()))
