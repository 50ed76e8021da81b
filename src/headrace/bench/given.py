"""What the source of a plan gives: its columns, and how wide a row of them is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.plan.nodes import WATERMARK
from headrace.plan.schema import Schema
from headrace.stage.blocks.layout import Layout


@dataclass(frozen=True)
class Given:
    """The columns, and the bytes of a row of them, without those of long strings."""

    columns: list[str]
    width: int

    @classmethod
    def by(cls, source: Any) -> Given:
        """What an input of a stage's plan gives."""
        fields = tuple(field for field in source.schema if field.name != WATERMARK)
        width = sum(column.width for column in Layout.of(Schema(fields)).columns)
        return cls([field.name for field in fields], width)

    def said(self) -> dict[str, Any]:
        """What is reported."""
        return {"source_columns": self.columns, "source_row_bytes": self.width}
