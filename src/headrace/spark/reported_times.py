"""Event times that tasks write down themselves, as small files, for the batches after.

Each source has a folder, with one for each batch in which it brought rows, and in it a file of each
task. A task that runs again writes the same file again, and one that ran twice in vain has seen
rows of the same batch: the largest time in the folder is the same. What a source has told last is
kept until it tells something new, however many batches it is silent for. All machines see it, as
they see the checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

from .files import read_sealed, write_sealed

KEPT_BATCHES = 4  # of each source

Times = dict[str, dict[str, int | None]]  # by source and channel


def tell(
    folder: Path,
    batch: int,
    source: str,
    channel: str,
    task: str,
    largest: int | None,
    *,
    lasting: bool = True,
) -> None:
    """Write down the largest time of a channel that a task of a batch knows of.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as made:
    ...     for task, time in (("0", 5), ("1", 7)):
    ...         tell(Path(made), 3, "views", "rows", task, time)
    ...     reported_before(Path(made), 9)
    {'views': {'rows': 7}}
    """
    place = folder / _name(source, channel)
    content = [source, channel, largest]
    write_sealed(place / str(batch) / f"{_name(task)}.json", content, lasting=lasting)
    for old in _batches(place)[:-KEPT_BATCHES]:
        shutil.rmtree(place / str(old), ignore_errors=True)


def told(folder: Path, batch: int) -> Times:
    """What the tasks of a batch have written down; empty if there is nothing."""
    return _found(folder, lambda numbers: [n for n in numbers if n == batch])


def reported_before(folder: Path, batch: int) -> Times:
    """What the tasks of each source have written down last, before a batch."""
    return _found(folder, lambda numbers: [n for n in numbers if n < batch][-1:])


def forget_from(folder: Path, batch: int) -> None:
    """Remove what a batch, and those behind it, have told when they were planned otherwise."""
    for place in _places(folder):
        for number in _batches(place):
            if number >= batch:
                shutil.rmtree(place / str(number), ignore_errors=True)


def _found(folder: Path, chosen: Callable[[list[int]], list[int]]) -> Times:
    found: Times = {}
    for place in _places(folder):
        for number in chosen(_batches(place)):
            for path in (place / str(number)).glob("*.json"):
                source, channel, largest = read_sealed(path)
                known = found.setdefault(source, {}).get(channel)
                if known is None or (largest is not None and largest > known):
                    found[source][channel] = largest
    return found


def _name(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _places(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if len(path.name) == 32 and path.is_dir()]


def _batches(place: Path) -> list[int]:
    return sorted(int(path.name) for path in place.glob("*") if path.name.isdigit())
