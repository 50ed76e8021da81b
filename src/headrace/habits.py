"""Names that people bring along from Polars, PySpark, pandas and Flink, and what they are here."""

from __future__ import annotations

from collections.abc import Iterable

from .plan.errors import PipelineError
from .plan.site import caller_site

_AGGREGATE = 'stream.key_by("user").window(hr.tumbling("10s")).agg(n=hr.count())'
_WITH = 'stream.with_columns(total=col("price") * col("count"))'
_SORT = "rows of a stream have no end to sort by; sort the result of a run, or aggregate by window"

STREAM = {
    "group_by": _AGGREGATE,
    "groupBy": _AGGREGATE,
    "groupby": _AGGREGATE,
    "aggregate": _AGGREGATE,
    "count": f"{_AGGREGATE}, or stream.write.null() and its .rows",
    "keyBy": 'stream.key_by("user")',
    "withColumn": _WITH,
    "with_column": _WITH,
    "assign": _WITH,
    "withColumnRenamed": 'stream.rename({"old": "new"})',
    "withWatermark": 'stream.with_watermark("time", "5s")',
    "assign_timestamps_and_watermarks": 'stream.with_watermark("time", "5s")',
    "where": 'stream.filter(col("price") > 1)',
    "query": 'stream.filter(col("price") > 1)',
    "flatMap": 'stream.flat_map(function, output=["x"])',
    "apply": "stream.map(function, output=[...]), or stream.map_batches(function, schema=...)",
    "mapInArrow": "stream.map_batches(function, schema=...)",
    "mapPartitions": "stream.map_batches(function, schema=...)",
    "unionAll": "stream.union(other)",
    "unionByName": "stream.union(other), which goes by name",
    "concat": "stream.union(other)",
    "collect": "out = stream.write.collect(); hr.run(out); out.result()",
    "to_pandas": "stream.head(10).to_pandas(), or write.collect() and hr.run",
    "toPandas": "stream.head(10).to_pandas(), or write.collect() and hr.run",
    "take": "stream.limit(10), or stream.head(10), computed now",
    "dropDuplicates": 'stream.dedup("id")',
    "dropDuplicatesWithinWatermark": 'stream.dedup("id", within="10m")',
    "drop_duplicates": 'stream.dedup("id")',
    "unique": 'stream.dedup("id")',
    "distinct": 'stream.dedup("id")',
    "sort": _SORT,
    "sort_values": _SORT,
    "orderBy": _SORT,
    "writeStream": "stream.write.parquet(...), then hr.run(...)",
    "sink_parquet": "stream.write.parquet(...), then hr.run(...)",
    "join_where": 'stream.interval_join(other, "id", before="5s", after="10s")',
    "join_asof": 'stream.asof_join(other, "id", tolerance="10s")',
    "intervalJoin": 'stream.interval_join(other, "id", before="5s", after="10s")',
    "columns": "stream.schema.names",
    "dtypes": "stream.schema",
    "printSchema": "stream.schema",
    "cache": "nothing: one run computes what several outputs share once",
    "persist": "nothing: one run computes what several outputs share once",
}
_AGG = '.agg(n=hr.count(), total=hr.sum("price"))'
WINDOWED = dict.fromkeys(["count", "sum", "mean", "min", "max", "aggregate", "reduce"], _AGG)
_SLIDING = 'hr.sliding("10s", every="1s")'
PACKAGE = {
    "hopping": _SLIDING,
    "hop": _SLIDING,
    "std": 'hr.stddev("price")',
    "n_unique": 'hr.count_distinct("user")',
    "countDistinct": 'hr.count_distinct("user")',
    "approx_n_unique": 'hr.approx_count_distinct("user")',
    "percentile_approx": 'hr.quantile("ms", 0.99)',
    "median": 'hr.quantile("ms", 0.5)',
    "var": 'hr.variance("price")',
    "window": 'stream.window(hr.tumbling("10s"))',
    "avg": 'hr.mean("price")',
    "F": "functions stand on headrace itself: hr.when, hr.sum, hr.concat",
    "functions": "functions stand on headrace itself: hr.when, hr.sum, hr.concat",
    "max_horizontal": "hr.greatest(a, b)",
    "min_horizontal": "hr.least(a, b)",
    "expr": 'expressions are Python: col("a") + 1',
    "scan_parquet": "hr.read.parquet(...)",
    "read_parquet": "hr.read.parquet(...)",
    "scan_csv": "hr.read.csv reads such files",
    "read_csv": "hr.read.csv reads such files",
    "DataFrame": "hr.read.memory(...) reads a frame, a table or a dict",
    "from_dict": "hr.read.memory({...})",
    "str": "hr.string",
    "int": "hr.int64",
    "float": "hr.float64",
    "bool": "hr.bool_",
    "datetime": "hr.timestamp",
}


class UnknownName(PipelineError, AttributeError):
    """A name that is not there, with what is there in its place."""


def unknown(what: str, name: str, habits: dict[str, str], there: Iterable[str]) -> UnknownName:
    """The error for a name that an object has not.

    >>> unknown("a stream", "filtr", STREAM, ["filter", "select"]).fix
    "did you mean 'filter'?"
    >>> unknown("a stream", "where", STREAM, []).fix
    'stream.filter(col("price") > 1)'
    """
    if name.startswith("_"):  # what Python itself looks for
        return UnknownName(f"{what} has no {name!r}")
    import difflib  # only for this message

    near = difflib.get_close_matches(name, [n for n in there if not n.startswith("_")], n=1)
    fix = habits.get(name) or (f"did you mean {near[0]!r}?" if near else "")
    return UnknownName(f"{what} has no {name!r}", site=caller_site(), fix=fix)
