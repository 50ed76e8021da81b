"""Priorities compiled by Numba: for policies that go through operators in a loop of Python.

What NumPy does over whole columns is fast as it is. So a function is compiled only if it takes
long, when it has been asked once: then it is known which features it reads. They become the fields
of a named tuple, which compiled code can read. What Numba cannot compile (`features.graph`,
objects) stays Python, and so does what gives another answer when it is compiled.
"""

from __future__ import annotations

import time
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import Answer
from .features import Features
from .policy import Policy

SLOW = 200e-6  # seconds of Python that are worth a compilation


class Priorities:
    """The priority of a policy, as a function of features; compiled after a slow answer.

    >>> from headrace.control import Graph
    >>> features = Features.given(Graph.of("ab", []), cost=[1.0, 2.0])
    >>> asked = Priorities(Policy("cheapest", lambda features: -features.cost))
    >>> asked(features)
    array([-1., -2.])
    """

    def __init__(self, policy: Policy, slow: float = SLOW) -> None:
        self._python, self._slow = policy.priority, slow
        self._compiled: Callable[[Any], Answer] | None = None
        self._tuple: Any = None

    @property
    def is_compiled(self) -> bool:
        """Does machine code answer?"""
        return self._compiled is not None

    def __call__(self, features: Features) -> Answer:
        """Ask."""
        if self._compiled is not None:
            return self._compiled(self._columns(features))
        began = time.thread_time()
        answer = self._python(features)
        if time.thread_time() - began > self._slow:
            self._slow = float("inf")  # it is tried once
            self._compile(features, answer)
        return answer

    def _columns(self, features: Features) -> Any:
        return self._tuple(*(getattr(features, name) for name in self._tuple._fields))

    def _compile(self, features: Features, answer: Answer) -> None:
        """Compile the function, if that can be done and gives the same answer."""
        read = sorted(features.used | features.derived)
        fields = [*read, "now", "next_period"]
        self._tuple = namedtuple("Columns", fields)  # type: ignore[misc]
        try:
            from numba import njit

            compiled = njit(self._python)
            if np.array_equal(compiled(self._columns(features)), answer, equal_nan=True):
                self._compiled = compiled
        except Exception:  # whatever Numba, or the function inside it, does not like
            return
