"""Expressions over the columns of one row, as frozen nodes.

A node knows only its parts; `expression_types.type_of` gives its type against a schema, and the
stage compiles it. `headrace.expr` wraps nodes in the operators that users write.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast, dataclass_transform

from .errors import PipelineError
from .functions import Function
from .site import Site, caller_site
from .types import DataType

ARITHMETIC = ("+", "-", "*", "/", "//", "%")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


DEEPEST = 2_500  # expressions inside each other, as in a sum of so many terms
_FRAMES = 10  # that one of them takes at most, in whatever goes through it
_SHALLOW = 50  # so many need no more room than Python gives anyway


@dataclass(frozen=True)
class Expression:
    """The base of all expression nodes.

    A sum of a thousand terms is a thousand expressions inside each other: what is asked of each of
    them again and again (its hash, its depth) is remembered.
    """

    def __post_init__(self) -> None:
        depth = 1 + max((part.depth for part in self.parts()), default=0)
        self.__dict__["depth"] = depth
        _make_room(depth)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _make_room(self.depth)

    @property
    def depth(self) -> int:
        """How many expressions lie inside each other here, this one included."""
        return int(self.__dict__["depth"])

    @property
    def _names(self) -> tuple[str, ...]:
        return self.__match_args__  # the fields of a dataclass

    def parts(self) -> Iterator[Expression]:
        """The expressions directly inside this one."""
        for name in self._names:
            value = getattr(self, name)
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, Expression):
                    yield item

    def rebuild(self, change: Callable[[Expression], Expression]) -> Expression:
        """The same node with each direct part changed."""
        changed: dict[str, Any] = {}
        for name in self._names:
            value = getattr(self, name)
            if isinstance(value, Expression):
                changed[name] = change(value)
            elif isinstance(value, tuple) and any(isinstance(v, Expression) for v in value):
                changed[name] = tuple(change(v) if isinstance(v, Expression) else v for v in value)
        return replace(self, **changed) if changed else self


def _make_room(depth: int) -> None:
    """Let functions that call themselves for each part reach the bottom of an expression."""
    if depth > DEEPEST:
        raise PipelineError(
            f"more than {DEEPEST:,} expressions lie inside each other",
            site=caller_site(),
            fix="make columns of its parts first, with with_columns, or use @hr.udf",
        )
    if depth > _SHALLOW:
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 1_000 + depth * _FRAMES))


Kind = TypeVar("Kind", bound=type[Expression])


@dataclass_transform(frozen_default=True)
def _expression(kind: Kind) -> Kind:
    """A dataclass whose hash is computed once, from those of its parts."""
    made: Any = dataclass(frozen=True)(kind)
    computed = made.__hash__

    def remembered(self: Expression) -> int:
        known = self.__dict__.get("_hash")
        if known is None:
            known = self.__dict__["_hash"] = computed(self)
        return int(known)

    made.__hash__ = remembered
    return cast(Kind, made)


@_expression
class Column(Expression):
    """The value of a column."""

    name: str

    def __str__(self) -> str:
        return self.name


@_expression
class Literal(Expression):
    """A constant in its stored form: timestamps in microseconds, dates in days; None is null."""

    value: Any
    type: DataType

    def __str__(self) -> str:
        return "null" if self.value is None else repr(self.value)


@_expression
class Binary(Expression):
    """An arithmetic operation, a comparison, or & and | (three-valued)."""

    op: str
    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"({self.left} {self.op} {self.right})"


@_expression
class Unary(Expression):
    """Negation ("-"), logical not ("~"), or "abs"."""

    op: str
    operand: Expression

    def __str__(self) -> str:
        return f"abs({self.operand})" if self.op == "abs" else f"{self.op}{self.operand}"


@_expression
class Cast(Expression):
    """A value in another type; what does not fit is an error, or null where it is not strict."""

    operand: Expression
    type: DataType
    strict: bool = True

    def __str__(self) -> str:
        name = "cast" if self.strict else "try_cast"
        return f"{name}({self.operand}, {self.type.name})"


@_expression
class IsNull(Expression):
    """Is the value null? Never null itself."""

    operand: Expression

    def __str__(self) -> str:
        return f"is_null({self.operand})"


@_expression
class Coalesce(Expression):
    """The first value, or the second where the first is null."""

    operand: Expression
    other: Expression

    def __str__(self) -> str:
        return f"coalesce({self.operand}, {self.other})"


@_expression
class When(Expression):
    """The value of the first true condition, else `otherwise`; conditions[i] is for values[i]."""

    conditions: tuple[Expression, ...]
    values: tuple[Expression, ...]
    otherwise: Expression | None

    def __str__(self) -> str:
        pairs = zip(self.conditions, self.values, strict=True)
        cases = ", ".join(f"{condition}: {value}" for condition, value in pairs)
        return f"when({cases}, else {self.otherwise if self.otherwise is not None else 'null'})"


@_expression
class IsIn(Expression):
    """Is the value one of some constants?"""

    operand: Expression
    choices: tuple[Literal, ...]

    def __str__(self) -> str:
        return f"{self.operand} in ({', '.join(map(str, self.choices))})"


@_expression
class Extreme(Expression):
    """The least or the greatest of some values, those that are null left out."""

    op: str  # "least" or "greatest"
    operands: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.operands))})"


@_expression
class Builtin(Expression):
    """A function of `plan.builtins`; of times, perhaps in a time zone; casts have a type."""

    op: str
    operands: tuple[Expression, ...]
    zone: str = ""
    type: DataType | None = None

    def __str__(self) -> str:
        said = [*map(str, self.operands), *([f"zone={self.zone}"] if self.zone else [])]
        said += [repr(self.type)] if self.type else []
        return f"{self.op}({', '.join(said)})"


@_expression
class Call(Expression):
    """One result of a compiled user function; equal calls are made once per row."""

    function: Function
    operands: tuple[Expression, ...]
    result: int = 0

    def __str__(self) -> str:
        made = f"{self.function.name}({', '.join(map(str, self.operands))})"
        return made if len(self.function.outputs) == 1 else f"{made}[{self.result}]"


@_expression
class KeyHash(Expression):
    """The hash of a key, which gives its key group; made by the planner at exchanges. With `part`,
    one of so many `parts`, that is the group, in place of a part of the hash."""

    operands: tuple[Expression, ...]
    part: Expression | None = None
    parts_in_all: int = 0

    def __str__(self) -> str:
        said = ", ".join(map(str, self.operands))
        return f"hash({said})" if self.part is None else f"hash({said}, part={self.part})"


@_expression
class RowPlace(Expression):
    """The place of a row among all that cross an exchange; made by the planner."""

    def __str__(self) -> str:
        return "place()"


@dataclass(frozen=True, eq=False)
class UnboundCall(Expression):
    """A call of a user function before its argument types are known; building resolves it."""

    callable: Callable[..., Any]
    name: str
    operands: tuple[Expression, ...]
    returns: DataType | None  # the type the user declared, if any
    site: Site

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.operands))})"


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of an expression over the rows of a window (None: of rows).

    kind: its name in `aggregates.kinds`. argument: what else the user gave. by: what values are
    ordered by, for kinds that look at it: the event time of rows, if nothing else was given.
    """

    kind: str
    operand: Expression | None = None
    argument: Any = None
    by: Expression | None = None

    def __str__(self) -> str:
        given = [str(each) for each in (self.operand, self.argument) if each is not None]
        if self.by is not None:
            given.append(f"by {self.by}")
        return f"{self.kind}({', '.join(given)})"

    def operands(self) -> tuple[Expression, ...]:
        """What it reads of a row."""
        return tuple(each for each in (self.operand, self.by) if each is not None)


def columns_of(expression: Expression) -> frozenset[str]:
    """The names of the columns an expression reads.

    >>> sorted(columns_of(Binary("+", Column("a"), Column("b"))))
    ['a', 'b']
    """
    if isinstance(expression, Column):
        return frozenset([expression.name])
    return frozenset().union(*map(columns_of, expression.parts()))


def substitute(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """The expression with columns replaced by other expressions.

    >>> str(substitute(Binary("+", Column("a"), Column("b")), {"a": Column("x")}))
    '(x + b)'
    """
    if isinstance(expression, Column):
        return values.get(expression.name, expression)
    return expression.rebuild(lambda part: substitute(part, values))
