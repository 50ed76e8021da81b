"""Regular expressions as users write them, for RE2, which Arrow uses."""

from __future__ import annotations

import re
from functools import cache

import pyarrow as pa

_SPECIAL = frozenset(".^$*+?()[]{}|\\")
_GROUP = re.compile(r"\$(?:(\d)|\{(\d)\}|(\$))")


class PatternError(ValueError):
    """A pattern that is not one."""


def literal_of(pattern: str) -> str | None:
    """The string that a pattern matches, if it matches only that; None otherwise.

    >>> literal_of("a-b"), literal_of(r"a\\.b"), literal_of("a.b") is None
    ('a-b', 'a.b', True)
    """
    made, escaped = "", False
    for character in pattern:
        if escaped:
            if character not in _SPECIAL:
                return None  # \\d and the like
            made, escaped = made + character, False
        elif character == "\\":
            escaped = True
        elif character in _SPECIAL:
            return None
        else:
            made += character
    return None if escaped else made


@cache
def check_pattern(pattern: str) -> int:
    """The number of groups of a pattern; a PatternError where it is none.

    >>> check_pattern(r"(a)(?:b)(?P<c>c)")
    2
    """
    import pyarrow.compute as pc  # takes long to load, and few need it

    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        raise PatternError(str(error).rpartition(": ")[2]) from None
    return len(_openings(pattern))


def with_named_group(pattern: str, index: int) -> str:
    """The pattern with one group named `found` and no other; 0 is all of it.

    >>> with_named_group(r"(a|\\()=(\\d)", 2)
    '(?:a|\\\\()=(?P<found>\\\\d)'
    """
    made, last = "", 0
    for number, (start, stop) in enumerate(_openings(pattern), start=1):
        made += pattern[last:start] + ("(?P<found>" if number == index else "(?:")
        last = stop
    made += pattern[last:]
    return f"(?P<found>{made})" if index == 0 else made


def replacement(value: str) -> str:
    r"""What `$1` and `${1}` stand for, as RE2 writes it; `$$` is a dollar.

    >>> replacement("<$1>"), replacement("a\\b$$")
    ('<\\1>', 'a\\\\b$')
    """
    escaped = value.replace("\\", "\\\\")
    return _GROUP.sub(lambda m: "$" if m[3] else f"\\{m[1] or m[2]}", escaped)


def _openings(pattern: str) -> list[tuple[int, int]]:
    """Where the groups that capture begin: the places of `(` or `(?P<name>`."""
    found: list[tuple[int, int]] = []
    at, in_class, first = 0, False, 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            if pattern.startswith("\\Q", at):  # quoted, up to \E
                end = pattern.find("\\E", at)
                at = len(pattern) if end < 0 else end
            at += 2
            continue
        if in_class:
            in_class = character != "]" or at == first
        elif character == "[":
            in_class = True
            first = at + 2 if pattern.startswith("^", at + 1) else at + 1
        elif character == "(":
            named = re.match(r"\(\?P?<[^>]+>", pattern[at:])
            if named:
                found.append((at, at + named.end()))
            elif not pattern.startswith("?", at + 1):
                found.append((at, at + 1))
        at += 1
    return found
