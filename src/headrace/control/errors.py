"""What goes wrong in the control plane: a policy that answers nonsense, a graph that is none."""

from __future__ import annotations


class ControlError(Exception):
    """The base of all errors of the control plane."""


class PolicyError(ControlError):
    """A policy whose answer cannot be used.

    >>> print(PolicyError("mine", "priority", "NaN for operator 'filter'"))
    policy 'mine': priority: NaN for operator 'filter'
    """

    def __init__(self, policy: str, part: str, what: str) -> None:
        self.policy, self.part, self.what = policy, part, what
        super().__init__(f"policy {policy!r}: {part}: {what}")


class PolicyWarning(UserWarning):
    """A policy was given up."""
