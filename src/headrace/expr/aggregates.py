"""Aggregates over the rows of a window."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from ..plan.aggregates.custom import TYPES, Custom
from ..plan.aggregates.lists import MOST_ITEMS
from ..plan.aggregates.quantile import Share
from ..plan.errors import PipelineError
from ..plan.expressions import Aggregate
from ..plan.functions import Limit
from .functions import plain
from .values import Expr, column_or_name, mistake

LOGLOG_ERROR = 1.04  # of a HyperLogLog with one register


@dataclass(frozen=True, slots=True, repr=False)
class Agg:
    """An aggregate over the rows of a window: what `agg` takes."""

    node: Aggregate

    def __repr__(self) -> str:
        return f"Agg({self.node})"

    def unfinished(self) -> PipelineError:
        """It is a value of a window, not of a row."""
        return mistake(
            f"aggregates such as {self.node} cannot be part of an expression",
            "give each a name in agg(...), then compute with them in with_columns(...)",
        )

    def _no_operator(self, other: Any = None) -> NoReturn:
        raise self.unfinished()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _no_operator
    __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __neg__ = _no_operator
    __lt__ = __le__ = __gt__ = __ge__ = _no_operator


def count(of: Expr | str | None = None) -> Agg:
    """The number of rows, or of the values of a column that are not null.

    >>> count(), count("user")
    (Agg(count()), Agg(count(user)))
    """
    return Agg(Aggregate("count", None if of is None else column_or_name(of)))


def sum_(of: Expr | str) -> Agg:
    """The sum of the values that are not null.

    >>> from headrace.expr import col
    >>> sum_(col("price") * col("count"))
    Agg(sum((price * count)))
    """
    return Agg(Aggregate("sum", column_or_name(of)))


def mean(of: Expr | str) -> Agg:
    """The mean of the values that are not null.

    >>> mean("price")
    Agg(mean(price))
    """
    return Agg(Aggregate("mean", column_or_name(of)))


def min_(of: Expr | str) -> Agg:
    """The smallest value that is not null.

    >>> min_("price")
    Agg(min(price))
    """
    return Agg(Aggregate("min", column_or_name(of)))


def max_(of: Expr | str) -> Agg:
    """The largest value that is not null.

    >>> max_("price")
    Agg(max(price))
    """
    return Agg(Aggregate("max", column_or_name(of)))


def first(of: Expr | str) -> Agg:
    """The first value that is not null, by event time; of equal times, by the order of rows.

    >>> first("price")
    Agg(first(price))
    """
    return Agg(Aggregate("first", column_or_name(of)))


def last(of: Expr | str) -> Agg:
    """The last value that is not null, by event time; of equal times, by the order of rows.

    >>> last("price")
    Agg(last(price))
    """
    return Agg(Aggregate("last", column_or_name(of)))


def variance(of: Expr | str, ddof: int = 1) -> Agg:
    """The variance of the values that are not null; null where there are no more than `ddof`.

    >>> variance("price")
    Agg(variance(price, 1))
    """
    return Agg(Aggregate("variance", column_or_name(of), _ddof(ddof)))


def stddev(of: Expr | str, ddof: int = 1) -> Agg:
    """The standard deviation of the values that are not null: the root of `variance`.

    >>> stddev("price", ddof=0)
    Agg(stddev(price, 0))
    """
    return Agg(Aggregate("stddev", column_or_name(of), _ddof(ddof)))


def count_distinct(of: Expr | str) -> Agg:
    """The number of different values that are not null, exactly. They are all kept.

    >>> count_distinct("user")
    Agg(count_distinct(user))
    """
    return Agg(Aggregate("count_distinct", column_or_name(of)))


def approx_count_distinct(of: Expr | str, error: float = 0.02) -> Agg:
    """About the number of different values that are not null, by HyperLogLog.

    error: the standard error, relative, which two thirds of all results are nearer than. For each
    key and pane it keeps about (1.04 / error) ** 2 bytes, from 16 up to 65536: 4096 for 0.02.

    >>> approx_count_distinct("user")
    Agg(approx_count_distinct(user, 12))
    """
    if not isinstance(error, float) or not LOGLOG_ERROR / 2**8 <= error <= LOGLOG_ERROR / 2**2:
        raise mistake(f"error={error!r} is not a number from 0.00407 to 0.26", "error=0.02")
    bits = math.ceil(2 * math.log2(LOGLOG_ERROR / error))
    return Agg(Aggregate("approx_count_distinct", column_or_name(of), bits))


def quantile(of: Expr | str, share: float, error: float = 0.01) -> Agg:
    """The value below which a share of the values lies that are not null, by DDSketch.

    error: the result is as near to the true quantile as this share of it, in every case. Of n
    values in order, that is the one at place `share * (n - 1)`, rounded down.

    >>> quantile("ms", 0.99)
    Agg(quantile(ms, 0.99 ± 1.000%))
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise mistake(f"the quantile {share!r} is not from 0 to 1", 'quantile("ms", 0.99)')
    if not isinstance(error, float) or not 1e-4 <= error <= 0.5:
        raise mistake(f"error={error!r} is not a number from 0.0001 to 0.5", "error=0.01")
    return Agg(Aggregate("quantile", column_or_name(of), Share(float(share), error)))


def collect(of: Expr | str, limit: int, *, on_full: str = "fail") -> Agg:
    """A list of the values that are not null: by event time, and of equal times by the order of
    rows; where there is no event time, by the order of rows.

    limit: the most values, up to a million. More of them are an error, or ("first") the first ones
    are kept: whether some are missing, `count` says.

    >>> collect("page", 100), collect("page", 100, on_full="first")
    (Agg(collect(page, 100 or fail)), Agg(collect(page, 100)))
    """
    if on_full not in ("fail", "first"):
        raise mistake(f'on_full={on_full!r} is neither "fail" nor "first"', 'on_full="first"')
    most = _number_of_items(limit, "limit", 'collect("page", 100)')
    return Agg(Aggregate("collect", column_or_name(of), Limit(most, on_full == "fail")))


def top_k(of: Expr | str, k: int, *, by: Expr | str | None = None) -> Agg:
    """A list of the k largest values that are not null, the largest first.

    by: the values of those k rows in which this number or time is largest, and not null; of equal
    ones, the larger value comes first.

    >>> from headrace.expr import col
    >>> top_k("price", 3), top_k("page", 10, by=col("views") * 2)
    (Agg(top_k(price, 3)), Agg(top_k(page, 10, by (views * 2))))
    """
    most = Limit(_number_of_items(k, "k", 'top_k("price", 3)'))
    given = None if by is None else column_or_name(by)
    return Agg(Aggregate("top_k", column_or_name(of), most, given))


def _number_of_items(given: int, name: str, fix: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MOST_ITEMS:
        raise mistake(f"{name}={given!r} is not a number from 1 to {MOST_ITEMS:,}", fix)
    return given


def aggregate(
    *,
    init: tuple[bool | int | float, ...],
    add: Callable[..., Any],
    merge: Callable[..., Any],
    result: Callable[..., Any],
) -> Callable[[Expr | str], Agg]:
    """An aggregate of your own, of compiled functions over a state of a few numbers.

    init: the state before the first value. add(*state, value): the state with a value that is not
    null. merge(*state, *other): that of two parts together. result(*state): the result.

    >>> product = aggregate(
    ...     init=(1,), add=lambda p, x: p * x, merge=lambda p, q: p * q, result=lambda p: p
    ... )
    >>> product("factor")
    Agg(user(factor, add of lambda))
    """
    for value in init:
        if type(value) not in TYPES:
            raise mistake(f"init={init!r}: {value!r} is not a number", "init=(0, 0.0)")
    if not init:
        raise mistake("init=(): an aggregate keeps something", "init=(0, 0.0)")
    for function in (add, merge, result):
        if not callable(function):
            raise mistake(f"{function!r} is not a function", "def add(total, value): ...")
    name = getattr(add, "__name__", "add")
    said = f"add of {'lambda' if name == '<lambda>' else name}"
    custom = Custom(said, tuple(init), plain(add), plain(merge), plain(result))
    return lambda of: Agg(Aggregate("user", column_or_name(of), custom))


def _ddof(given: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise mistake(f"ddof={given!r} is not a number from 0 on", "1 for a sample, 0 for all")
    return given
