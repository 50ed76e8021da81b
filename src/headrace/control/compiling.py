"""Priorities compiled by Numba: for policies that go through operators in a loop of Python.

What NumPy does over whole columns is fast as it is. So a function is compiled only if its answers
take long, also when all that they need was loaded: then it is known which features it reads. They
become the fields of a named tuple, which compiled code can read. What reads `features.graph` stays
Python, and so does what Numba cannot compile, or what gives another answer when it is compiled.
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
LOOKS = 5  # answers that must all take so long; the first ones load code and fill caches


class Priorities:
    """The priority of a policy, as a function of features; compiled if its answers are slow.

    >>> from headrace.control import Graph
    >>> features = Features.given(Graph.of("ab", []), cost=[1.0, 2.0])
    >>> asked = Priorities(Policy("cheapest", lambda features: -features.cost))
    >>> asked(features)
    array([-1., -2.])
    """

    def __init__(self, policy: Policy, slow: float = SLOW, looks: int = LOOKS) -> None:
        self._python, self._slow, self._looks = policy.priority, slow, looks
        self._compiled: Callable[[Any], Answer] | None = None
        self._tuple: Any = None
        self._tried: tuple[Features, Answer] | None = None  # what it is to be compiled for

    @property
    def is_compiled(self) -> bool:
        """Does machine code answer?"""
        return self._compiled is not None

    def __call__(self, features: Features) -> Answer:
        """Ask."""
        if self._compiled is not None:
            return self._compiled(self._columns(features))
        if self._looks == 0:
            return self._python(features)
        features.graph_read, began = False, time.thread_time()
        answer = self._python(features)
        if time.thread_time() - began <= self._slow or features.graph_read:
            self._looks = 0  # it stays Python
        else:
            self._looks -= 1
            self._tried = (features, answer) if self._looks == 0 else None
        return answer

    def compile(self) -> None:
        """Compile the function, if its answers were slow. It takes a second, so it is left to who
        asks to say when."""
        if self._tried is not None:
            (features, answer), self._tried = self._tried, None
            self._compile(features, answer)

    def _columns(self, features: Features) -> Any:
        return self._tuple(*(getattr(features, name) for name in self._tuple._fields))

    def _compile(self, features: Features, answer: Answer) -> None:
        """If it can be done, and gives the same answer."""
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
