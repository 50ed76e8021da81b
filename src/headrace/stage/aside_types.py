"""Numba's side of `asides`: rows for several outputs are of one type, with room for the values of
each; the values of all but one are zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numba import types
from numba.extending import intrinsic, models, overload, register_model

from headrace.stage.memory.instructions import WORD
from headrace.stage.memory.numba_internals import (
    AbstractTemplate,
    TypingError,
    cgutils,
    impl_ret_borrowed,
    infer_global,
    lower_builtin,
    lower_cast,
    signature,
)

from .asides import aside, is_for, value_for
from .support import present

Values = tuple[types.Type, ...]


class AsideType(types.Type):
    """A row for one of some outputs; "" stands for the stream itself."""

    def __init__(self, outputs: Mapping[str, Values]) -> None:
        self.outputs: dict[str, Values] = dict(sorted(outputs.items()))
        said = [f"{name or 'itself'}: {kinds}" for name, kinds in self.outputs.items()]
        super().__init__(f"Row({', '.join(said)})")

    def place(self, output: str) -> int:
        """The number of an output."""
        return list(self.outputs).index(output)

    def unify(self, context: Any, other: types.Type) -> types.Type | None:
        """The type of rows of both."""
        if isinstance(other, types.Optional):
            inner = other.type
            if isinstance(inner, AsideType):
                both = self.unify(context, inner)
                return None if both is None else types.Optional(both)
        outputs = other.outputs if isinstance(other, AsideType) else {"": values_of(other)}
        made = dict(self.outputs)
        for name, kinds in outputs.items():
            both = _unified(context, made.get(name, kinds), kinds)
            if both is None:
                return None
            made[name] = both
        return AsideType(made)


def values_of(kind: types.Type) -> Values:
    """The types of the values of a row that is for no aside."""
    kinds = kind.types if isinstance(kind, types.BaseTuple) else (kind,)
    return tuple(map(types.unliteral, kinds))


def _unified(context: Any, one: Values, other: Values) -> Values | None:
    if len(one) != len(other):
        return None
    made = tuple(context.unify_pairs(a, b) for a, b in zip(one, other, strict=True))
    return None if None in made else made


def _field(output: int, value: int) -> str:
    return f"value_{output}_{value}"


@register_model(AsideType)
class _AsideModel(models.StructModel):
    def __init__(self, manager: Any, numba_type: Any) -> None:
        members = [("output", types.int64)]
        for j, kinds in enumerate(numba_type.outputs.values()):
            members += [(_field(j, k), kind) for k, kind in enumerate(kinds)]
        super().__init__(manager, numba_type, members)


def _made(context: Any, b: Any, kind: AsideType, output: str, values: Sequence[Any]) -> Any:
    """A row for an output, its values of the right types."""
    made = cgutils.create_struct_proxy(kind)(context, b)
    place = kind.place(output)
    made.output = WORD(place)
    for k, value in enumerate(values):
        setattr(made, _field(place, k), value)
    return made._getvalue()


# ---- yielded by users ----------------------------------------------------------------------


@infer_global(aside)
class _TypeAside(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if kws or not args or not isinstance(args[0], types.StringLiteral):
            return None  # asked again with the literal, where it is one
        if len(args) == 1:
            raise TypingError("aside() is given no value")
        kinds = tuple(map(types.unliteral, args[1:]))
        return signature(AsideType({args[0].literal_value: kinds}), *args)


@lower_builtin(aside, types.VarArg(types.Any))
def _lower_aside(context, b, sig, args):
    kind = sig.return_type
    (output,) = kind.outputs
    values = [
        context.cast(b, value, given, types.unliteral(given))
        for value, given in zip(args[1:], sig.args[1:], strict=True)
    ]
    return impl_ret_borrowed(context, b, kind, _made(context, b, kind, output, values))


@lower_cast(AsideType, AsideType)
def _widen(context, b, source, target, value):
    """The same row among more outputs."""
    given = cgutils.create_struct_proxy(source)(context, b, value=value)
    made = cgutils.create_struct_proxy(target)(context, b)
    number = WORD(0)
    for j, (output, kinds) in enumerate(source.outputs.items()):
        place = target.place(output)
        number = b.select(b.icmp_signed("==", given.output, WORD(j)), WORD(place), number)
        for k, kind in enumerate(kinds):
            wanted = target.outputs[output][k]
            cast = context.cast(b, getattr(given, _field(j, k)), kind, wanted)
            setattr(made, _field(place, k), cast)
    made.output = number
    return made._getvalue()


@lower_cast(types.Any, AsideType)
@lower_cast(types.Optional, AsideType)
def _of_itself(context, b, source, target, value):
    """A row for no aside: a value, or a tuple of some."""
    wanted, values = target.outputs[""], [value]
    if isinstance(source, types.BaseTuple):
        values = cgutils.unpack_tuple(b, value)
    kinds = source.types if isinstance(source, types.BaseTuple) else (source,)
    cast = [
        context.cast(b, one, kind, into)
        for one, kind, into in zip(values, kinds, wanted, strict=True)
    ]
    return _made(context, b, target, "", cast)


# ---- read by kernels -----------------------------------------------------------------------


def _is_maybe(result: types.Type) -> bool:
    """Where values of the stream itself may be None, Numba takes whole rows to be so."""
    return isinstance(result, types.Optional) and isinstance(result.type, AsideType)


@intrinsic(prefer_literal=True)
def _output(typingctx, result, name):
    if name.literal_value not in result.outputs:
        return None

    def lower(context, b, sig, args):
        made = cgutils.create_struct_proxy(result)(context, b, value=args[0])
        return b.icmp_signed("==", made.output, WORD(result.place(name.literal_value)))

    return types.boolean(result, name), lower


@intrinsic(prefer_literal=True)
def _value(typingctx, result, name, place):
    kind = result.outputs[name.literal_value][place.literal_value]

    def lower(context, b, sig, args):
        made = cgutils.create_struct_proxy(result)(context, b, value=args[0])
        field = _field(result.place(name.literal_value), place.literal_value)
        return impl_ret_borrowed(context, b, kind, getattr(made, field))

    return kind(result, name, place), lower


@overload(is_for, inline="always", prefer_literal=True)
def _is_for(result, name):
    if _is_maybe(result):
        if name.literal_value == "":
            return lambda result, name: result is None or is_for(present(result), "")
        return lambda result, name: result is not None and is_for(present(result), name)
    if isinstance(result, AsideType):
        if name.literal_value not in result.outputs:
            return lambda result, name: False
        return lambda result, name: _output(result, name)
    itself = name.literal_value == ""
    return lambda result, name: itself


@overload(value_for, inline="always", prefer_literal=True)
def _value_for(result, name, place):
    if _is_maybe(result) and name.literal_value == "":

        def value(result, name, place):
            if result is None:
                return None
            return value_for(present(result), name, place)

        return value
    if _is_maybe(result):
        return lambda result, name, place: value_for(present(result), name, place)
    if isinstance(result, AsideType):
        return lambda result, name, place: _value(result, name, place)
    if isinstance(result, types.BaseTuple):
        return lambda result, name, place: result[place]
    return lambda result, name, place: result
