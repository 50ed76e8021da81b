"""Latencies as they are reported: milliseconds, of one query or of several together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.observe.progress import latencies_of

KINDS = ("block", "window", "marker")
FIGURES = ("p50", "p99", "max")


def worst_of(jobs: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """By kind, where the engine measures it: of each figure the worst job's, in milliseconds.

    block: from the moment a block of rows was due to its result; window: from the close of a
    window to its result; marker: from source to sink. Block is always there; without samples, its
    figures are None.

    >>> worst_of([object()])
    {'block': {'p50': None, 'p99': None, 'max': None, 'samples': 0}}
    """
    measured = [latencies_of(job) for job in jobs]
    found = {}
    for kind in KINDS:
        those = [each[kind] for each in measured if kind in each]
        if not those and kind != KINDS[0]:
            continue
        figures = {part: round(max(each[part] for each in those), 4) for part in FIGURES if those}
        samples = sum(each["samples"] for each in those)
        found[kind] = {**dict.fromkeys(FIGURES), **figures, "samples": samples}
    return found
