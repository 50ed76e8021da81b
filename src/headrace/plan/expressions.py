"""Expressions over the columns of one row, as frozen nodes.

A node knows only its parts; `expression_types.type_of` gives its type against a schema, and the
stage compiles it. `headrace.expr` wraps nodes in the operators that users write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from .functions import Function
from .site import Site
from .types import DataType

ARITHMETIC = ("+", "-", "*", "/", "//", "%")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Expression:
    """The base of all expression nodes."""

    def parts(self) -> Iterator[Expression]:
        """The expressions directly inside this one."""
        for field in fields(self):
            value = getattr(self, field.name)
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, Expression):
                    yield item

    def rebuild(self, change: Callable[[Expression], Expression]) -> Expression:
        """The same node with each direct part changed."""
        changed: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Expression):
                changed[field.name] = change(value)
            elif isinstance(value, tuple) and any(isinstance(v, Expression) for v in value):
                changed[field.name] = tuple(
                    change(v) if isinstance(v, Expression) else v for v in value
                )
        return replace(self, **changed) if changed else self


@dataclass(frozen=True)
class Column(Expression):
    """The value of a column."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Literal(Expression):
    """A constant in its stored form: timestamps in microseconds, dates in days; None is null."""

    value: Any
    type: DataType

    def __str__(self) -> str:
        return "null" if self.value is None else repr(self.value)


@dataclass(frozen=True)
class Binary(Expression):
    """An arithmetic operation, a comparison, or & and | (three-valued)."""

    op: str
    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"({self.left} {self.op} {self.right})"


@dataclass(frozen=True)
class Unary(Expression):
    """Negation ("-"), logical not ("~"), or "abs"."""

    op: str
    operand: Expression

    def __str__(self) -> str:
        return f"abs({self.operand})" if self.op == "abs" else f"{self.op}{self.operand}"


@dataclass(frozen=True)
class Cast(Expression):
    """A value in another type; what does not fit is an error."""

    operand: Expression
    type: DataType

    def __str__(self) -> str:
        return f"cast({self.operand}, {self.type.name})"


@dataclass(frozen=True)
class IsNull(Expression):
    """Is the value null? Never null itself."""

    operand: Expression

    def __str__(self) -> str:
        return f"is_null({self.operand})"


@dataclass(frozen=True)
class Coalesce(Expression):
    """The first value, or the second where the first is null."""

    operand: Expression
    other: Expression

    def __str__(self) -> str:
        return f"coalesce({self.operand}, {self.other})"


@dataclass(frozen=True)
class When(Expression):
    """The value of the first true condition, else `otherwise`; conditions[i] is for values[i]."""

    conditions: tuple[Expression, ...]
    values: tuple[Expression, ...]
    otherwise: Expression | None

    def __str__(self) -> str:
        pairs = zip(self.conditions, self.values, strict=True)
        cases = ", ".join(f"{condition}: {value}" for condition, value in pairs)
        return f"when({cases}, else {self.otherwise if self.otherwise is not None else 'null'})"


@dataclass(frozen=True)
class IsIn(Expression):
    """Is the value one of some constants?"""

    operand: Expression
    choices: tuple[Literal, ...]

    def __str__(self) -> str:
        return f"{self.operand} in ({', '.join(map(str, self.choices))})"


@dataclass(frozen=True)
class TextCall(Expression):
    """A string function: length, starts_with, ends_with, contains, upper, lower, concat."""

    op: str
    operands: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.operands))})"


@dataclass(frozen=True)
class Call(Expression):
    """One result of a compiled user function; equal calls are made once per row."""

    function: Function
    operands: tuple[Expression, ...]
    result: int = 0

    def __str__(self) -> str:
        made = f"{self.function.name}({', '.join(map(str, self.operands))})"
        return made if len(self.function.outputs) == 1 else f"{made}[{self.result}]"


@dataclass(frozen=True)
class KeyHash(Expression):
    """The hash of a key, which gives its key group; made by the planner at exchanges."""

    operands: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"hash({', '.join(map(str, self.operands))})"


@dataclass(frozen=True)
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
    """count, sum, mean, min or max of an expression over the rows of a window (None: of rows)."""

    kind: str
    operand: Expression | None = None

    def __str__(self) -> str:
        return f"{self.kind}({'' if self.operand is None else self.operand})"


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
