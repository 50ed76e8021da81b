"""Channels that bring nothing: after a while, windows need not wait for them.

The meaning is that of Spark (`spark.idling`): a channel that has been silent for `idle` is carried
along with those channels whose rows meet its own and that are not silent (`splits.lift`). What it
brings afterwards may be late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from headrace.plan.companies import companies_of
from headrace.plan.planner import StagePlan

from .channels import Channels


def idle_together(stages: Sequence[StagePlan], channels: Mapping[int, Channels], idle: int) -> None:
    """Let the channels of each company carry along those that are silent for `idle` ns."""
    company = companies_of(stages)
    for number, made in channels.items():
        peers = [
            channel.record.address
            for other, found in channels.items()
            if company[other] == company[number]
            for channel in found.all
        ]
        made.idle_beside(np.array(peers or [0], np.int64), len(peers), idle)
