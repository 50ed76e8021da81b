"""The command itself: cases that run in one Spark, reported as all figures are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.bench import report

from .cases import SUITE
from .context import opened


def run(
    names: Sequence[str] = (),
    *,
    scale: float = 1.0,
    dictionaries: bool = True,
    session: Any = None,
    **shown: Any,
) -> list[report.Result]:
    """Measure cases (all, without names), print them as `report.run` does, and give them."""
    wants_kafka = not names or "kafka_json" in names
    with opened(scale, session, wants_kafka, dictionaries) as context:
        return report.run(SUITE, context, names, **shown)
