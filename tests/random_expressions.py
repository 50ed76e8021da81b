"""Random expressions over the columns of a schema."""

from __future__ import annotations

import datetime as dt
from typing import Any

from tests.choices import Choices
from tests.random_rows import value

import headrace as hr
from headrace import col, lit
from headrace.expr import Expr
from headrace.plan.schema import Schema
from headrace.plan.types import SCALARS, DataType, optional

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
PARTS = ("year", "quarter", "month", "week", "day", "ordinal_day", "weekday", "hour", "minute")
ZONES = (None, None, "Europe/Berlin", "America/Havana", "Asia/Kolkata")
ANY_KIND = ("bool", "int", "float", "string", "time", "column")


class Expressions:
    """Makes expressions; `depth` bounds how far they nest."""

    def __init__(self, choose: Choices, schema: Schema) -> None:
        self.choose, self.schema = choose, schema

    def any(self, depth: int = 2) -> Expr:
        """An expression of any type."""
        kind = self.choose.pick(ANY_KIND)
        return self.column() if kind == "column" else getattr(self, f"{kind}_")(depth)

    def column(self) -> Expr:
        """A column, or one of its values where it is null."""
        name = self.choose.pick(self.schema.names)
        kind = self.schema[name]
        if kind.nullable and self.choose.chance(40):
            return col(name).fill_null(self.constant(kind))
        return col(name)

    def constant(self, kind: DataType, null: bool = False) -> Expr:
        """A constant of a type."""
        if null and self.choose.chance(10):
            return lit(None, kind.required)
        return lit(value(self.choose, kind.required), kind.required)

    def _column_of(self, wanted: Any) -> Expr | None:
        names = [field.name for field in self.schema if wanted(field.type)]
        return col(self.choose.pick(names)) if names else None

    # ---- by type ---------------------------------------------------------------------------

    def bool_(self, depth: int = 2) -> Expr:
        """A condition."""
        choose = self.choose
        if depth <= 0:
            return self._compared()
        match choose.number(0, 11):
            case 10:
                pattern = choose.pick(["%a%", "_", "a%e", "%", "", "%\u00e9_", "\\%", "a__%s"])
                return self.string_(depth - 1).str.like(pattern)
            case 11:
                number = self.float_(depth - 1)
                return number.is_nan() if choose.chance(50) else number.is_finite()
            case 0:
                return self.bool_(depth - 1) & self.bool_(depth - 1)
            case 1:
                return self.bool_(depth - 1) | self.bool_(depth - 1)
            case 2:
                return ~self.bool_(depth - 1)
            case 3:
                made = col(choose.pick(self.schema.names))
                return made.is_null() if choose.chance(50) else made.is_not_null()
            case 4:
                return self._is_in()
            case 5:
                text, piece = self.string_(depth - 1), self.string_(0)
                op = choose.pick(["starts_with", "ends_with", "contains"])
                return getattr(text, op)(piece)
            case 6:
                found = self._column_of(lambda kind: kind.name == "bool")
                return self._compared() if found is None else found
            case 7:
                return self.int_(depth - 1).cast("bool")
            case 8:
                number = self.float_ if choose.chance(50) else self.int_
                closed = choose.pick(["both", "left", "right", "none"])
                return number(depth - 1).between(number(0), number(0), closed)
        return self._compared(depth - 1)

    def _compared(self, depth: int = 0) -> Expr:
        choose = self.choose
        op = choose.pick(COMPARISONS)
        if choose.chance(40):  # a column with a constant of its type
            name = choose.pick(self.schema.names)
            return _compare(op, col(name), self.constant(self.schema[name], null=True))
        if choose.chance(30):
            return _compare(op, self.string_(depth), self.string_(depth))
        made = [self.int_(depth) if choose.chance(50) else self.float_(depth) for _ in range(2)]
        return _compare(op, *made)

    def _is_in(self) -> Expr:
        name = self.choose.pick(self.schema.names)
        kind = self.schema[name].required
        many = [value(self.choose, kind) for _ in range(self.choose.number(0, 3))]
        if kind.name in ("timestamp", "duration", "time", "uint64"):
            return col(name).is_null()
        if kind.name == "date":
            many = [dt.date(1970, 1, 1) + dt.timedelta(days=d % 9999) for d in many]
        return col(name).is_in(many)

    def int_(self, depth: int = 2) -> Expr:
        """Whole numbers; rarely so large that they fail."""
        choose = self.choose
        if depth <= 0:
            found = self._column_of(lambda kind: kind.is_integer)
            return found if found is not None and choose.chance(75) else lit(choose.number(-3, 9))
        match choose.number(0, 16):
            case 10:
                return getattr(self.moment().dt, choose.pick(PARTS))(zone=choose.pick(ZONES))
            case 11:
                return self.moment().dt.epoch(choose.pick(["s", "ms", "us"]))
            case 12:
                return self.string_(depth - 1).cast(choose.pick(["int8", "int64"]), strict=False)
            case 13:
                found = self.string_(depth - 1).str
                return choose.pick([found.find, found.count_matches])(self.string_(0))
            case 14:
                number = self.int_ if choose.chance(50) else self.float_
                return number(depth - 1).cast(choose.pick(["int8", "int64"]), strict=False)
            case 15:
                made = choose.pick([hr.least, hr.greatest])
                return made(self.int_(depth - 1), self.int_(0), self.int_(0))
            case 16:
                return choose.pick([
                    lambda n: (n % 9) ** choose.number(0, 5), lambda n: n.sign(),
                    lambda n: n.clip(-2, 5), lambda n: n.round(1), lambda n: n.floor(),
                ])(self.int_(depth - 1))  # fmt: skip
            case 0:
                return self.int_(depth - 1) + self.int_(depth - 1)
            case 1:
                return self.int_(depth - 1) - self.int_(depth - 1)
            case 2:
                return self.int_(depth - 1) * choose.number(-3, 3)
            case 3:
                return self.int_(depth - 1) // choose.pick([2, -3, 7, -1])
            case 4:
                return self.int_(depth - 1) % choose.pick([2, -3, 7, -1])
            case 5:
                return self.string_(depth - 1).length()
            case 6:
                return self.bool_(depth - 1).cast(choose.pick(["int8", "int64"]))
            case 7:
                small = self.int_(depth - 1) % 100
                return small.cast(choose.pick(["int8", "int16", "int32"]))
            case 8:
                return self._when(self.int_, depth)
        return -self.int_(depth - 1) if choose.chance(50) else abs(self.int_(depth - 1))

    def float_(self, depth: int = 2) -> Expr:
        """Floats, NaN and infinities among them."""
        choose = self.choose
        if depth <= 0:
            found = self._column_of(lambda kind: kind.is_float)
            use = found is not None and choose.chance(75)
            return found if use else lit(value(choose, SCALARS["float64"]))
        match choose.number(0, 11):
            case 9:
                return choose.pick([
                    lambda x: x.round(choose.number(-2, 3)), lambda x: x.floor(),
                    lambda x: x.ceil(), lambda x: x.sqrt(), lambda x: x.sign(),
                    lambda x: x.clip(-1.5, 2), lambda x: x.clip(upper=self.float_(0)),
                ])(self.float_(depth - 1))  # fmt: skip
            case 10:
                return self.string_(depth - 1).cast(float, strict=False)
            case 11:
                made = choose.pick([hr.least, hr.greatest])
                return made(self.float_(depth - 1), self.int_(0), self.float_(0))
            case 0:
                return self.float_(depth - 1) + self.int_(depth - 1)
            case 1:
                return self.float_(depth - 1) - self.float_(depth - 1)
            case 2:
                return self.float_(depth - 1) * self.float_(0)
            case 3:
                return self.int_(depth - 1) / choose.pick([2, 4.0, -8])
            case 4:
                return self.float_(depth - 1) // choose.pick([2.0, -0.5, 3])
            case 5:
                return self.float_(depth - 1) % choose.pick([2.0, -0.5, 3])
            case 6:
                return self.int_(depth - 1).cast(choose.pick(["float32", "float64"]))
            case 7:
                return self._when(self.float_, depth)
        return -self.float_(depth - 1) if choose.chance(50) else abs(self.float_(depth - 1))

    def string_(self, depth: int = 2) -> Expr:
        """Strings."""
        choose = self.choose
        if depth <= 0:
            found = self._column_of(lambda kind: kind.name == "string")
            use = found is not None and choose.chance(75)
            return found if use else lit(value(choose, SCALARS["string"]))
        match choose.number(0, 9):
            case 4:
                offset, length = choose.number(-9, 9), choose.number(0, 20)
                return self.string_(depth - 1).str.slice(offset, length)
            case 5:
                old, new = self.string_(0), self.string_(0)
                if choose.chance(50):
                    return self.string_(depth - 1).str.replace_all(old, new, literal=True)
                return self.string_(depth - 1).str.replace(old, new, literal=True)
            case 6:
                by = choose.pick([" ", "e", "\u00e9", "te"])
                return self.string_(depth - 1).str.split_part(by, choose.number(-3, 3))
            case 7:
                return choose.pick([
                    lambda s: s.strip_chars(), lambda s: s.strip_chars_start("ab\u65e5"),
                    lambda s: s.strip_chars_end("e "), lambda s: s.strip_prefix("a"),
                    lambda s: s.strip_suffix("e"), lambda s: s.pad_start(7, "\u00df"),
                    lambda s: s.pad_end(13), lambda s: s.zfill(6), lambda s: s.head(3),
                    lambda s: s.tail(5),
                ])(self.string_(depth - 1).str)  # fmt: skip
            case 8:
                of = choose.pick([self.int_, self.float_, self.bool_])
                return of(depth - 1).cast(str)
            case 9:
                when = self.moment()
                return (when.dt.date() if choose.chance(50) else when).cast(str)
            case 0:
                return hr.concat(self.string_(depth - 1), self.string_(0))
            case 1:
                return self.string_(depth - 1).upper()
            case 2:
                return self.string_(depth - 1).lower()
        return self._when(self.string_, depth)

    def time_(self, depth: int = 2) -> Expr:
        """Timestamps and dates, and what becomes of them."""
        choose, when = self.choose, self.moment()
        match choose.number(0, 9):
            case 6:
                every = choose.pick(["1s", "15m", "1h", "1d", "3d", "1w", "1mo", "1q", "1y"])
                return when.dt.truncate(every, zone=choose.pick(ZONES))
            case 7:
                return when.dt.date(zone=choose.pick(ZONES))
            case 8:
                return self.string_(depth - 1).cast(
                    choose.pick(["date", "timestamp"]), strict=False
                )
            case 9:
                return when + hr.duration(hours=self.int_(0) % 50, seconds=choose.number(-9, 9))
            case 0:
                return when + dt.timedelta(seconds=choose.number(-5, 5))
            case 1:
                return when - self.int_(0).cast("timestamp")
            case 2:
                return when.cast("date")
            case 3:
                return when.cast("date") + choose.number(-3, 3)
            case 4:
                return when.cast("date").cast("timestamp")
        return when.cast("int64")

    def moment(self) -> Expr:
        """A timestamp."""
        found = self._column_of(lambda kind: kind.name == "timestamp")
        return self.int_(0).cast("timestamp") if found is None else found

    def _when(self, of: Any, depth: int) -> Expr:
        made = hr.when(self.bool_(depth - 1)).then(of(depth - 1))
        if self.choose.chance(40):
            made = made.when(self.bool_(0)).then(of(0))
        return made.otherwise(of(0)) if self.choose.chance(70) else made

    # ---- exactly a type --------------------------------------------------------------------

    def exactly(self, name: str) -> Expr:
        """An expression of exactly a type, such as "int64" or "string?" (nullable)."""
        kind = SCALARS[name.removesuffix("?")]
        kind = optional(kind) if name.endswith("?") else kind
        found = self._column_of(lambda known: known == kind)
        if found is not None:
            return found
        made = {
            "int64": self.int_, "float64": self.float_, "string": self.string_, "bool": self.bool_
        }[kind.name](1)  # fmt: skip
        made = made.fill_null(self.constant(kind)).cast(kind.required)
        if kind.nullable:
            made = hr.when(self.bool_(0)).then(made)
        return made


def _compare(op: str, left: Expr, right: Expr) -> Expr:
    return {
        "==": lambda: left == right, "!=": lambda: left != right, "<": lambda: left < right,
        "<=": lambda: left <= right, ">": lambda: left > right, ">=": lambda: left >= right,
    }[op]()  # fmt: skip
