"""A static table: the right side of a join, loaded when a stage starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from .schema import Schema


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns that do not change while a pipeline runs; `load` reads them as Arrow."""

    name: str
    schema: Schema
    load: Callable[[], pa.Table]

    def __str__(self) -> str:
        return self.name
