"""What the source of a plan gives: its columns, and how wide a row of them is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.plan.nodes import visible
from headrace.stage.blocks.layout import Layout


@dataclass(frozen=True)
class Given:
    """The columns, and the bytes of a row of them, without those of long strings."""

    columns: list[str]
    width: int

    @classmethod
    def by(cls, source: Any) -> Given:
        """What an input of a stage's plan gives."""
        given = visible(source.schema)
        width = sum(column.width for column in Layout.of(given).columns)
        return cls(list(given.names), width)

    def said(self) -> dict[str, Any]:
        """What is reported."""
        return {"source_columns": self.columns, "source_row_bytes": self.width}
