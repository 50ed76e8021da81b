"""Paths into JSON, such as `$.user.names[0]`: names and places, one behind the other."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, NoReturn

_STEP = re.compile(r"""\.([^.\[\]*'"\s]+)|\[(\d+)\]|\['([^']*)'\]|\["([^"]*)"\]""")
LONGEST = 60  # characters of a text in an error


class PathError(ValueError):
    """A path that is not one."""


@cache
def json_steps(path: str) -> tuple[str | int, ...]:
    """The names and places of a path; a PathError where it is none.

    >>> json_steps("$.user.names[0]"), json_steps('$["first name"]'), json_steps("$")
    (('user', 'names', 0), ('first name',), ())
    """
    steps: list[str | int] = []
    at = 1
    while at < len(path) and (found := _STEP.match(path, at)):
        place = found[2]
        steps.append(
            next(s for s in found.groups() if s is not None) if place is None else int(place)
        )
        at = found.end()
    if not path.startswith("$") or at < len(path):
        raise PathError(f"{path!r} is not a path: {path[at:] or path!r} is neither .name nor [0]")
    return tuple(steps)


def json_at(text: str, path: str) -> str | None:
    """What lies at a path: texts as they are, all else as JSON; None where nothing or a null is.

    >>> text = '{"user": {"names": ["Ann", "Bo"], "age": 31}}'
    >>> json_at(text, "$.user.names[1]"), json_at(text, "$.user.age"), json_at(text, "$.x")
    ('Bo', '31', None)
    >>> json_at(text, "$.user")
    '{"names":["Ann","Bo"],"age":31}'
    """
    try:
        found: Any = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        short = text if len(text) <= LONGEST else text[:LONGEST] + "..."
        raise ValueError(f"{short!r} is not JSON") from None
    for step in json_steps(path):
        if isinstance(step, str):
            found = found.get(step) if isinstance(found, dict) else None
        else:
            found = found[step] if isinstance(found, list) and step < len(found) else None
    if found is None or isinstance(found, str):
        return found
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")
