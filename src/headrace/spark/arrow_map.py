"""`DataFrame.mapInArrow`, without pandas.

PySpark's own method asks for pandas, and so loads it, although rows on this way are never pandas's:
a third of a second at each start, and a package that nothing else of ours needs. What stands behind
that question is called here instead (`spark_versions.py` knows its names).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.connect.spark_versions import arrow_udf

from .fork_server import forked_python

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(frame: DataFrame, function: ArrowFunction, schema: StructType | str) -> DataFrame:
    """The rows that a function makes of each partition, both as Arrow batches."""
    with forked_python(frame.sparkSession.sparkContext):
        called = arrow_udf(function, schema)(*(frame[name] for name in frame.columns))
    mapped = frame._jdf.mapInArrow(called._jc, False, None)  # no barrier, no resource profile
    return type(frame)(mapped, frame.sparkSession)
