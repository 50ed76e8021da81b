"""Sum and count by a million integer keys: with a state record for each key, or in windows.

A stream has no end at which totals could be given out, so each row says whether it is the last
one of its key; the function yields the totals of the key then. Where the rows are replayed in
rounds, it does so in each of them. In windows, a round is a window.

    >>> from headrace import read, run
    >>> data = make(1000, keys=10)
    >>> output = pipeline(read.memory(data.rows)).write.collect()
    >>> job = run(output)
    >>> same_rows(output.result(), data.expected())
    True
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.stream import Stream

from .compare import same_rows

__all__ = ["Keyed", "Totals", "add", "make", "pipeline", "same_rows", "windowed"]

WINDOW_MS = 10_000


class Totals:
    """The state of a key."""

    count: int = 0
    total: int = 0


def add(state: Totals, value: int, last: bool) -> Iterator[tuple[int, int]]:
    """Add a row to its key's totals; the last row of a key gives them out."""
    state.count += 1
    state.total += value
    if last:
        yield state.count, state.total


@dataclass(frozen=True)
class Keyed:
    """Rows (key, value, last), and what is needed to know the answer."""

    rows: pa.Table
    keys: np.ndarray  # of each key number: the key
    numbers: np.ndarray  # of each row: which of the keys it has

    def expected(self) -> pa.Table:
        """The answer, by NumPy: key, count and total."""
        count = np.bincount(self.numbers, minlength=len(self.keys))
        # Weights are added up as floats, exactly so: the sums stay far below 2**53.
        total = np.bincount(self.numbers, self.rows["value"].to_numpy(), len(self.keys))
        return pa.table({"key": self.keys, "count": count, "total": total.astype(np.int64)})

    def are_totals(self, got: pa.Table, rounds: int) -> bool:
        """Is this what `pipeline` gives over so many rounds: all totals, after each round?

        >>> data = make(100, keys=7)
        >>> data.are_totals(data.expected(), 1), data.are_totals(data.expected(), 2)
        (True, False)
        """
        places, expected = self._places(got), self.expected()
        nth, rest = np.divmod(got["count"].to_numpy(), expected["count"].to_numpy()[places])
        total = nth * expected["total"].to_numpy()[places]  # in the nth round, counted from 1
        right = (rest == 0) & (got["total"].to_numpy() == total)
        return bool(right.all()) and self._is_each_once(got, nth - 1, rounds)

    def are_windows(self, got: pa.Table, rounds: int) -> bool:
        """Is this what `windowed` gives over so many rounds: all totals, of each round?

        >>> data = make(100, keys=7)
        >>> window = data.expected().append_column("window_start", pa.array([0] * 7))
        >>> data.are_windows(window, 1), data.are_windows(window.slice(1), 1)
        (True, False)
        """
        places, expected = self._places(got), self.expected()
        nth, rest = np.divmod(got["window_start"].to_numpy(), WINDOW_MS)
        right = rest == 0
        for name in ("count", "total"):
            right &= got[name].to_numpy() == expected[name].to_numpy()[places]
        return bool(right.all()) and self._is_each_once(got, nth, rounds)

    def replayed(self, rounds: int) -> Stream:
        """The rows with times, in rounds of a window each."""
        rows = rounds * self.rows.num_rows
        return hr.read.replay(self._timed, time="time", span=WINDOW_MS, rows=rows, name="rows")

    @cached_property
    def _timed(self) -> pa.Table:
        times = np.arange(self.rows.num_rows) * WINDOW_MS // self.rows.num_rows
        return self.rows.append_column("time", pa.array(times))

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self.keys)

    def _places(self, got: pa.Table) -> np.ndarray:
        """Of each row: the number of its key, or that of another one if it is unknown."""
        found = np.searchsorted(self.keys, got["key"].to_numpy(), sorter=self._order)
        return self._order[np.minimum(found, len(self.keys) - 1)]

    def _is_each_once(self, got: pa.Table, nth: np.ndarray, rounds: int) -> bool:
        """Is each key there once in each round, and nothing else?"""
        places = self._places(got)
        if ((nth < 0) | (nth >= rounds) | (self.keys[places] != got["key"].to_numpy())).any():
            return False
        often = np.bincount(nth * len(self.keys) + places, minlength=rounds * len(self.keys))
        return bool((often == 1).all())


def make(rows: int, *, keys: int, seed: int = 1) -> Keyed:
    """Rows in which each of so many random 62-bit keys comes at least once, in random order.

    >>> make(100, keys=7).rows.schema.names
    ['key', 'value', 'last']
    """
    if not 1 <= keys <= rows:
        raise ValueError(f"keys={keys}: must be between 1 and the number of rows, {rows}")
    random = np.random.default_rng(seed)
    values = _distinct(random, keys)
    numbers = np.concatenate([np.arange(keys), random.integers(0, keys, rows - keys)])
    random.shuffle(numbers)
    last_row = np.empty(keys, np.int64)
    last_row[numbers] = np.arange(rows)  # of equal indices, the last one stays
    last = np.zeros(rows, bool)
    last[last_row] = True
    table = pa.table(
        {"key": values[numbers], "value": random.integers(0, 1000, rows), "last": last}
    )
    return Keyed(table, values, numbers)


def _distinct(random: np.random.Generator, count: int) -> np.ndarray:
    found = np.unique(random.integers(0, 1 << 62, count + count // 8 + 8))
    return random.permutation(found)[:count]


def pipeline(rows: Stream) -> Stream:
    """The query: a state record per key, written with `process`.

    >>> pipeline(hr.read.memory(make(10, keys=2).rows))
    Stream(key: int64, count: int64, total: int64; key key)
    """
    return rows.key_by("key").process(add, state=Totals, output=["count", "total"], name="totals")


def windowed(rows: Stream) -> Stream:
    """The same sums in windows, without a function.

    >>> windowed(make(10, keys=2).replayed(rounds=3)).schema.names
    ('key', 'window_start', 'count', 'total')
    """
    return (
        rows.with_watermark("time", 0)
        .key_by("key")
        .window(hr.tumbling(WINDOW_MS))
        .agg(count=hr.count(), total=hr.sum("value"), name="sums")
    )
