"""All kinds of aggregates by their names."""

from __future__ import annotations

from ..expressions import Aggregate
from .base import Kind
from .count import Count
from .custom import UserDefined
from .distinct import CountDistinct
from .ends import First, Last
from .extremes import Max, Min
from .lists import Collect, Gather, TopK
from .loglog import ApproximateCountDistinct
from .mean import Mean
from .moments import Deviation, Variance
from .quantile import Quantile
from .sum import Sum

KINDS: dict[str, type[Kind]] = {
    "count": Count,
    "sum": Sum,
    "mean": Mean,
    "min": Min,
    "max": Max,
    "first": First,
    "last": Last,
    "variance": Variance,
    "stddev": Deviation,
    "count_distinct": CountDistinct,
    "approx_count_distinct": ApproximateCountDistinct,
    "quantile": Quantile,
    "collect": Collect,
    "top_k": TopK,
    "gather": Gather,
    "user": UserDefined,
}


def kind_of(aggregate: Aggregate) -> Kind:
    """The kind of an aggregate.

    >>> type(kind_of(Aggregate("count"))).__name__
    'Count'
    """
    return KINDS[aggregate.kind](aggregate.argument)
