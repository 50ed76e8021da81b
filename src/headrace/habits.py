"""Names that people bring along from Polars, PySpark, pandas and Flink, and what they are here."""

from __future__ import annotations

from collections.abc import Iterable

from .plan.errors import PipelineError
from .plan.site import caller_site

_AGGREGATE = 'stream.key_by("user").window(hr.tumbling("10s")).agg(n=hr.count())'
_WITH = 'stream.with_columns(total=col("price") * col("count"))'
_SORT = (
    "rows of a stream have no end to sort by: stream.sort_by_time() goes by event time; sort the "
    "result of a run, or aggregate by window"
)

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
    "merge_sorted": "stream.merge(other), by event time",
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
    "coGroup": 'stream.co_group(other, "id", hr.tumbling("10s"), function, output="n")',
    "intervalJoin": 'stream.interval_join(other, "id", before="5s", after="10s")',
    "columns": "stream.schema.names",
    "dtypes": "stream.schema",
    "printSchema": "stream.schema",
    "write_csv": "stream.write.csv(path), then hr.run(...)",
    "write_parquet": "stream.write.parquet(path), then hr.run(...)",
    "to_csv": "stream.write.csv(path), then hr.run(...)",
    "to_parquet": "stream.write.parquet(path), then hr.run(...)",
    "iter_rows": "stream.write.callback(function), or stream.head(10).to_pylist()",
    "cache": "nothing: one run computes what several outputs share once",
    "persist": "nothing: one run computes what several outputs share once",
}
_AGG = '.agg(n=hr.count(), total=hr.sum("price"))'
WINDOWED = dict.fromkeys(["count", "sum", "mean", "min", "max", "aggregate", "reduce"], _AGG)
_IN_AGG = 'an aggregate of a stream: .agg(total=hr.sum("price")), or hr.mean, hr.min, hr.max, ...'
_BEFORE = "rows know no others: stream.process keeps a state for each key"
EXPRESSION = {
    **dict.fromkeys(["sum", "mean", "min", "max", "count", "avg", "std", "var", "median"], _IN_AGG),
    **dict.fromkeys(["first", "last", "n_unique", "nunique", "quantile"], _IN_AGG),
    **dict.fromkeys(["shift", "diff", "lag", "lead", "rolling_mean", "cum_sum", "cumsum"], _BEFORE),
    "over": 'stream.key_by("user").running(total=hr.sum("price"))',
    "alias": "stream.select(total=...) and with_columns(total=...) give names",
    "name": "stream.select(total=...) and with_columns(total=...) give names",
    "isNull": ".is_null()",
    "isna": ".is_null()",
    "isNotNull": ".is_not_null()",
    "notna": ".is_not_null()",
    "isin": ".is_in([...])",
    "fillna": ".fill_null(0)",
    "astype": '.cast("int64")',
    "startswith": '.starts_with("a")',
    "endswith": '.ends_with("a")',
    "rlike": '.str.contains("a.*b")',
    "substr": ".str.slice(0, 3)",
    "apply": "a function that @hr.udf decorates: f(col(...))",
    "map": "a function that @hr.udf decorates: f(col(...))",
    "map_elements": "a function that @hr.udf decorates: f(col(...))",
    "getItem": ".list.get(0) of lists, .struct.field(...) of structs",
    "otherwise": "hr.when(condition).then(a).otherwise(b)",
    "asc": _SORT,
    "desc": _SORT,
}
STRINGS = {
    "lower": ".str.to_lowercase()",
    "upper": ".str.to_uppercase()",
    "len": ".str.len_chars()",
    "strip": ".str.strip_chars()",
    "startswith": '.str.starts_with("a")',
    "endswith": '.str.ends_with("a")',
    "split": '.str.split_part(",", 0)',
    "strptime": '.str.to_datetime("%Y-%m-%d")',
    "concat": "hr.concat(a, b)",
    "json_decode": '.str.json_path_match("$.user.name"), or read.json with a schema',
}
TIMES = {
    "dayofweek": ".dt.weekday()",
    "dayofyear": ".dt.ordinal_day()",
    "floor": '.dt.truncate("1h")',
    "to_string": '.dt.strftime("%H:%M")',
    "timestamp": ".dt.epoch()",
}
_JSON = 'col("s").str.json_path_match("$.user.name")'
_SLIDING = 'hr.sliding("10s", every="1s")'
PACKAGE = {
    "get_json_object": _JSON,
    "from_json": _JSON,
    "hopping": _SLIDING,
    "hop": _SLIDING,
    "std": 'hr.stddev("price")',
    "n_unique": 'hr.count_distinct("user")',
    "countDistinct": 'hr.count_distinct("user")',
    "approx_n_unique": 'hr.approx_count_distinct("user")',
    "percentile_approx": 'hr.quantile("ms", 0.99)',
    "median": 'hr.quantile("ms", 0.5)',
    "collect_list": 'hr.collect("page", 100)',
    "array_agg": 'hr.collect("page", 100)',
    "implode": 'hr.collect("page", 100)',
    "max_by": 'hr.top_k("page", 1, by="views")',
    "top_k_by": 'hr.top_k("page", 3, by="views")',
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
