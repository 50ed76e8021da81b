"""Sinks as users name them: `stream.write.parquet(...)` and others, each of which gives an Output
and loads its connector.

    >>> from headrace import read
    >>> numbers = read.memory({"n": [1, 2, 3]})
    >>> numbers.write.console(limit=5)
    Output(console, 5 rows)

An output does nothing by itself; `hr.run` takes one or several.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO, cast

import pyarrow as pa

from .plan.checks import Place
from .plan.connector import Sink
from .plan.errors import DataError
from .plan.located import stands_at
from .plan.nodes import Sink as SinkNode

if TYPE_CHECKING:
    from .connect.avro import Avro
    from .connect.collect import CollectSink
    from .connect.kafka_encode import Encoder
    from .connect.null import NullSink
    from .stream import Stream


@dataclass(frozen=True, eq=False, repr=False)
class Output:
    """A stream and where its rows go; what `hr.run` takes."""

    node: SinkNode

    @property
    def connector(self) -> Sink:
        """The sink itself."""
        return cast(Sink, self.node.connector)

    def __repr__(self) -> str:
        return f"Output({self.connector})"


@dataclass(frozen=True, eq=False, repr=False)
class Collected(Output):
    """An output into memory."""

    def result(self) -> pa.Table:
        """The rows of the last run, as an Arrow table."""
        return cast("CollectSink", self.connector).result()


@dataclass(frozen=True, eq=False, repr=False)
class Counted(Output):
    """An output that only counts."""

    @property
    def rows(self) -> int:
        """How many rows the last run had."""
        return cast("NullSink", self.connector).rows


class Writer:
    """The ways to write a stream; every one takes `name=`, which errors and metrics use.

    Those into folders and tables take `mode=`, which says what becomes of rows that are there when
    a job begins: they stay ("append"), are removed ("overwrite"), or are an error ("error").
    What the job itself has written, before it was started again, always stays.
    """

    __slots__ = ("_stream",)

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def collect(self, *, name: str | None = None) -> Collected:
        """All rows into memory; `result()` gives them as an Arrow table after the run.

        >>> from headrace import read
        >>> read.memory({"n": [1]}).write.collect()
        Output(collect)
        """
        from .connect.collect import CollectSink

        return Collected(self._node("write.collect", name, CollectSink))

    def callback(
        self, function: Callable[[pa.RecordBatch], Any], *, name: str | None = None
    ) -> Output:
        """Call a function with each Arrow record batch; again for rows that are computed again.

        >>> from headrace import read
        >>> read.memory({"n": [1]}).write.callback(print)
        Output(callback print)
        """
        from .connect.callback import CallbackSink

        return Output(self._node("write.callback", name, lambda: CallbackSink(function)))

    def parquet(
        self,
        path: str | os.PathLike[str],
        *,
        compression: str = "zstd",
        mode: str = "append",
        name: str | None = None,
    ) -> Output:
        """Into a folder of Parquet files; other readers see each committed batch once, whole.

        >>> from headrace import read
        >>> read.memory({"n": [1]}).write.parquet("out/")
        Output(parquet out/)
        """
        from .connect.parquet_sink import ParquetSink

        made = self._node(
            "write.parquet", name, lambda: ParquetSink(path, compression=compression, mode=mode)
        )
        return Output(made)

    def arrow(
        self,
        path: str | os.PathLike[str],
        *,
        compression: str = "none",
        mode: str = "append",
        name: str | None = None,
    ) -> Output:
        """Into a folder of Arrow files; other readers see each committed batch once, whole.

        >>> from headrace import read
        >>> read.memory({"n": [1]}).write.arrow("out/")
        Output(arrow out/)
        """
        from .connect.arrow_sink import ArrowSink

        made = self._node(
            "write.arrow", name, lambda: ArrowSink(path, compression=compression, mode=mode)
        )
        return Output(made)

    def json(
        self, path: str | os.PathLike[str], *, mode: str = "append", name: str | None = None
    ) -> Output:
        """Into a folder of files with a JSON object per line; each committed batch once, whole.

        >>> from headrace import read
        >>> read.memory({"n": [1]}).write.json("out/")
        Output(json out/)
        """
        from .connect.json_sink import JsonSink

        return Output(self._node("write.json", name, lambda: JsonSink(path, mode=mode)))

    def csv(
        self,
        path: str | os.PathLike[str],
        *,
        delimiter: str = ",",
        mode: str = "append",
        name: str | None = None,
    ) -> Output:
        """Into a folder of CSV files with a header each; each committed batch once, whole.

        >>> from headrace import read
        >>> read.memory({"n": [1]}).write.csv("out/")
        Output(csv out/)
        """
        from .connect.csv_sink import CsvSink

        return Output(
            self._node("write.csv", name, lambda: CsvSink(path, delimiter=delimiter, mode=mode))
        )

    def sqlite(
        self,
        path: str | os.PathLike[str],
        table: str,
        *,
        mode: str = "append",
        name: str | None = None,
    ) -> Output:
        """Into a table of an SQLite database, each batch once, in one transaction.

        The table is made if it is not there. Times become texts in ISO 8601, bools 0 and 1.

        >>> from headrace import read
        >>> read.memory({"n": [1]}).write.sqlite("out.db", "numbers")
        Output(sqlite out.db, table numbers)
        """
        from .connect.sqlite_sink import SqliteSink

        return Output(self._node("write.sqlite", name, lambda: SqliteSink(path, table, mode=mode)))

    def postgres(
        self,
        url: str,
        table: str,
        *,
        key: str | Sequence[str] = (),
        mode: str = "append",
        staging: str | None = None,
        name: str | None = None,
    ) -> Output:
        """Into a table of a PostgreSQL database, each batch once, in one transaction.

        With `key` a row replaces the one that has its key. The table is made if it is not there.
        `staging` is a folder that all tasks see, where rows wait for their commit. The user and
        the password in the URL are never shown.

        >>> from headrace import read
        >>> numbers = read.memory({"n": [1]})
        >>> numbers.write.postgres("postgresql://me:secret@db/shop", "numbers", key="n")
        Output(postgres postgresql://db/shop, table numbers)
        """
        from .connect.postgres_sink import PostgresSink

        made = self._node(
            "write.postgres",
            name,
            lambda: PostgresSink(url, table, key=key, mode=mode, staging=staging),
        )
        return Output(made)

    def foreach_batch(
        self, function: Callable[[pa.Table, str], Any], *, name: str | None = None
    ) -> Output:
        """Call a function with each committed batch, as one Arrow table, and the batch's name.

        After a crash a batch may be given again, under the same name.

        >>> from headrace import read
        >>> read.memory({"n": [1]}).write.foreach_batch(print)
        Output(foreach_batch print)
        """
        from .connect.foreach_batch import ForeachBatchSink

        return Output(self._node("write.foreach_batch", name, lambda: ForeachBatchSink(function)))

    def kafka(
        self,
        servers: str | Iterable[str],
        topic: str,
        *,
        format: str | Encoder | Avro = "json",
        key: str | None = None,
        transaction: str | None = None,
        name: str | None = None,
        **options: Any,
    ) -> Output:
        """Into a Kafka topic, a message for each row, at least once.

        `format` is "json", "raw" (the column `value` as it is), `hr.Avro(registry)`, whose
        registry gets the schema, or a function of a record batch that gives a list of bytes; `key`
        names the column of the messages' keys. `transaction` is a name that this job alone has,
        also after a restart: each batch is then one transaction, which readers of committed
        messages see whole, exactly once. `options` are those of
        librdkafka; their values are never shown.

        >>> from headrace import read
        >>> read.memory({"n": [1]}).write.kafka("localhost:9092", "numbers", key="n")
        Output(kafka localhost:9092, topic numbers, json, key n)
        """
        from .connect.kafka_sink import KafkaSink

        made = self._node(
            "write.kafka",
            name,
            lambda: KafkaSink(
                servers, topic, format=format, key=key, transaction=transaction, **options
            ),
        )
        return Output(made)

    def console(
        self, limit: int | None = 20, *, file: TextIO | None = None, name: str | None = None
    ) -> Output:
        """Print the first rows as a table (None: all of them).

        >>> from headrace import read
        >>> read.memory({"n": [1]}).write.console(limit=3)
        Output(console, 3 rows)
        """
        from .connect.console import ConsoleSink

        return Output(self._node("write.console", name, lambda: ConsoleSink(limit, file=file)))

    def null(self, *, name: str | None = None) -> Counted:
        """Nowhere; `rows` says how many there were.

        >>> from headrace import read
        >>> read.memory({"n": [1]}).write.null()
        Output(null)
        """
        from .connect.null import NullSink

        return Counted(self._node("write.null", name, NullSink))

    def to(self, connector: Sink, *, name: str | None = None) -> Output:
        """Into any connector that follows `headrace.plan.connector.Sink`.

        >>> from headrace import read
        >>> from headrace.connect.null import NullSink
        >>> read.memory({"n": [1]}).write.to(NullSink())
        Output(null)
        """
        return Output(self._node("write.to", name, lambda: connector))

    def _node(self, kind: str, name: str | None, make: Callable[[], Sink]) -> SinkNode:
        place = Place(kind, name)
        try:
            connector = make()
        except (DataError, TypeError) as error:
            raise place.error(str(error)) from None
        if not isinstance(connector, Sink):
            raise place.error(
                f"{connector!r} is not a sink connector",
                "use one of stream.write, e.g. stream.write.parquet",
            )
        stands_at(connector, place)
        node = self._stream.node
        return SinkNode(
            (node,),
            node.schema,
            place.name,
            site=place.site,
            key=node.key,
            time=node.time,
            connector=connector,
        )
