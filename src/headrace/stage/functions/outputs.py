"""The results of a user's function: from Numba's types to columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numba import types

from headrace.plan.functions import Wanted
from headrace.plan.site import Site
from headrace.plan.types import DataType, binary, bool_, float64, int64, optional, string
from headrace.stage.aside_types import AsideType
from headrace.stage.bounded_types import BoundedType
from headrace.stage.functions.refusals import WAY_OUT, Refusal
from headrace.stage.item_types import ItemsType
from headrace.stage.strings import text_types as text

Found = dict[str, list[DataType | None]]  # of each output: "", or the name of an aside


def output_types(result: types.Type, site: Site) -> Found:
    """The columns that a result gives: several for a tuple; None stands for a result always None.

    >>> output_types(types.Tuple((types.int64, types.Optional(types.float64))), None)
    {'': [int64, optional(float64)]}
    """
    verb = "yields" if isinstance(result, types.Generator) else "returns"
    if isinstance(result, types.Generator):
        result = result.yield_type
    if isinstance(result, types.Optional) and isinstance(result.type, AsideType):
        made = output_types(result.type, site)  # then it yields None, or a value that may be so
        made[""] = [kind and optional(kind) for kind in made.get("", [None])]
        return made
    if isinstance(result, AsideType):
        return {
            name: [_column(kind, verb, site) for kind in kinds]
            for name, kinds in result.outputs.items()
        }
    if isinstance(result, types.BaseTuple):
        if not len(result):
            raise Refusal(f"{verb} an empty tuple", site, f"{verb[:-1]} at least one value")
        if len(result) == 1:
            raise Refusal(f"{verb} a tuple of one value", site, f"{verb[:-1]} the value itself")
        return {"": [_column(kind, verb, site) for kind in result.types]}
    if isinstance(result, types.Optional) and isinstance(result.type, types.BaseTuple):
        fix = "give a tuple everywhere, or use flat_map to leave rows out"
        raise Refusal(f"{verb} sometimes a tuple and sometimes None", site, fix)
    if isinstance(result, types.NoneType):
        fix = f"{verb[:-1]} a value on every path"
        raise Refusal(f"{verb} nothing", site, fix)
    return {"": [_column(result, verb, site)]}


def _column(kind: types.Type, verb: str, site: Site) -> DataType | None:
    kind = types.unliteral(kind)
    if isinstance(kind, types.NoneType):
        return None
    if isinstance(kind, types.Optional):
        inner = _column(kind.type, verb, site)
        return optional(inner) if inner else None
    if isinstance(kind, types.Boolean):
        return bool_
    if isinstance(kind, types.Integer) and kind != types.uint64:
        return int64
    if isinstance(kind, types.Float):
        return float64
    if isinstance(kind, types.UnicodeType | text.TextType):
        return string
    if isinstance(kind, types.Bytes | text.BlobType):
        return binary
    said, fix = _wrong(kind)
    raise Refusal(f"{verb} {said}, which no column can hold", site, f"{fix}, {WAY_OUT}")


def _wrong(kind: types.Type) -> tuple[str, str]:
    if kind == types.uint64:
        return "an unsigned 64-bit number", "convert it with np.int64(...)"
    if isinstance(kind, types.Complex):
        return "a complex number", "return its real and imaginary parts"
    if isinstance(kind, types.BaseTuple):
        return "a tuple inside a tuple", "return one flat tuple"
    if isinstance(
        kind, types.List | types.ListType | types.Set | types.Array | ItemsType | BoundedType
    ):
        return (
            "a list, set or array",
            "return its values one by one, or use flat_map and yield them",
        )
    if isinstance(kind, types.DictType):
        return "a dict", "return a tuple with one value per column"
    if isinstance(kind, types.NPDatetime | types.NPTimedelta):
        return "a NumPy time", "use integers: microseconds since 1970 in UTC"
    return f"a value of Numba's type {kind}", "return numbers, strings or a tuple of them"


def agreed_outputs(
    found: Found, wanted: Mapping[str, Wanted], site: Site
) -> dict[str, tuple[DataType, ...]]:
    """What was found, as the user wants it."""
    made = {}
    for output, kinds in found.items():
        if output not in wanted:
            known = ", ".join(name for name in wanted if name) or "none"
            fix = f"asides={{{output!r}: [...]}}; named are: {known}"
            raise Refusal(f"yields to the aside {output!r}, which is not named", site, fix)
        each = wanted[output]
        made[output] = _agreed(kinds, each.declared, each.names or None, site)
    return made


def _agreed(
    found: Sequence[DataType | None],
    declared: Sequence[DataType] | None,
    names: Sequence[str] | None,
    site: Site,
) -> tuple[DataType, ...]:
    for wanted, said in ((names, "columns"), (declared, "declared types")):
        if wanted is not None and len(wanted) != len(found):
            plural = "" if len(found) == 1 else "s"
            what = f"gives {len(found)} value{plural} for {len(wanted)} {said}"
            raise Refusal(what, site, f"give one value for each of: {', '.join(map(str, wanted))}")
    agreed = []
    for index, kind in enumerate(found):
        label = f"column {names[index]!r}" if names else f"result {index + 1}"
        if declared is not None:
            agreed.append(_declared(kind, declared[index], label, site))
        elif kind is None:
            raise Refusal(
                f"gives only None for {label}",
                site,
                "give a value somewhere, or declare the type of the column as optional(...)",
            )
        else:
            agreed.append(kind)
    return tuple(agreed)


def _declared(found: DataType | None, wanted: DataType, label: str, site: Site) -> DataType:
    if found is None or found.nullable:
        if not wanted.nullable:
            what = f"may give None for {label}, which is declared {wanted}"
            raise Refusal(what, site, f"give a value on every path, or declare optional({wanted})")
        if found is None:
            return wanted
    if found.is_integer:
        fits = wanted.is_float or wanted.is_whole
    elif found.is_float:
        fits = wanted.is_float
    else:
        fits = found.name == wanted.name
    if not fits:
        what = f"gives {found} for {label}, which is declared {wanted}"
        raise Refusal(what, site, "convert the value, or change the declaration")
    return wanted
