"""Which sources belong together: those whose rows meet somewhere."""

from __future__ import annotations

from collections.abc import Sequence

from .nodes import Received
from .planner import StagePlan


def companies_of(stages: Sequence[StagePlan]) -> dict[int, int]:
    """For each stage, by number, the number of its company: stages that an exchange connects are
    in one.

    >>> import headrace as hr
    >>> from headrace.asked import planned
    >>> def counted():
    ...     rows = hr.read.memory({"t": [1]}).with_watermark("t", 0)
    ...     return rows.window(hr.tumbling(1)).agg(n=hr.count())
    >>> met, alone = counted().union(counted()), counted()
    >>> found = companies_of(planned([met.write.null(), alone.write.null()]).stages())
    >>> len(found), len(set(found.values()))
    (5, 2)
    """
    senders = {root.name: stage.number for stage in stages for root in stage.roots}
    company = {stage.number: stage.number for stage in stages}
    for stage in stages:
        for node in stage.inputs:
            if isinstance(node, Received):
                one, other = company[stage.number], company[senders[node.name]]
                company = {k: one if found == other else found for k, found in company.items()}
    return company
