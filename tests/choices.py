"""Where random pipelines get their choices from: hypothesis, or a seed.

The same generator then makes examples that hypothesis shrinks, and a corpus that is the same in
every run, so that kernels compiled once are found in the cache.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import pytest
from hypothesis import settings
from hypothesis import strategies as st

FEWER = 4  # times fewer examples


def fewer(test: Callable[..., Any]) -> Callable[..., Any]:
    """A test that is slow, or has many cases, with fewer examples; `make soak` has more of all."""
    return settings(max_examples=settings().max_examples // FEWER)(test)


def kinds_of(kinds: Iterable[str], *often: str) -> pytest.MarkDecorator:
    """A case for each kind; where some are named, the others are for `make soak`."""
    seldom = [pytest.param(kind, marks=pytest.mark.soak) for kind in kinds if kind not in often]
    return pytest.mark.parametrize("kind", [*often, *seldom] if often else list(kinds))


class Choices(Protocol):
    """Makes choices; hypothesis shrinks towards the first and the smallest."""

    def pick(self, among: Sequence[Any]) -> Any:
        """One of some things."""

    def number(self, low: int, high: int) -> int:
        """A whole number, both ends included."""

    def chance(self, percent: int) -> bool:
        """True in so many cases of a hundred."""


class Drawn:
    """Choices of hypothesis."""

    def __init__(self, draw: Callable[..., Any]) -> None:
        self._draw = draw

    def pick(self, among: Sequence[Any]) -> Any:
        return among[self.number(0, len(among) - 1)]

    def number(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) >= 100 - percent


class Seeded:
    """Choices that follow from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, among: Sequence[Any]) -> Any:
        return self._random.choice(among)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def chance(self, percent: int) -> bool:
        return self._random.randrange(100) < percent


@st.composite
def choices(draw: Callable[..., Any]) -> Drawn:
    """A strategy for choices."""
    return Drawn(draw)
