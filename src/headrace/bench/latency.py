"""Latencies as they are reported: milliseconds, of one query or of several together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

KINDS = ("block", "window", "marker")
FIGURES = ("p50", "p99", "max")
Known = dict[str, Any]  # by kind: a copy of what was measured so far


def latencies_so_far(jobs: Iterable[Any]) -> list[Known]:
    """Of each job, what its engine has measured; nothing where it does not measure latencies."""
    return [job.latency() if hasattr(job, "latency") else {} for job in jobs]


def worst_of(later: Sequence[Known], earlier: Sequence[Known]) -> dict[str, dict[str, Any]]:
    """By kind: of each figure the worst job's, in milliseconds, of what came in between.

    block: from the moment a block of rows was due to its result; window: from the close of a
    window to its result; marker: from source to sink. Block is always there; without samples, its
    figures are None.

    >>> worst_of([{}], [{}])
    {'block': {'p50': None, 'p99': None, 'max': None, 'samples': 0}}
    """
    between = [
        {kind: each.since(first[kind]) if kind in first else each for kind, each in last.items()}
        for last, first in zip(later, earlier)
    ]
    found = {}
    for kind in KINDS:
        those = [job[kind].as_dict_ms() for job in between if kind in job and job[kind].count]
        if not those and kind != KINDS[0]:
            continue
        figures = {part: round(max(each[part] for each in those), 4) for part in FIGURES if those}
        samples = sum(each["samples"] for each in those)
        found[kind] = {**dict.fromkeys(FIGURES), **figures, "samples": samples}
    return found
