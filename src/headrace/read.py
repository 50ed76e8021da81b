"""Sources as users name them: each function gives a Stream.

>>> from headrace import read
>>> read.memory({"user": ["ann", "bob"], "n": [1, 2]})
Stream(user: string, n: int64)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .connect.clock import Clock
from .connect.generate import INDEX, IndexSource
from .connect.iterate import IteratorSource
from .connect.memory import MemorySource
from .connect.parquet import ParquetSource
from .plan import build
from .plan.checks import Place
from .plan.connector import Source
from .plan.errors import DataError
from .stream import Stream


def memory(data: Any, *, schema: Any = None, name: str | None = None) -> Stream:
    """Rows that lie in memory.

    `data` is an Arrow table or record batches, a pandas or Polars frame, a dict of lists or a list
    of dicts; a list of tables makes a channel of each. Without `schema`, columns of types that
    headrace lacks stay unread, and a column is nullable if it has a null.

    >>> memory([{"user": "ann", "n": 1}, {"user": "bob", "n": None}])
    Stream(user: string, n: optional(int64))
    >>> memory({"n": [1, 2]}, schema={"n": "int8"})
    Stream(n: int8)
    """
    return _stream("read.memory", name, lambda: MemorySource(data, schema=schema))


def generate(
    function: Callable[..., Any],
    *,
    output: str | Sequence[str] | Mapping[str, Any],
    rows: int | None = None,
    channels: int = 1,
    rate: float | None = None,
    clock: Clock | None = None,
    name: str | None = None,
) -> Stream:
    """Rows made by a compiled function of their number, `rows` of them or without end.

    The function gets 0, 1, 2, ... and gives a value for each name in `output` (which may map names
    to types). Of n channels, channel c makes the rows c, c + n, c + 2 n, ... `rate` is in rows per
    second, over all channels.

    >>> generate(lambda i: (i // 10, i * 0.5), output=["user", "price"], rows=1000)
    Stream(user: int64, price: float64)
    """
    indices = _stream(
        "read.generate",
        name,
        lambda: IndexSource(rows, channels=channels, rate=rate, clock=clock),
    )
    return indices.map(function, output=output, columns=[INDEX])


def index(
    rows: int | None = None,
    *,
    channels: int = 1,
    rate: float | None = None,
    clock: Clock | None = None,
    name: str | None = None,
) -> Stream:
    """One column `index`: 0, 1, 2, ...; see `generate`.

    >>> index(10)
    Stream(index: int64)
    """
    return _stream(
        "read.index",
        name,
        lambda: IndexSource(rows, channels=channels, rate=rate, clock=clock),
    )


def iterate(rows: Iterable[Any], *, schema: Any = None, name: str | None = None) -> Stream:
    """Rows from any Python iterable of dicts, or of tuples in the order of `schema`.

    Without `schema`, the first row is taken at once, and must be a dict that tells the types. An
    iterator cannot be read again.

    >>> iterate(((n, str(n)) for n in range(3)), schema={"n": int, "text": str})
    Stream(n: int64, text: string)
    """
    return _stream("read.iterate", name, lambda: IteratorSource(rows, schema=schema))


def parquet(path: str | os.PathLike[str], *, schema: Any = None, name: str | None = None) -> Stream:
    """Rows of a Parquet file, of the files of a folder, or of those that a glob names.

    Files are read in the order of their names. Without `schema`, the columns are those of the
    first file; columns of types that headrace lacks stay unread.

    >>> import tempfile
    >>> import pyarrow, pyarrow.parquet
    >>> folder = tempfile.TemporaryDirectory()
    >>> pyarrow.parquet.write_table(pyarrow.table({"n": [1]}), f"{folder.name}/a.parquet")
    >>> parquet(folder.name)
    Stream(n: optional(int64))
    >>> parquet(f"{folder.name}/*.parquet", schema={"n": int})
    Stream(n: int64)
    >>> folder.cleanup()
    """
    return _stream("read.parquet", name, lambda: ParquetSource(path, schema=schema))


def source(connector: Source, *, name: str | None = None) -> Stream:
    """Rows of any connector that follows `headrace.plan.connector.Source`.

    >>> source(IndexSource(rows=3))
    Stream(index: int64)
    """
    return _stream("read.source", name, lambda: connector)


def _stream(kind: str, name: str | None, make: Callable[[], Source]) -> Stream:
    """A stream of a new source; what is wrong with its arguments is said with the user's line."""
    place = Place(kind, name)
    try:
        connector = make()
    except (DataError, TypeError) as error:
        raise place.error(str(error)) from None
    return Stream(build.source(connector, name, place.site))
