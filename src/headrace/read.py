"""Sources as users name them: each function gives a Stream, and loads its connector.

>>> from headrace import read
>>> read.memory({"user": ["ann", "bob"], "n": [1, 2]})
Stream(user: string, n: int64)
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .plan import build
from .plan.checks import Place
from .plan.connector import Source
from .plan.errors import DataError
from .plan.located import stands_at
from .stream import Stream

if TYPE_CHECKING:
    from .connect.avro import Avro
    from .connect.clock import Clock
    from .connect.files import Format
    from .connect.kafka_decode import Decoder
    from .connect.watch import Watch


def __getattr__(name: str) -> Any:
    if name == "Watch":
        from .connect.watch import Watch

        return Watch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def memory(data: Any, *, schema: Any = None, name: str | None = None) -> Stream:
    """Rows that lie in memory.

    `data` is an Arrow table or record batches, a pandas or Polars frame, a dict of lists or a list
    of dicts; a list of tables makes a channel of each. Without `schema`, columns of types that
    headrace lacks stay unread, with a warning, and a column is nullable if it has a null.

    >>> memory([{"user": "ann", "n": 1}, {"user": "bob", "n": None}])
    Stream(user: string, n: optional(int64))
    >>> memory({"n": [1, 2]}, schema={"n": "int8"})
    Stream(n: int8)
    """
    from .connect.memory import MemorySource

    return _stream("read.memory", name, lambda: MemorySource(data, schema=schema))


def replay(
    table: Any,
    *,
    time: str | None = None,
    span: Any = None,
    rows: int | None = None,
    rate: Any = None,
    channels: int = 1,
    clock: Clock | None = None,
    name: str | None = None,
) -> Stream:
    """Rows of a table in memory, round after round, `rows` of them or without end.

    `table` is one of those of `memory`. In each round the `time` column goes on where the round
    before ended: it is moved by `span`, a duration for timestamps and a plain number for int64,
    which by default is the largest time minus the smallest, plus 1. Of n channels, each has every
    n-th row of a round. `rate` is that of `generate`.

    >>> replay({"at": [0, 5], "n": [1, 2]}, time="at", span=10, rows=1_000)
    Stream(at: int64, n: int64)
    """
    from .connect.replay import ReplaySource

    return _stream(
        "read.replay",
        name,
        lambda: ReplaySource(
            table, time=time, span=span, rows=rows, rate=rate, channels=channels, clock=clock
        ),
    )


def generate(
    function: Callable[..., Any],
    *,
    output: str | Sequence[str] | Mapping[str, Any],
    rows: int | None = None,
    channels: int = 1,
    rate: Any = None,
    clock: Clock | None = None,
    name: str | None = None,
) -> Stream:
    """Rows made by a compiled function of their number, `rows` of them or without end.

    The function gets 0, 1, 2, ... and gives a value for each name in `output` (which may map names
    to types). Of n channels, channel c makes the rows c, c + n, c + 2 n, ... `rate` is in rows per
    second, over all channels, or in steps: `[(1000, "10s"), (5000, "10s")]` is ten seconds at 1000
    rows per second, then 5000 for good. Without, rows come as fast as they are taken.

    >>> generate(lambda i: (i // 10, i * 0.5), output=["user", "price"], rows=1000)
    Stream(user: int64, price: float64)
    """
    from .connect.generate import INDEX, IndexSource

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
    rate: Any = None,
    clock: Clock | None = None,
    name: str | None = None,
) -> Stream:
    """One column `index`: 0, 1, 2, ...; see `generate`.

    >>> index(10)
    Stream(index: int64)
    """
    from .connect.generate import IndexSource

    return _stream(
        "read.index",
        name,
        lambda: IndexSource(rows, channels=channels, rate=rate, clock=clock),
    )


def iterate(
    rows: Iterable[Any] | AsyncIterable[Any], *, schema: Any = None, name: str | None = None
) -> Stream:
    """Rows from any Python iterable of dicts, or of tuples in the order of `schema`.

    It may be an asynchronous one. Without `schema`, the first row is taken at once, and must be a
    dict that tells the types. An iterator cannot be read again.

    >>> iterate(((n, str(n)) for n in range(3)), schema={"n": int, "text": str})
    Stream(n: int64, text: string)
    """
    from .connect.iterate import IteratorSource

    return _stream("read.iterate", name, lambda: IteratorSource(rows, schema=schema))


def parquet(
    path: str | os.PathLike[str],
    *,
    schema: Any = None,
    watch: bool | Watch = False,
    name: str | None = None,
) -> Stream:
    """Rows of a Parquet file, of the files of a folder, or of those that a glob names.

    Files are read in the order of their names. Without `schema`, the columns are those of the
    first file; columns of types that headrace lacks stay unread, with a warning. With
    `watch=True` the path is a folder, and files that appear in it later are read as they come,
    without end; `watch=read.Watch(interval=...)` says how.

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
    from .connect.parquet import ParquetSource
    from .connect.parquet_format import ParquetFormat

    return _stream(
        "read.parquet",
        name,
        lambda: (
            _watched(path, ParquetFormat(), schema, watch) or ParquetSource(path, schema=schema)
        ),
    )


def arrow(
    path: str | os.PathLike[str],
    *,
    schema: Any = None,
    watch: bool | Watch = False,
    name: str | None = None,
) -> Stream:
    """Rows of Arrow IPC files, of the file format (Feather) or the stream format.

    `path`, `schema` and `watch` are those of `parquet`; in a folder, names that end in .arrow,
    .arrows, .ipc or .feather count.

    >>> import tempfile
    >>> import pyarrow
    >>> folder = tempfile.TemporaryDirectory()
    >>> rows = pyarrow.table({"n": [1]})
    >>> with pyarrow.ipc.new_file(f"{folder.name}/a.arrow", rows.schema) as writer:
    ...     writer.write_table(rows)
    >>> arrow(folder.name)
    Stream(n: optional(int64))
    >>> folder.cleanup()
    """
    from .connect.arrow_files import ArrowFormat, ArrowSource

    return _stream(
        "read.arrow",
        name,
        lambda: _watched(path, ArrowFormat(), schema, watch) or ArrowSource(path, schema=schema),
    )


def json(
    path: str | os.PathLike[str],
    *,
    schema: Any,
    on_error: str = "fail",
    watch: bool | Watch = False,
    name: str | None = None,
) -> Stream:
    """Rows of files with a JSON object per line; `schema` says the columns and their types.

    `path` and `watch` are those of `parquet`; in a folder, names that end in .json, .jsonl or
    .ndjson count. Times are texts in ISO 8601, binary values texts in base64. A line that is not
    right is an error that names file, line and column, or is left out and counted with
    `on_error="skip"`.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> json(folder.name, schema={"user": str, "at": "timestamp"})
    Stream(user: string, at: timestamp)
    >>> folder.cleanup()
    """
    from .connect.json_lines import JsonFormat, JsonSource

    return _stream(
        "read.json",
        name,
        lambda: (
            _watched(path, JsonFormat(on_error), schema, watch)
            or JsonSource(path, schema=schema, on_error=on_error)
        ),
    )


def csv(
    path: str | os.PathLike[str],
    *,
    schema: Any = None,
    header: bool = True,
    delimiter: str = ",",
    quote: str = '"',
    nulls: str | Sequence[str] = "",
    on_error: str = "fail",
    watch: bool | Watch = False,
    name: str | None = None,
) -> Stream:
    """Rows of CSV files; the columns that `schema` names, or all, in types that are guessed.

    `path` and `watch` are those of `parquet`; in a folder, names that end in .csv or .tsv count.
    The first line of a file names its columns; with `header=False` they are those of the schema.
    The words of `nulls` are null where they are not quoted. Times are texts in ISO 8601, binary
    values texts in base64. A line that is not right is an error that names file, line and column,
    or is left out and counted with `on_error="skip"`.

    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = pathlib.Path(folder.name, "a.csv").write_text("user,n\\nann,1\\n")
    >>> csv(folder.name)
    Stream(user: optional(string), n: optional(int64))
    >>> csv(folder.name, schema={"n": float})
    Stream(n: float64)
    >>> folder.cleanup()
    """
    from .connect.csv_files import CsvSource, csv_format

    options: dict[str, Any] = {"delimiter": delimiter, "quote": quote, "nulls": nulls}
    options |= {"header": header, "on_error": on_error}
    return _stream(
        "read.csv",
        name,
        lambda: (
            _watched(path, csv_format(schema, **options), schema, watch)
            or CsvSource(path, schema=schema, **options)
        ),
    )


def text(
    path: str | os.PathLike[str],
    *,
    on_error: str = "fail",
    watch: bool | Watch = False,
    name: str | None = None,
) -> Stream:
    """Lines of files, in UTF-8: one column, `line`.

    `path` and `watch` are those of `parquet`; in a folder, names that end in .txt or .log count.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> text(folder.name)
    Stream(line: string)
    >>> folder.cleanup()
    """
    from .connect.lines import LINE, LineFormat, TextSource

    return _stream(
        "read.text",
        name,
        lambda: (
            _watched(path, LineFormat(on_error), LINE, watch)
            or TextSource(path, LineFormat(on_error), schema=LINE)
        ),
    )


def tcp(
    host: str,
    port: int,
    *,
    schema: Any = None,
    on_error: str = "fail",
    reconnect: float = 0.0,
    journal: str | os.PathLike[str] | None = None,
    name: str | None = None,
) -> Stream:
    """Lines that a TCP server sends: JSON objects with the columns of `schema`, or texts.

    Without `schema` there is one column, `line`. The stream ends with the connection; with
    `reconnect` it is made again, tried for so many seconds. What was received cannot be received
    again: with `journal`, a folder, lines are kept there, and can be read again from there, which
    Spark needs. A line that is not right is an error, or is left out and counted with
    `on_error="skip"`.

    >>> tcp("localhost", 9999, schema={"user": str, "at": "timestamp"})
    Stream(user: string, at: timestamp)
    """
    from .connect.line_source import line_source
    from .connect.tcp import TcpLines

    return _stream(
        "read.tcp",
        name,
        lambda: line_source(
            f"tcp {host}:{port}",
            lambda: TcpLines(host, port, reconnect=reconnect),
            schema=schema,
            on_error=on_error,
            journal=journal,
        ),
    )


def events(
    url: str,
    *,
    schema: Any = None,
    headers: Mapping[str, str] | None = None,
    on_error: str = "fail",
    reconnect: float = 0.0,
    journal: str | os.PathLike[str] | None = None,
    name: str | None = None,
) -> Stream:
    """Server-sent events over HTTP: their data are JSON objects with the columns of `schema`.

    Without `schema` the columns are `event`, `id` and `data`. A connection that is made again goes
    on behind the last event, where the server keeps them. `headers` are sent with the request;
    all else is as for `tcp`.

    >>> events("http://localhost:8000/ticks").schema.names
    ('event', 'id', 'data')
    """
    from .connect.events import COLUMNS, ServerSentEvents
    from .connect.line_source import line_source
    from .connect.paths import without_credentials

    def connect() -> ServerSentEvents:
        return ServerSentEvents(
            url, headers=headers, reconnect=reconnect, only_data=schema is not None
        )

    return _stream(
        "read.events",
        name,
        lambda: line_source(
            f"events {without_credentials(url)}",
            connect,
            schema=COLUMNS if schema is None else schema,
            on_error=on_error,
            journal=journal,
        ),
    )


def kafka(
    servers: str | Iterable[str],
    topic: str,
    *,
    schema: Any = None,
    format: str | Decoder | Avro = "json",
    start: Any = "earliest",
    stop: Any = None,
    on_error: str = "fail",
    metadata: Mapping[str, str] | None = None,
    name: str | None = None,
    **options: Any,
) -> Stream:
    """Messages of a Kafka topic: JSON objects with the columns of `schema`.

    `format="raw"` gives key, value, timestamp, partition and offset; `format=hr.Avro(registry)` is
    Avro, with its schemas in a registry; a function as `format` gets the values of a batch of
    messages as a list of bytes, and gives a record batch with a row each. `start` is "earliest",
    "latest", a datetime, or a dict of partitions and offsets; so is `stop`,
    without which the stream does not end. A message that cannot be decoded is an error that names
    its offset, or is skipped and counted with `on_error="skip"`. `metadata` names more columns, by
    "key", "timestamp", "partition", "offset" and "header:<name>". `options` are those of
    librdkafka, e.g. `security_protocol="SASL_SSL"`; their values are never shown.

    >>> kafka("localhost:9092", "views", schema={"user": str, "at": "timestamp"})
    Stream(user: string, at: timestamp)
    >>> kafka("localhost:9092", "views", format="raw", start={0: 100}).schema.names
    ('key', 'value', 'timestamp', 'partition', 'offset')
    """
    from .connect.kafka import KafkaSource

    return _stream(
        "read.kafka",
        name,
        lambda: KafkaSource(
            servers,
            topic,
            schema=schema,
            format=format,
            start=start,
            stop=stop,
            on_error=on_error,
            metadata=metadata,
            **options,
        ),
    )


def spark(frame: Any, *, schema: Any = None, name: str | None = None) -> Stream:
    """Rows of a Spark DataFrame, batch or streaming.

    On Spark its partitions are read in place, in their session; other engines collect a batch
    DataFrame and refuse a streaming one. Without `schema`, all columns of types that headrace has
    are read, nullable if the DataFrame says so; with it, only those that it names. Rows have no
    order: a watermark moves behind each micro-batch, and no row is late for another one of its own.

    >>> spark(session.range(3))  # doctest: +SKIP
    Stream(id: int64)
    """
    from .connect.spark_frame import SparkFrame

    return _stream("read.spark", name, lambda: SparkFrame(frame, schema=schema))


def source(connector: Source, *, name: str | None = None) -> Stream:
    """Rows of any connector that follows `headrace.plan.connector.Source`.

    >>> from headrace.connect.generate import IndexSource
    >>> source(IndexSource(rows=3))
    Stream(index: int64)
    """
    return _stream("read.source", name, lambda: connector)


def _watched(
    path: str | os.PathLike[str], form: Format, schema: Any, watch: bool | Watch
) -> Source | None:
    """A source that watches a folder, if that is asked for."""
    if not watch:
        return None
    from .connect.watch import Watch, WatchedSource

    how = Watch() if watch is True else watch
    if not isinstance(how, Watch):
        raise TypeError(f"watch={watch!r}: use True, or read.Watch(...) to say how")
    return WatchedSource(path, form, schema=schema, watch=how)


def _stream(kind: str, name: str | None, make: Callable[[], Source]) -> Stream:
    """A stream of a new source; what is wrong with its arguments is said with the user's line."""
    place = Place(kind, name)
    try:
        connector = make()
    except (DataError, TypeError) as error:
        raise place.error(str(error)) from None
    stands_at(connector, place)
    return Stream(build.source(connector, name, place))
