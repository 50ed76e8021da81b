"""Sum and count by a million integer keys, with a state record for each key.

A stream has no end at which totals could be given out, so each row says whether it is the last
one of its key; the function yields the totals of the key then.

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

import numpy as np
import pyarrow as pa

from headrace.stream import Stream

from .compare import same_rows

__all__ = ["Keyed", "Totals", "add", "make", "pipeline", "same_rows"]


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

    >>> import headrace as hr
    >>> pipeline(hr.read.memory(make(10, keys=2).rows))
    Stream(key: int64, count: int64, total: int64; key key)
    """
    return rows.key_by("key").process(add, state=Totals, output=["count", "total"], name="totals")
