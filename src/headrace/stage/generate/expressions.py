"""Expressions into code: one row at a time, nulls beside the values.

Every word of a value is defined on every path, also where the value is null (then it is zero),
so that values can be stored without a branch. Parts that can fail run only where their operands
are not null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import replace

from headrace.plan.expression_types import can_fail, type_of
from headrace.plan.expressions import (
    COMPARISONS,
    Binary,
    Builtin,
    Call,
    Cast,
    Coalesce,
    Column,
    Expression,
    Extreme,
    IsIn,
    IsNull,
    KeyHash,
    Literal,
    RowPlace,
    Unary,
    When,
)
from headrace.plan.functions import Function
from headrace.plan.schema import Schema
from headrace.plan.types import DataType, bool_, int64

from .builtins import call_code, makes_text
from .casts import cast_code, fits_code, read_text, write_text
from .values import (
    DAY,
    argument,
    as_float,
    compare,
    float_text,
    hash_code,
    narrowed,
    nothing,
    received,
    zero,
)
from .writer import Value, Writer

INTEGER_OPERATIONS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "//": "floor_divide",
    "%": "remainder",
}
FLOAT_OPERATIONS = {"//": "float_floor_divide", "%": "float_remainder", "/": "true_divide"}


class Scope:
    """The columns of a row at one place of a kernel, and the expressions computed so far there."""

    def __init__(
        self,
        writer: Writer,
        schema: Schema,
        columns: Mapping[str, Value | Callable[[], Value]],
        resources: Resources,
        base: Scope | None = None,
    ) -> None:
        self.writer, self.schema, self.resources = writer, schema, resources
        self._base = base  # the scope that columns are loaded from
        self._columns = dict(columns)
        self._known: dict[Expression, Value] = {}

    def column(self, name: str) -> Value:
        """The value of a column, loaded when it is first asked for."""
        found = self._columns[name]
        if not isinstance(found, Value):
            found = found()
            self._columns[name] = found
        return found

    @contextmanager
    def branch(self, head: str):
        """Code that runs on some rows only: what it computes is not known behind it."""
        scopes = []
        scope: Scope | None = self  # and those that it loads from
        while scope is not None:
            scopes.append((scope, dict(scope._known), dict(scope._columns)))
            scope = scope._base
        with self.writer.block(head):
            yield
        for scope, known, columns in scopes:
            scope._known, scope._columns = known, columns

    def value(self, expression: Expression) -> Value:
        """Code for an expression; the same expression is computed once."""
        if isinstance(expression, Column):
            return self.column(expression.name)
        if expression not in self._known:
            self._known[expression] = self._compute(expression)
        return self._known[expression]

    def type(self, expression: Expression) -> DataType:
        """The type of an expression here."""
        return type_of(expression, self.schema)

    def can_fail(self, expression: Expression) -> bool:
        """Can the expression raise an error here?"""
        return can_fail(expression, self.schema)

    # ---- one method per kind of expression -------------------------------------------------

    def _compute(self, expression: Expression) -> Value:
        match expression:
            case Literal():
                return self._literal(expression)
            case Binary(op, _, _) if op in ("&", "|"):
                return self._logic(expression)
            case Binary():
                return self._binary(expression)
            case Unary(op, operand):
                return self._unary(op, self.value(operand), self.type(expression))
            case Cast(operand, _, strict):
                return self._cast(self.value(operand), self.type(expression), strict)
            case IsNull(operand):
                valid = self.value(operand).valid
                return Value(bool_, ("False" if valid is None else f"(not {valid})",))
            case Coalesce():
                return self._coalesce(expression)
            case When():
                return self._when(expression)
            case IsIn(operand, choices):
                return self._is_in(self.value(operand), choices)
            case Extreme(op, operands):
                return self._extreme(op, operands, self.type(expression))
            case Builtin():
                return self._builtin(expression)
            case Call():
                return self._call(expression)
            case KeyHash(operands, part, parts):
                made = hash_code([self.value(operand) for operand in operands])
                if part is not None:
                    group = f"group_of_part({self.value(part).word}, {parts})"
                    made = f"in_group({made}, {group})"
                return Value(int64, (self.writer.let(made),))
            case RowPlace():
                return Value(int64, ("place_number",))
        raise TypeError(f"no code for {expression!r}")

    def _literal(self, literal: Literal) -> Value:
        kind = self.type(literal)
        if literal.value is None:
            return Value(kind, zero(kind), "False")
        if kind.is_view:
            head, tail = self.resources.literal(literal)
            return Value(kind, (head, tail))
        value = literal.value
        if kind.is_float:
            return Value(kind, (float_text(float(value)),))
        if kind.name == "uint64":
            value -= 1 << 63  # as it is stored, see `to_unsigned`
        return Value(kind, (f"({value!r})" if not isinstance(value, bool) else repr(value),))

    def _guarded(self, kind: DataType, valid: str | None, words: tuple[str, ...]) -> Value:
        """Words that may be computed only where `valid`."""
        if valid is None:
            return Value(kind, tuple(self.writer.let(word) for word in words))
        names = [self.writer.fresh() for _ in words]
        self.writer.line(f"{', '.join(names)} = {', '.join(zero(kind))}")
        with self.writer.block(f"if {valid}:"):
            for name, word in zip(names, words, strict=True):
                self.writer.line(f"{name} = {word}")
        return Value(kind, tuple(names), valid)

    def _both_valid(self, *values: Value) -> str | None:
        valids = list(dict.fromkeys(v.valid for v in values if v.valid is not None))
        if not valids:
            return None
        return valids[0] if len(valids) == 1 else self.writer.let(" and ".join(valids), "n")

    def _binary(self, expression: Binary) -> Value:
        op, kind = expression.op, self.type(expression)
        left, right = self.value(expression.left), self.value(expression.right)
        valid = self._both_valid(left, right)
        if op in COMPARISONS:
            return Value(kind, (self.writer.let(compare(op, left, right)),), valid)
        if kind.is_float:
            x, y = as_float(left), as_float(right)
            code = (
                f"{FLOAT_OPERATIONS[op]}({x}, {y})" if op in FLOAT_OPERATIONS else f"{x} {op} {y}"
            )
        else:
            right_word = right.word
            if kind.name == "date" and right.type.name == "duration":
                right_word = f"({right_word} // {DAY})"
            code = f"{INTEGER_OPERATIONS[op]}({left.word}, {right_word})"
            if kind.name == "date":
                code = narrowed(code, kind)
        if self.can_fail(expression):
            return self._guarded(kind, valid, (code,))
        return Value(kind, (self.writer.let(code),), valid)

    def _logic(self, expression: Binary) -> Value:
        """Three-valued & and |; the right side is left out where the left one decides."""
        stop = "False" if expression.op == "&" else "True"
        left = self.value(expression.left)
        kind = self.type(expression)
        plain = left.valid is None and not self.type(expression.right).nullable
        if plain and not self.can_fail(expression.right):
            right = self.value(expression.right)
            return Value(kind, (self.writer.let(f"{left.word} {expression.op} {right.word}"),))
        result, valid = self.writer.fresh(), self.writer.fresh("n")
        decided = left.word if stop == "True" else f"not {left.word}"
        if left.valid is not None:
            decided = f"{left.valid} and {decided}"
        self.writer.line(f"{result} = {stop}")
        self.writer.line(f"{valid} = True")
        with self.branch(f"if not ({decided}):"):
            right = self.value(expression.right)
            # here the left side is null, or says nothing: the right side decides
            self.writer.line(f"{result} = {right.word}")
            right_decides = right.word if stop == "True" else f"not {right.word}"
            if right.valid is not None:
                with self.writer.block(f"if not {right.valid}:"):
                    self.writer.line(f"{valid} = False")
                right_decides = f"{right.valid} and {right_decides}"
            if left.valid is not None:
                with self.writer.block(f"if not {left.valid} and not ({right_decides}):"):
                    self.writer.line(f"{valid} = False")
            if right.valid is not None or left.valid is not None:
                with self.writer.block(f"if not {valid}:"):
                    self.writer.line(f"{result} = False")
        return Value(kind, (result,), valid if kind.nullable else None)

    def _unary(self, op: str, operand: Value, kind: DataType) -> Value:
        if op == "~":
            return Value(kind, (self.writer.let(f"not {operand.word}"),), operand.valid)
        if kind.is_float:
            x = as_float(operand)
            code = f"-{x}" if op == "-" else f"abs({x})"
        else:
            code = f"{'negate' if op == '-' else 'absolute'}({operand.word})"
        return self._guarded(kind, operand.valid, (code,))

    def _cast(self, operand: Value, kind: DataType, strict: bool) -> Value:
        source = operand.type
        if source.name == kind.name or (kind.name == "binary" and source.name == "string"):
            return replace(operand, type=kind)
        if kind.name == "string":
            code, uses_heap = write_text(operand)
            self.resources.creates_text |= uses_heap
            return self._guarded_call(kind, operand.valid, code)
        if source.name == "string":
            return self._read(operand, kind, strict)
        if strict:
            return self._guarded(kind, operand.valid, (cast_code(operand, kind),))
        fits = fits_code(operand, kind)
        if operand.valid is not None:
            fits = f"{operand.valid} and {fits}"
        return self._guarded(kind, self.writer.let(fits, "n"), (cast_code(operand, kind),))

    def _read(self, operand: Value, kind: DataType, strict: bool) -> Value:
        """A string as another type."""
        if operand.valid is None and strict:
            _, value = read_text(self.writer, operand, kind, strict=True)
            return Value(kind, (self.writer.let(value),))
        name, valid = self.writer.let(*zero(kind)), self.writer.let("False", "n")
        with self.writer.block(f"if {operand.valid or 'True'}:"):
            fits, value = read_text(self.writer, operand, kind, strict=strict)
            self.writer.line(f"{valid} = {fits}")
            with self.writer.block(f"if {valid}:"):
                self.writer.line(f"{name} = {value}")
        return Value(kind, (name,), valid)

    def _coalesce(self, expression: Coalesce) -> Value:
        kind = self.type(expression)
        first = self.convert(self.value(expression.operand), kind)
        if first.valid is None:
            return first
        names = self._names_for(kind, first)
        with self.branch(f"if not {first.valid}:"):
            other = self.convert(self.value(expression.other), kind)
            self._assign(names, other)
        return Value(kind, names[0], names[1])

    def _when(self, expression: When) -> Value:
        """A loop that runs once would need `break`; nested else branches need nothing."""
        kind = self.type(expression)
        names = self._names_for(kind, nothing(kind))
        self._cases(expression, 0, kind, names)
        return Value(kind, names[0], names[1])

    def _cases(self, expression: When, case: int, kind: DataType, names) -> None:
        if case == len(expression.conditions):
            if expression.otherwise is not None:
                self._assign(names, self.convert(self.value(expression.otherwise), kind))
            return
        condition = self.value(expression.conditions[case])
        true = condition.word
        if condition.valid is not None:
            true = f"{condition.valid} and {true}"
        with self.branch(f"if {true}:"):
            self._assign(names, self.convert(self.value(expression.values[case]), kind))
        with self.branch("else:"):
            self._cases(expression, case + 1, kind, names)

    def _names_for(self, kind: DataType, start: Value) -> tuple[tuple[str, ...], str | None]:
        """Fresh names that hold a value to begin with."""
        words = tuple(self.writer.let(word) for word in start.words)
        if not kind.nullable:
            return words, None
        return words, self.writer.let(start.valid or "True", "n")

    def _assign(self, names: tuple[tuple[str, ...], str | None], value: Value) -> None:
        words, valid = names
        for name, word in zip(words, value.words, strict=True):
            self.writer.line(f"{name} = {word}")
        if valid is not None:
            self.writer.line(f"{valid} = {value.valid or 'True'}")

    def convert(self, value: Value, kind: DataType) -> Value:
        """A value in the common type of alternatives."""
        if kind.is_float and not value.type.is_float:
            return Value(kind, (self.writer.let(as_float(value)),), value.valid)
        return replace(value, type=replace(kind, nullable=value.valid is not None))

    def _is_in(self, operand: Value, choices: tuple[Literal, ...]) -> Value:
        tests = [compare("==", operand, self.value(choice)) for choice in choices]
        code = " or ".join(tests) if tests else "False"
        return Value(replace(bool_, nullable=operand.valid is not None),
                     (self.writer.let(code),), operand.valid)  # fmt: skip

    def _builtin(self, expression: Builtin) -> Value:
        operands = [self.value(operand) for operand in expression.operands]
        kind = self.type(expression)
        made = call_code(expression, operands, kind, self.resources.literal)
        self.resources.creates_text |= makes_text(expression)
        return self._guarded_call(kind, self._both_valid(*operands), made.code, made.nullable)

    def _guarded_call(
        self, kind: DataType, valid: str | None, code: str, nullable: bool = False
    ) -> Value:
        """A call that gives all words of a value, made only where `valid`; where it is `nullable`
        it gives first whether there is a value."""
        words = tuple(self.writer.fresh() for _ in zero(kind))
        found: tuple[str, ...] = (self.writer.fresh("n"),) if nullable else ()
        call = f"{', '.join((*found, *words))} = {code}"
        if valid is None:
            self.writer.line(call)
        else:
            nothing_found = ("False",) if nullable else ()
            start = ", ".join((*nothing_found, *zero(kind)))
            self.writer.line(f"{', '.join((*found, *words))} = {start}")
            with self.writer.block(f"if {valid}:"):
                self.writer.line(call)
        return Value(kind, words, found[0] if nullable else valid)

    def _extreme(self, op: str, operands: tuple[Expression, ...], kind: DataType) -> Value:
        """One after the other takes the place of those before it; NaN is above all numbers."""
        first = self.convert(self.value(operands[0]), kind)
        words = tuple(self.writer.let(word) for word in first.words)
        valid = None if first.valid is None else self.writer.let(first.valid, "n")
        for operand in operands[1:]:
            other = self.convert(self.value(operand), kind)
            best = Value(kind.required, words)
            left, right = (other, best) if op == "least" else (best, other)
            takes = (
                f"float_less({left.word}, {right.word})"
                if kind.is_float
                else compare("<", left, right)
            )
            if valid is not None:
                takes = f"not {valid} or {takes}"
            if other.valid is not None:
                takes = f"{other.valid} and ({takes})"
            with self.writer.block(f"if {takes}:"):
                for name, word in zip(words, other.words, strict=True):
                    self.writer.line(f"{name} = {word}")
                if valid is not None:
                    self.writer.line(f"{valid} = True")
            if other.valid is None:
                valid = None  # from here on there is a value
        return Value(kind, words, valid)

    def _call(self, expression: Call) -> Value:
        """All results of a call at once, so that the others find theirs."""
        function = expression.function
        arguments = [argument(self.value(o)) for o in expression.operands]
        made = self.writer.let(f"{self.resources.function(function)}({', '.join(arguments)})", "r")
        for k, kind in enumerate(function.outputs):
            part = f"{made}[{k}]" if len(function.outputs) > 1 else made
            call = Call(function, expression.operands, k)
            self._known[call] = self.result(part, kind)
        return self._known[expression]

    def result(self, code: str, kind: DataType) -> Value:
        """What a user function gave, as a value of a column type."""
        if kind.is_view:
            self.resources.creates_text = True
        if kind.nullable:
            valid = self.writer.let(f"{code} is not None", "n")
            names = tuple(self.writer.fresh() for _ in zero(kind))
            self.writer.line(f"{', '.join(names)} = {', '.join(zero(kind))}")
            with self.writer.block(f"if {code} is not None:"):
                self.writer.line(f"{', '.join(names)} = {received(code, kind)}")
            return Value(kind, names, valid)
        names = tuple(self.writer.fresh() for _ in zero(kind))
        self.writer.line(f"{', '.join(names)} = {received(code, kind)}")
        return Value(kind, names)


class Resources:
    """What the code of a kernel needs from outside: user functions and string constants."""

    def __init__(self) -> None:
        self.functions: dict[Function, str] = {}
        self.literals: dict[Literal, int] = {}
        self.creates_text = False

    def function(self, function: Function) -> str:
        """The global name of a user function."""
        self.creates_text |= any(kind.item is not None for kind in function.inputs)
        return self.functions.setdefault(function, f"user_{len(self.functions)}")

    def literal(self, literal: Literal) -> tuple[str, str]:
        """The words of a string constant, which the kernel's task holds."""
        at = self.literals.setdefault(literal, len(self.literals))
        return f"literals[{at}].head", f"literals[{at}].tail"
