"""quantile: with a relative error, by DDSketch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..types import DataType, binary, float64
from .base import Change, Code, Fields, Held, Kind, Result, Rewriting


@dataclass(frozen=True)
class Share:
    """Which quantile, and how near."""

    share: float
    error: float

    def __str__(self) -> str:
        return f"{self.share} ± {self.error:.3%}"

    @property
    def log_gamma(self) -> float:
        """The logarithm of how much larger the values of the next bucket are."""
        return math.log((1 + self.error) / (1 - self.error))


class Quantile(Kind):
    """The value below which a share of the values lies; null where there is none."""

    argument: Share
    of_numbers = True

    def type(self, of: DataType | None) -> DataType:
        """See Kind."""
        assert of is not None
        return replace(float64, nullable=of.nullable)

    def fields(self, of: DataType | None) -> tuple[tuple[str, DataType], ...]:
        """See Kind."""
        return (("sketch", binary),)

    def add(
        self, kept: Fields, given: Held | None, by: Held | None, code: Code
    ) -> Sequence[Change | Rewriting]:
        """See Kind."""
        assert given is not None
        words = ", ".join(kept["sketch"].words)
        bucket = code.let(f"bucket_of(float({given.word}), {self.argument.log_gamma!r})")
        room = f"buckets_room({words}, 1)"
        return [Rewriting("sketch", room, lambda heap: f"buckets_add({words}, {bucket}, {heap})")]

    def merge(self, kept: Fields, other: Fields, code: Code) -> Sequence[Change | Rewriting]:
        """See Kind."""
        both = ", ".join(kept["sketch"].words + other["sketch"].words)
        room = f"buckets_merge_room({both})"
        return [Rewriting("sketch", room, lambda heap: f"buckets_merge({both}, {heap})")]

    def result(self, kept: Fields, code: Code) -> Result:
        """See Kind."""
        head, tail = kept["sketch"].words
        made = f"buckets_quantile({head}, {tail}, {self.argument.share!r}, "
        return Result((code.let(f"{made}{self.argument.log_gamma!r})"),), code.let(f"{head} != 0"))
