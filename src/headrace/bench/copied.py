"""What the source of a plan copies in: its columns, and how wide a row of them is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.plan.nodes import WATERMARK
from headrace.plan.schema import Schema
from headrace.stage.blocks.layout import Layout


@dataclass(frozen=True)
class Copied:
    """The columns, and the bytes of a row of them, without those of long strings."""

    columns: list[str]
    width: int

    @classmethod
    def by(cls, source: Any) -> Copied:
        """What an input of a stage's plan copies."""
        fields = tuple(field for field in source.schema if field.name != WATERMARK)
        width = sum(column.width for column in Layout.of(Schema(fields)).columns)
        return cls([field.name for field in fields], width)

    def said(self) -> dict[str, Any]:
        """What is reported."""
        return {"copied_columns": self.columns, "bytes_copied_per_row": self.width}
