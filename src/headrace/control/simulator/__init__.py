"""The simulator: any policy on any machine, deterministically."""

from __future__ import annotations

from .graphs import chains, mesh, pipeline, wide
from .machine import MACHINES, Costs, Machine, machine_named
from .profile import Operator, Profile
from .schedulers import Assigned, Dedicated, FreeList, Manual, PriorityQueue, Steered
from .simulation import Simulation
from .statistics import Latency, QueryResult, Result, Span

__all__ = [
    "Simulation", "Result", "QueryResult", "Latency", "Span",
    "Profile", "Operator", "pipeline", "wide", "mesh", "chains",
    "Machine", "Costs", "MACHINES", "machine_named",
    "Manual", "Dedicated", "FreeList", "PriorityQueue", "Assigned", "Steered",
]  # fmt: skip
