"""Channels that bring nothing: after a while, windows need not wait for them.

A channel that has been silent for `idle` seconds is carried along: its largest time is lifted, so
that its watermark is the least of those channels that are not silent and whose rows meet its own.
Rows of before that it brings afterwards are late. The lifted time stands in the offset, like rows
that were read: a batch that is run again finds the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from headrace.plan.companies import companies_of
from headrace.plan.nodes import Source

from .shipment import Shipment

Channel = tuple[str, str]  # the source, and the channel


class Idling:
    """Knows since when channels are silent."""

    def __init__(self, shipment: Shipment, now: Callable[[], float] = time.monotonic) -> None:
        self._shipment, self._now = shipment, now
        self._heard: dict[Channel, float] = {}
        self._companies = companies(shipment)

    def lifted(
        self, before: Mapping[str, Mapping[str, Any]], moved: set[Channel]
    ) -> dict[Channel, int]:
        """For channels that are silent the time they are lifted to; `before`: where all stood."""
        patience = self._shipment.idle
        if patience is None:
            return {}
        now = self._now()
        silent: list[Channel] = []
        least: dict[int, int | None] = {}  # of the channels that bring rows, by company
        for source, found in before.items():
            for channel, place in found.items():
                if (source, channel) in moved:
                    self._heard[source, channel] = now
                if place["ended"] or self._bound(source) is None:
                    continue
                heard = self._heard.setdefault((source, channel), now)
                if (source, channel) not in moved and now - heard >= patience:
                    silent.append((source, channel))
                else:
                    _keep_least(least, self._companies[source], self._mark(source, place))
        made = {}
        for source, channel in silent:
            mark = least.get(self._companies[source])
            known = self._mark(source, before[source][channel])
            if mark is not None and (known is None or mark > known):
                made[source, channel] = mark + (self._bound(source) or 0)
        return made

    def _bound(self, source: str) -> int | None:
        _, node = self._shipment.sources[source]
        return None if node.clock is None else node.clock.bound

    def _mark(self, source: str, place: Mapping[str, Any]) -> int | None:
        """The watermark of a channel; None: it has none yet."""
        largest = place["largest"]
        return None if largest is None else int(largest) - (self._bound(source) or 0)


def _keep_least(least: dict[int, int | None], company: int, mark: int | None) -> None:
    known = least.get(company, mark)
    least[company] = None if known is None or mark is None else min(known, mark)


def companies(shipment: Shipment) -> dict[str, int]:
    """For each source the number of its company: those whose rows meet somewhere have the same."""
    company = companies_of(shipment.stages)
    return {
        node.name: company[stage.number]
        for stage in shipment.stages
        for node in stage.inputs
        if isinstance(node, Source)
    }
