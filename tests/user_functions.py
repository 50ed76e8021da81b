"""User functions for random pipelines: plain, typed by the columns they are given.

Each has an entry in a catalogue that says which types it takes. They stay inside 64-bit integers,
and what they give is the same compiled and interpreted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import headrace as hr

# ---- for udf and map: one row for a row ----------------------------------------------------


def shifted(x):
    return x % 1000 - 7


def halved(x):
    return x / 2 + 1.0


def is_large(x):
    return x > 3.0


def shout(s):
    return s.upper() + "!"


def or_zero(x):
    if x is None:
        return 0
    return x


def unless_third(x):
    if x % 3 == 0:
        return None
    return x % 100


def first_word(s):
    if s is None:
        return None
    return s.split(" ")[0]


def described(s, x):
    return s[:3], len(s) + x % 7, x > 0


def both(x, y):
    return x * 0.5, None if y is None else y % 10


def swapped(flag, s):
    return (not flag), s + s


# ---- for flat_map: any number of rows for a row --------------------------------------------


def repeated(x):
    for i in range(x % 4):
        yield i, x % 1000 + i


def words_of(s):
    for word in s.split(" "):
        yield word, len(word)


def letters(s):
    for letter in s:
        if letter != "e":
            yield letter


def present(x):
    if x is not None:
        yield x % 1000


def twice_in_time(t, x):
    yield t, x
    yield t - 5, x + 1.0


def much(x):
    for i in range(x % 50 * 3):
        if i % 3 != 1:
            yield i


def pieces(s):
    if s is not None and len(s) > 1:
        yield s[:1], s[1:]
        yield s[-1:], None


# ---- for process: any number of rows for a row, with a state per key ------------------------


def tally(state):
    state.n += 1
    yield state.n


def every_second(state):
    state.n += 1
    if state.n % 2 == 0:
        yield state.n, True


def running(state, x):
    state.total += x % 1000
    state.n += 1
    if state.n > 1:
        yield state.total, state.total / state.n
    yield state.n, 0.0


class Names:
    n: int = 0
    last: str = "none so far, which is long"
    longest: hr.optional(str) = None


def remember(state, s):
    before = state.last
    state.last = s
    state.n += 1
    if state.longest is None or len(s) > len(state.longest):
        state.longest = s
    yield before, state.longest, state.n


class Best:
    best: hr.optional(float) = None
    seen: bool = False


def best_so_far(state, x):
    if state.best is None or x > state.best:
        state.best = x
        if state.seen:
            yield x, state.best
    state.seen = True
    yield -x, None


def timed(state, t):
    state.n += 1
    yield t, state.n % 3


def stamped(state, t):
    state.n += 1
    yield t, 7


def alarmed(state, t):
    state.n += 1
    state.last = t
    state.due = t + state.n % 4 * 3
    yield t, state.n


def rang(state):
    state.n += 1
    if state.n % 3 == 0:
        state.due = state.last + state.n
    yield state.last, -state.n


class Gathered:
    text: str = ""
    n: hr.int32 = 0


def gather(state, s):
    state.n += 1
    state.text = state.text + s[:2]
    if state.n % 3 == 0:
        for _ in range(3):
            yield state.text, state.n
        state.text = ""


def parted(x):
    """Rows for two outputs in turn."""
    for i in range(x % 4):
        yield i
        if i % 2:
            yield hr.aside("odd", x % 1000, "an odd one, in more words than a view holds")


def noticed(state, x):
    state.n += 1
    if x % 3 == 0:
        yield hr.aside("odd", state.n, "a third")
    if state.n % 2:
        yield x % 1000


def opened(xs):
    """The items of a list, each with how many there are."""
    for x in xs:
        yield x, len(xs)
    if len(xs) > 2:
        yield xs[-1], -1


def compared(gx, gy):
    """Of a group the number of rows on both sides, and pairs of some."""
    yield len(gx), len(gy)
    for x in gx:
        if len(gy) > 0 and x is not None:
            yield x % 1000, 0 if gy[0] is None else 1


class Latest:
    last: hr.bounded_list(int, 3, on_full="last")
    texts: hr.bounded_list(str, 5)


def latest(state, x, s):
    state.last.append(x % 1000)
    if len(state.texts) == 5:
        state.texts.popleft()
    state.texts.append(s)
    if x % 2:
        for text in state.texts:
            yield text, state.last[0], len(state.last)
    if x % 5 == 0:
        state.last.clear()


@dataclass(frozen=True)
class Entry:
    """A function, the types of its arguments, how many values it gives, and its state."""

    function: Callable[..., Any]
    takes: tuple[str, ...]  # names of types; with a "?" in the end: nullable
    gives: int = 1
    state: Any = None
    needs_order: bool = True  # does a result depend on the order of a key's rows?


SCALARS = [
    Entry(shifted, ("int64",)),
    Entry(halved, ("float64",)),
    Entry(is_large, ("float64",)),
    Entry(shout, ("string",)),
    Entry(or_zero, ("int64?",)),
    Entry(unless_third, ("int64",)),
    Entry(first_word, ("string?",)),
]
MAPS = [
    Entry(described, ("string", "int64"), 3),
    Entry(both, ("float64", "int64?"), 2),
    Entry(swapped, ("bool", "string"), 2),
    *SCALARS,
]
FLAT_MAPS = [
    Entry(repeated, ("int64",), 2),
    Entry(words_of, ("string",), 2),
    Entry(letters, ("string",)),
    Entry(present, ("int64?",)),
    Entry(much, ("int64",)),
    Entry(pieces, ("string?",), 2),
]
PROCESSES = [
    Entry(tally, (), 1, {"n": int}, needs_order=False),
    Entry(every_second, (), 2, {"n": int}, needs_order=False),
    Entry(running, ("int64",), 2, {"total": int, "n": int}),
    Entry(remember, ("string",), 3, Names),
    Entry(best_so_far, ("float64",), 2, Best),
    Entry(gather, ("string",), 2, Gathered),
    Entry(latest, ("int64", "string"), 3, Latest),
]
# With rows of two values for the aside "odd".
PARTED = Entry(parted, ("int64",))
SIDED = [Entry(noticed, ("int64",), 1, {"n": int})]
TIMED = [  # the event time goes on
    Entry(timed, ("time",), 2, {"n": int}),
    Entry(stamped, ("time",), 2, {"n": int}, needs_order=False),
]
