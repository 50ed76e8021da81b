"""The control plane: features in, decisions out. It knows no engine, and nothing else of ours."""

from __future__ import annotations

from .elasticity import Elasticity
from .engine import Engine, Scheduled
from .errors import ControlError, PolicyError
from .features import FEATURES, Feature, Features, Scope
from .graph import Graph
from .policy import Policy, as_policy

__all__ = [
    "Policy", "as_policy", "Features", "Feature", "Scope", "FEATURES", "Graph",
    "Engine", "Scheduled", "Elasticity",
    "ControlError", "PolicyError",
]  # fmt: skip
