"""Rows chosen by their own values: the same ones in every run and on every engine."""

from __future__ import annotations

from collections.abc import Sequence

from ..plan.checks import Place
from ..plan.schema import Schema
from .combine import hash_
from .values import Expr, col, lit

PARTS = 1 << 32  # of all rows, of which a sample takes some


def is_sampled(
    schema: Schema, fraction: float, by: str | Sequence[str] | None, seed: int, place: Place
) -> Expr:
    """Is a row among about this share of them, by a hash of all its columns or of some?"""
    if isinstance(fraction, bool) or not isinstance(fraction, int | float):
        raise place.error(f"the fraction {fraction!r} is not a number", "sample(0.1)")
    if not 0 <= fraction <= 1:
        raise place.error(f"the fraction {fraction!r} is not from 0 to 1", "sample(0.1)")
    named = [by] if isinstance(by, str) else list(schema.names if by is None else by)
    columns = [col(place.existing(column, schema)) for column in named]
    return hash_(lit(seed), *columns) % PARTS < round(fraction * PARTS)
