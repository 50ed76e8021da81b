"""The files of folders that are not watched: are they still those with which a job began?

Such a folder is read in the order of names, and a position is a file and a row. Who adds files, or
replaces them, between two runs over one checkpoint must hear of it: what comes before the place
that was reached is not read.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.connect.file_source import FileSource
from headrace.plan.errors import SourceChanged, StateError
from headrace.plan.nodes import Source
from headrace.plan.planner import StagePlan

from .files import read_sealed, write_sealed

MOST_NAMES = 3  # that are said of files that have changed


def keep_files(path: Path, stages: Sequence[StagePlan], *, lasting: bool) -> None:
    """Write down which files the sources have."""
    found = {name: source.files() for name, source in _file_sources(stages).items()}
    if found:
        write_sealed(path, found, lasting=lasting)


def check_files(path: Path, stages: Sequence[StagePlan]) -> None:
    """Compare the files of the sources with those that were written down."""
    sources = _file_sources(stages)
    if not sources:
        return
    for name, before in read_sealed(path).items():
        if name in sources:
            compare_files(sources[name], before)


def compare_files(source: FileSource, before: Mapping[str, Sequence[int]]) -> None:
    """Files that were replaced are a StateError; others that came or went are warned of."""
    now = source.files()
    both = [name for name in before if name in now]
    resized = [name for name in both if now[name][0] != before[name][0]]
    if resized:
        raise StateError(
            f"{source}: {_named(resized)} changed since the checkpoint was made, so what was read "
            "of them is not there any more\n  fix: put the files of before back, or begin with a "
            "new checkpoint"
        )
    changes = {
        "are new": [name for name in now if name not in before],
        "are gone": [name for name in before if name not in now],
        "were written again": [name for name in both if now[name][1] != before[name][1]],
    }
    said = [f"{_named(names)} {what}" for what, names in changes.items() if names]
    if said:
        warnings.warn(
            f"{source}: since the checkpoint was made, {'; '.join(said)}. A folder that is not "
            "watched is read in the order of names: what comes before the place that was reached, "
            "or behind the end, is not read.\n  fix: read the folder with watch=True, or begin "
            "with a new checkpoint",
            SourceChanged,
            stacklevel=2,
        )


def _file_sources(stages: Sequence[StagePlan]) -> dict[str, FileSource]:
    nodes = [node for stage in stages for node in stage.inputs if isinstance(node, Source)]
    return {n.name: n.connector for n in nodes if isinstance(n.connector, FileSource)}


def _named(names: Sequence[str]) -> str:
    few = ", ".join(sorted(names)[:MOST_NAMES])
    more = len(names) - MOST_NAMES
    return f"{few} and {more} more" if more > 0 else few
