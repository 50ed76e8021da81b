"""What an expression is: `Expr`, `col` and `lit`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, runtime_checkable

import numpy as np

from ..habits import EXPRESSION, unknown
from ..plan.checks import Place
from ..plan.errors import PipelineError
from ..plan.expression_types import ExpressionError
from ..plan.expressions import (
    Binary,
    Cast,
    Coalesce,
    Column,
    Expression,
    IsIn,
    IsNull,
    KeyHash,
    Literal,
    Unary,
)
from ..plan.literals import to_literal
from ..plan.site import caller_site
from ..plan.types import DataType, as_type
from .mathematics import Mathematics, builtin

if TYPE_CHECKING:
    from .nested import Lists, Structs
    from .strings import Strings
    from .times import Times


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expr(Mathematics):
    """A value computed from the columns of each row; made by `col`, `lit` and operators on them.

    >>> col("a") + 1
    Expr(a + 1)
    """

    node: Expression

    __array_ufunc__ = None  # numpy scalars leave operators to us

    def __repr__(self) -> str:
        said = str(self.node)
        return f"Expr{said}" if isinstance(self.node, Binary) else f"Expr({said})"

    def __add__(self, other: Any) -> Expr:
        return _binary("+", self, other)

    def __radd__(self, other: Any) -> Expr:
        return _binary("+", other, self)

    def __sub__(self, other: Any) -> Expr:
        return _binary("-", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return _binary("-", other, self)

    def __mul__(self, other: Any) -> Expr:
        return _binary("*", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return _binary("*", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _binary("/", other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return _binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return _binary("//", other, self)

    def __mod__(self, other: Any) -> Expr:
        return _binary("%", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return _binary("%", other, self)

    def __and__(self, other: Any) -> Expr:
        return _binary("&", self, other)

    def __rand__(self, other: Any) -> Expr:
        return _binary("&", other, self)

    def __or__(self, other: Any) -> Expr:
        return _binary("|", self, other)

    def __ror__(self, other: Any) -> Expr:
        return _binary("|", other, self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return _binary("==", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return _binary("!=", self, other)

    def __lt__(self, other: Any) -> Expr:
        return _binary("<", self, other)

    def __le__(self, other: Any) -> Expr:
        return _binary("<=", self, other)

    def __gt__(self, other: Any) -> Expr:
        return _binary(">", self, other)

    def __ge__(self, other: Any) -> Expr:
        return _binary(">=", self, other)

    def __pow__(self, other: Any) -> Expr:
        return builtin("power", self, other)

    def __rpow__(self, other: Any) -> Expr:
        return builtin("power", other, self)

    def __neg__(self) -> Expr:
        return Expr(Unary("-", self.node))

    def __abs__(self) -> Expr:
        return Expr(Unary("abs", self.node))

    def __invert__(self) -> Expr:
        return Expr(Unary("~", self.node))

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise mistake(
            f"{self.node} is not true or false: it has a value only for rows",
            "use & and | instead of and/or, ~ instead of not, each comparison in parentheses, "
            ".between(a, b) instead of a <= x <= b, .is_in([...]) instead of in, hr.when(...) "
            "instead of if, and hr.least and hr.greatest instead of min and max",
        )

    def __iter__(self) -> NoReturn:
        raise mistake(
            f"{self.node} is one value for each row, and nothing to loop over",
            "use hr.sum(...) and the like in agg(...), or stream.explode(...) for lists",
        )

    def _no_number(self) -> NoReturn:
        raise mistake(
            f"{self.node} is no number before a row comes",
            'use .cast("int64") or .cast("float64"), .sqrt(), .log() and the like',
        )

    __int__ = __float__ = _no_number

    def __round__(self, decimals: int = 0) -> Expr:
        return self.round(decimals)

    def __getattr__(self, name: str) -> NoReturn:
        from .strings import Strings
        from .times import Times

        spaces = ("dt", Times), ("str", Strings)
        inside = {n: f".{space}.{n}(...)" for space, of in spaces for n in vars(of)}
        raise unknown("an expression", name, inside | EXPRESSION, dir(type(self)))

    def __contains__(self, item: object) -> NoReturn:
        raise mistake(
            f"`in` does not work on {self.node}: it has a value only for rows",
            "use .is_in([...]), or .contains(text) for a piece of a string",
        )

    def is_null(self) -> Expr:
        """Is the value null?

        >>> col("a").is_null()
        Expr(is_null(a))
        """
        return Expr(IsNull(self.node))

    def is_not_null(self) -> Expr:
        """Is there a value?

        >>> col("a").is_not_null()
        Expr(~is_null(a))
        """
        return Expr(Unary("~", IsNull(self.node)))

    def fill_null(self, value: Any) -> Expr:
        """The value, or another where it is null.

        >>> col("a").fill_null(0)
        Expr(coalesce(a, 0))
        """
        return Expr(Coalesce(self.node, as_node(value)))

    def is_in(self, values: Iterable[Any]) -> Expr:
        """Is the value one of some constants?

        >>> col("kind").is_in(["view", "click"])
        Expr(kind in ('view', 'click'))
        """
        return Expr(IsIn(self.node, _choices(values)))

    def between(self, low: Any, high: Any, closed: str = "both") -> Expr:
        """Does the value lie between two others? `closed` says which of them belong to it: "both",
        "left", "right" or "none".

        >>> col("a").between(1, 5), col("a").between(1, 5, "left")
        (Expr((a >= 1) & (a <= 5)), Expr((a >= 1) & (a < 5)))
        """
        if closed not in ("both", "left", "right", "none"):
            raise mistake(f"closed={closed!r} is no way", 'use "both", "left", "right" or "none"')
        above = _binary(">=" if closed in ("both", "left") else ">", self, low)
        below = _binary("<=" if closed in ("both", "right") else "<", self, high)
        return _binary("&", above, below)

    def cast(self, to: Any, *, strict: bool = True) -> Expr:
        """The value in another type: numbers, truth values, times and strings.

        strict: a value that does not fit is an error when rows come; otherwise it is null.

        >>> col("a").cast("int8"), col("s").cast(float, strict=False)
        (Expr(cast(a, int8)), Expr(try_cast(s, float64)))
        """
        return Expr(Cast(self.node, type_from(to), bool(strict)))

    def hash(self) -> Expr:
        """A hash of the value, the same for ever and everywhere; null has one too.

        >>> col("user").hash()
        Expr(hash(user))
        """
        return Expr(KeyHash((self.node,)))

    # ---- functions of some types -----------------------------------------------------------

    @property
    def str(self) -> Strings:
        """The functions of strings.

        >>> col("s").str.strip_chars().str.len_chars()
        Expr(length(strip(s, '')))
        """
        from .strings import Strings

        return Strings(self)

    @property
    def dt(self) -> Times:
        """The functions of dates, timestamps and durations.

        >>> col("t").dt.hour()
        Expr(hour(t))
        """
        from .times import Times

        return Times(self)

    @property
    def struct(self) -> Structs:
        """The functions of structs.

        >>> col("position").struct.field("lat")
        Expr(field(position, 'lat'))
        """
        from .nested import Structs

        return Structs(self)

    @property
    def list(self) -> Lists:
        """The functions of lists.

        >>> col("tags").list.len()
        Expr(list_length(tags))
        """
        from .nested import Lists

        return Lists(self)

    def length(self) -> Expr:
        """The number of characters of a string.

        >>> col("s").length()
        Expr(length(s))
        """
        return builtin("length", self)

    def starts_with(self, prefix: Any) -> Expr:
        """Does a string begin with another?

        >>> col("s").starts_with("ab")
        Expr(starts_with(s, 'ab'))
        """
        return builtin("starts_with", self, prefix)

    def ends_with(self, suffix: Any) -> Expr:
        """Does a string end with another?

        >>> col("s").ends_with("yz")
        Expr(ends_with(s, 'yz'))
        """
        return builtin("ends_with", self, suffix)

    def contains(self, piece: Any) -> Expr:
        """Does a string have another inside?

        >>> col("s").contains("mm")
        Expr(contains(s, 'mm'))
        """
        return builtin("contains", self, piece)

    def upper(self) -> Expr:
        """A string in upper case.

        >>> col("s").upper()
        Expr(upper(s))
        """
        return builtin("upper", self)

    def lower(self) -> Expr:
        """A string in lower case.

        >>> col("s").lower()
        Expr(lower(s))
        """
        return builtin("lower", self)


def col(name: str) -> Expr:
    """The column of a name.

    >>> col("user") == "ada"
    Expr(user == 'ada')
    """
    if not isinstance(name, str) or not name:
        raise mistake(f"col({name!r}) names no column", "give the column's name as a string")
    return Expr(Column(name))


def lit(value: Any, type: Any = None) -> Expr:
    """A constant; `type` is needed only for None, and where another type than the usual is meant.

    >>> lit(3), lit(None, str)
    (Expr(3), Expr(null))
    """
    try:
        return Expr(to_literal(value, None if type is None else type_from(type)))
    except ExpressionError as error:
        raise mistake(error.what, error.fix) from None


@runtime_checkable
class Unfinished(Protocol):
    """Something that is easily taken for a value of a row, but is none."""

    def unfinished(self) -> PipelineError:
        """Why it is no value, and what makes it one."""
        ...


def as_node(value: Any) -> Expression:
    """The plan's expression of an Expr or a constant."""
    return as_expr(value).node


def named_nodes(columns: Mapping[str, Any], place: Place) -> list[tuple[str, Expression]]:
    """New columns by name; a text alone could mean a column or a constant."""
    for name, made in columns.items():
        if isinstance(made, str):
            raise place.error(
                f"{name}={made!r} could be a column or a text",
                f"write col({made!r}) or hr.lit({made!r})",
            )
    return [(name, as_node(made)) for name, made in columns.items()]


def as_expr(value: Any) -> Expr:
    """An Expr as it is, or a constant as an Expr."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, Unfinished):
        raise value.unfinished()
    return lit(value)


def _binary(op: str, left: Any, right: Any) -> Expr:
    if left is None or right is None:
        known = right if left is None else left
        if op in ("==", "!="):
            fix = ".is_null()" if op == "==" else ".is_not_null()"
            raise mistake(f"{known.node} {op} None is never true", f"use {fix}")
    return Expr(Binary(op, as_node(left), as_node(right)))


def column_or_name(of: Expr | str) -> Expression:
    """An operand where a string names a column."""
    if isinstance(of, str):
        return col(of).node
    if isinstance(of, Expr):
        return of.node
    raise mistake(f"{of!r} is neither a column's name nor an expression", 'hr.sum("price")')


def _choices(values: Iterable[Any]) -> tuple[Literal, ...]:
    if isinstance(values, str | bytes | Expr) or not isinstance(values, Iterable):
        raise mistake(f"is_in({values!r}) needs a list of constants", ".is_in([1, 2, 3])")
    # A set has another order in each process; the plan (and a kernel's cache) must not.
    items = sorted(values, key=repr) if isinstance(values, set | frozenset) else list(values)
    if any(isinstance(item, Expr) for item in items):
        raise mistake("is_in() takes constants, not columns", "use (a == b) | (a == c)")
    if any(item is None for item in items):
        raise mistake("is_in() with None is never true for a null", "use | x.is_null()")
    choices = tuple(as_node(item) for item in items)
    return tuple(choice for choice in choices if isinstance(choice, Literal))


def type_from(given: Any) -> DataType:
    """A type that the user gives."""
    try:
        if isinstance(given, np.dtype):
            given = given.name
        return as_type(given)
    except TypeError as error:
        raise mistake(str(error), "") from None


def no_condition(given: Any, place: Place) -> PipelineError:
    """What to say of something that is no condition on columns."""
    if callable(given):
        fix = "compare columns, as in col('price') > 1, or call a function that @hr.udf decorates"
        return place.error("a function is not a condition on columns", fix)
    if isinstance(given, bool):
        fix = "use e.g. col('price') > 1, or .is_null(); `is` and `not` are Python's own"
        return place.error(f"{given} is not a condition on columns", fix)
    return place.error(f"{given!r} is not a condition on columns", "use e.g. col('price') > 1")


def mistake(what: str, fix: str) -> PipelineError:
    """An error at the user's line."""
    return PipelineError(what, site=caller_site(), fix=fix)
