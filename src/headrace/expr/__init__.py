"""Expressions over the columns of a stream, as users write them.

    >>> from headrace.expr import col, when
    >>> (col("price") * col("count") > 100) & col("user").is_not_null()
    Expr(((price * count) > 100) & ~is_null(user))
    >>> when(col("n") > 9).then("many").otherwise("few")
    Expr(when((n > 9): 'many', else 'few'))

An expression computes nothing by itself: `filter`, `select`, `with_columns` and `agg` take it.
"""

from __future__ import annotations

from .aggregates import (
    Agg,
    aggregate,
    approx_count_distinct,
    collect,
    count,
    count_distinct,
    first,
    last,
    max_,
    mean,
    min_,
    quantile,
    stddev,
    sum_,
    top_k,
    variance,
)
from .combine import (
    Case,
    Cases,
    coalesce,
    concat,
    from_millis,
    from_seconds,
    greatest,
    hash_,
    least,
    when,
)
from .functions import Udf, plain, udf
from .nested import Lists, Structs
from .strings import Strings
from .times import Times
from .values import Expr, as_node, col, lit, named_nodes

__all__ = [
    "Agg",
    "Case",
    "Cases",
    "Expr",
    "Lists",
    "Strings",
    "Structs",
    "Times",
    "Udf",
    "aggregate",
    "approx_count_distinct",
    "as_node",
    "coalesce",
    "col",
    "collect",
    "concat",
    "count",
    "count_distinct",
    "first",
    "from_millis",
    "from_seconds",
    "greatest",
    "hash_",
    "last",
    "least",
    "lit",
    "max_",
    "mean",
    "min_",
    "named_nodes",
    "plain",
    "quantile",
    "stddev",
    "sum_",
    "top_k",
    "udf",
    "variance",
    "when",
]
