"""The records that hold the state of users' functions."""

from __future__ import annotations

from typing import Any

from headrace.plan.functions import StateSpec
from headrace.stage.blocks.layout import KIND_OF_TYPE
from headrace.stage.bounded import BoundedKind
from headrace.stage.items import item_code
from headrace.stage.memory import records
from headrace.stage.strings import text  # noqa: F401, for the kinds of text

_KINDS = KIND_OF_TYPE | {"string": "text", "binary": "blob"}


def state_record(spec: StateSpec) -> Any:
    """The record class of a state; strings and lists lie in a heap, which its first field says.

    >>> from headrace.plan.schema import Field
    >>> from headrace.plan.types import int32, optional
    >>> list(state_record(StateSpec((Field("n", optional(int32)),), (None,))).fields)
    ['n']
    """
    limits = dict(spec.limits)
    fields: list[tuple[str, Any]] = []
    if any(field.type.is_view for field in spec.fields):
        fields.append(("heap", records.i64))
    for field in spec.fields:
        if field.type.item is not None:
            kept = BoundedKind(item_code(field.type.item.required), limits[field.name])
            fields.append((field.name, kept))
            continue
        kind = records.as_kind(_KINDS[field.type.name])
        fields.append((field.name, records.optional(kind) if field.type.nullable else kind))
    return records.make_record("State", fields)
