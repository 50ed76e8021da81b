"""`DataFrame.mapInArrow`, without pandas.

PySpark's own method asks for pandas, and so loads it, although rows on this way are never pandas's:
a third of a second at each start, and a package that nothing else of ours needs. What stands behind
that question is called here instead; it belongs to the one version of PySpark that we depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(frame: DataFrame, function: ArrowFunction, schema: StructType | str) -> DataFrame:
    """The rows that a function makes of each partition, both as Arrow batches."""
    from pyspark.sql.pandas.functions import vectorized_udf  # type: ignore[attr-defined]
    from pyspark.util import PythonEvalType

    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    made: Any = vectorized_udf(function, schema, kind)
    called = made(*(frame[name] for name in frame.columns))
    mapped = frame._jdf.mapInArrow(called._jc, False, None)  # no barrier, no resource profile
    return type(frame)(mapped, frame.sparkSession)
