"""Static tables, for joins: `hr.table("campaigns.parquet")`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .plan.checks import Place
from .plan.errors import DataError
from .plan.table import Table

if TYPE_CHECKING:
    from .connect.memory import MemorySource
    from .connect.parquet import ParquetSource


def table(data: Any, *, name: str | None = None, schema: Any = None) -> Table:
    """A table that does not change while a pipeline runs.

    `data` is a path (a Parquet file, a folder of them or a glob), an Arrow table, a pandas or
    Polars frame, a dict of lists or a list of dicts. Files are read when the pipeline starts.

    >>> ads = table({"ad": [1, 2], "campaign": ["x", "y"]}, name="ads")
    >>> ads.schema, ads.load().num_rows
    (Schema(ad: int64, campaign: string), 2)
    """
    place = Place("table", name)
    is_path = isinstance(data, str | os.PathLike)
    source: ParquetSource | MemorySource
    try:
        if is_path:
            from .connect.parquet import ParquetSource

            source = ParquetSource(data, schema=schema)
        else:
            from .connect.memory import MemorySource

            source = MemorySource(data, schema=schema)
    except (DataError, TypeError) as error:
        raise place.error(str(error)) from None
    columns = place.read_schema(source.schema())
    return Table(place.name or (Path(data).stem if is_path else "table"), columns, source.table)
