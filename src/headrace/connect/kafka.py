"""Rows from the partitions of a Kafka topic, through confluent-kafka."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from headrace.plan.errors import DataError, Unreachable
from headrace.plan.expressions import Expression
from headrace.plan.literals import stored
from headrace.plan.located import says_where
from headrace.plan.schema import Schema
from headrace.plan.types import timestamp

from .avro import Avro
from .kafka_client import LOGGER, TIMEOUT, OfTopic, Trouble, kafka
from .kafka_decode import RAW, Custom, Decoder, Format, Json, Raw
from .kafka_metadata import Metadata, WithMetadata
from .kafka_reader import KafkaReader, gone

EARLIEST, LATEST = "earliest", "latest"
FAIL, SKIP = "fail", "skip"

Where = str | dt.datetime | Mapping[int, int]


class KafkaSource(OfTopic):
    """The messages of a topic; each partition is a channel.

    Formats: "json" is one object per message, with the columns of `schema` (times as ISO 8601,
    bytes as base64; other fields are not read); "raw" has the columns key, value, timestamp,
    partition and offset; `hr.Avro(registry)` is Avro, whose schemas are in a registry; a function
    gets the values of a batch of messages as a list of bytes and gives a record batch with a row
    for each.

    Reading starts at the earliest message, behind the latest, at the first of a time, or at the
    offset of each partition (`{0: 100, 1: 250}`; the others start at their earliest). It ends
    never, or at `stop`, which is of the same kinds ("latest": what is there when reading starts).

    `metadata` makes columns of what else there is: it names them by "key", "timestamp",
    "partition", "offset" and "header:<name>"; keys and headers are texts in UTF-8.

    A message that cannot be decoded ends the job with its topic, partition and offset, or is
    skipped and counted in `skipped`.

    Guarantees: replayable, as long as the broker keeps the messages; a position is an offset. No
    consumer group is used and nothing is committed. A broker that restarts is waited for. Messages
    of transactions that were aborted are not read. Partitions that are added are read by the next
    run. Offsets that the broker no longer has are an error, never jumped over.

    Other options are those of librdkafka, with dots or underscores in their names; none of their
    values shows in texts and errors.

    >>> source = KafkaSource("localhost:9092", "views", schema={"user": str, "n": int})
    >>> source.schema(), str(source)
    (Schema(user: string, n: int64), 'kafka localhost:9092, topic views, json')
    """

    replayable = True

    def __init__(
        self,
        servers: str | Iterable[str],
        topic: str,
        *,
        schema: Any = None,
        format: str | Decoder | Avro = "json",
        start: Where = EARLIEST,
        stop: Where | None = None,
        on_error: str = FAIL,
        metadata: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(servers, topic, format, options)
        if on_error not in (FAIL, SKIP):
            raise DataError(f'on_error={on_error!r}: must be "fail" or "skip"')
        self._skips = on_error == SKIP
        values = _schema_for(format, schema, topic)
        self._metadata = Metadata.of(metadata or {}, values)
        self._values, self._schema = values, Schema((*values, *self._metadata.schema))
        self._start = _checked_where("start", start)
        self._stop = None if stop is None else _checked_where("stop", stop)
        self._connection.check("Consumer")
        self._starts: dict[int, int] = {}  # once known they stay, so that all read the same
        self._stops: dict[int, int] = {}
        self.skipped = 0

    def schema(self) -> Schema:
        """The schema given, or that of raw messages."""
        return self._schema

    def channels(self) -> Sequence[str]:
        """The numbers of the partitions that there are now."""
        with self._lock, self._new_client_after_trouble():
            found = self._partitions()
            for where in (self._start, self._stop):
                unknown = set(where) - set(found) if isinstance(where, Mapping) else ()
                if unknown:
                    raise DataError(f"{self}: no partition {min(unknown)}; there are {len(found)}")
            return [str(partition) for partition in found]

    def first(self) -> dict[str, int]:
        """For each channel the position at which reading starts; the same whenever asked."""
        with self._lock:
            channels = self.channels()
            self._settle(channels)
            return {channel: self._starts[int(channel)] for channel in channels}

    @says_where
    def latest(self) -> dict[str, int]:
        """For each channel the position behind its last message, or behind the last to be read."""
        with self._lock:
            channels = self.channels()
            self._settle(channels)
            found = {}
            for channel in channels:
                partition = int(channel)
                end = max(self._starts[partition], self._ends(partition)[1])
                found[channel] = min(end, self._stops.get(partition, end))
            return found

    @says_where
    def open(
        self,
        channel: str,
        start: int | None = None,
        stop: int | None = None,
        columns: Sequence[str] | None = None,
        predicate: Expression | None = None,
    ) -> KafkaReader:
        """Read a partition from the offset `start` up to `stop`; a predicate is left to others."""
        with self._lock:
            channels = self.channels()
            if channel not in channels:
                raise DataError(f"{self}: no partition {channel}; there are {len(channels)}")
            partition = int(channel)
            self._settle(channels)
            begin = self._starts[partition] if start is None else start
            self._check_kept(partition, begin)
            end = self._stops.get(partition) if stop is None else stop
        wanted = self._schema if columns is None else self._schema.select(columns)
        reader = KafkaReader(
            self._connection,
            self._topic,
            partition,
            begin,
            end,
            self._decoder(wanted),
            self._skip if self._skips else None,
        )
        reader.place = self.place
        return reader

    def committed(self, channel: str, position: int) -> None:
        """Nothing to do: how long messages stay is the broker's business."""

    def close(self) -> None:
        """Close the client for questions; readers have their own."""
        with self._lock:
            if self._open_client is not None:
                self._open_client.close()
                self._open_client = None

    # ---- inside ------------------------------------------------------------------------------

    def _new_client(self, trouble: Trouble) -> Any:
        return self._connection.consumer(trouble)

    def _decoder(self, columns: Schema) -> Format:
        values = Schema(tuple(field for field in columns if field.name in self._values))
        made: Format = Raw(values) if self._format == "raw" else Json(values)
        if isinstance(self._format, Avro):
            made = Custom(self._format.decoder(values), values, values)
        elif callable(self._format):
            made = Custom(self._format, self._values, values)
        metadata = self._metadata.select(columns.names)
        return WithMetadata(made, metadata, columns) if metadata.columns else made

    def _skip(self, where: str, said: str, count: int) -> None:
        """Count messages that were skipped; the first of a batch is logged."""
        with self._lock:
            self.skipped += count
        LOGGER.warning("skipped %d messages, the first at %s: %s", count, where, said)

    def _settle(self, channels: Sequence[str]) -> None:
        """Find out where each partition starts and stops, once.

        One that was added since is read from its beginning, whatever `start` says: its messages
        are all newer.
        """
        began = bool(self._starts)
        for partition in map(int, channels):
            if partition in self._starts:
                continue
            start = EARLIEST if began and not isinstance(self._start, Mapping) else self._start
            self._starts[partition] = self._resolved(start, partition, EARLIEST)
            if self._stop is not None:
                self._stops[partition] = self._resolved(self._stop, partition, LATEST)

    def _resolved(self, where: Where, partition: int, otherwise: str) -> int:
        low, high = self._ends(partition)
        if isinstance(where, Mapping):
            return where.get(partition, low if otherwise == EARLIEST else high)
        if isinstance(where, dt.datetime):
            milliseconds = -(-int(stored(where, timestamp)) // 1000)
            return self._at(partition, milliseconds, high)
        return low if where == EARLIEST else high

    def _ends(self, partition: int) -> tuple[int, int]:
        """The earliest offset that the broker has, and the one behind the last."""
        where = kafka().TopicPartition(self._topic, partition)
        low, high = self._asked("get_watermark_offsets", where)
        return low, high

    def _at(self, partition: int, milliseconds: int, high: int) -> int:
        """The offset of the first message of a time or later; behind the last if there is none."""
        where = kafka().TopicPartition(self._topic, partition, milliseconds)
        (found,) = self._asked("offsets_for_times", [where])
        return high if found.offset < 0 else int(found.offset)

    def _asked(self, question: str, what: Any) -> Any:
        deadline = time.monotonic() + TIMEOUT
        with self._new_client_after_trouble():
            while True:
                try:
                    answer = getattr(self._client(), question)(what, timeout=TIMEOUT)
                except kafka().KafkaException as error:
                    if _has_no_leader(error) and time.monotonic() < deadline:
                        time.sleep(0.1)  # a broker that has just started looks for its partitions
                        continue
                    raise self._unreachable(error) from None
                if answer is None:
                    raise Unreachable(f"Kafka at {self._connection} does not answer")
                return answer

    @contextmanager
    def _new_client_after_trouble(self) -> Iterator[None]:
        """A client that only asks, and has lost all brokers, does not look for them again."""
        try:
            yield
        except Unreachable:
            self.close()
            raise

    def _check_kept(self, partition: int, start: int) -> None:
        low, high = self._ends(partition)
        if not low <= start <= high:
            raise gone(self._topic, partition, start, f"it has {low} to {high}")


def _has_no_leader(error: Exception) -> bool:
    errors = kafka().KafkaError
    return error.args[0].code() in (errors.NOT_LEADER_FOR_PARTITION, errors.LEADER_NOT_AVAILABLE)


def _schema_for(format: str | Decoder | Avro, schema: Any, topic: str) -> Schema:
    if format == "raw":
        if schema is not None:
            raise DataError(f"raw messages have their own columns: {', '.join(RAW.names)}")
        return RAW
    if isinstance(format, Avro):
        return format.schema(topic) if schema is None else Schema.of(schema)
    if format != "json" and not callable(format):
        raise DataError(
            f'format={format!r}: must be "json", "raw", hr.Avro(registry) or a function of a list '
            "of bytes"
        )
    if schema is None:
        raise DataError("give schema=, the names and types of the columns")
    return Schema.of(schema)


def _checked_where(name: str, where: Any) -> Where:
    if where in (EARLIEST, LATEST) or isinstance(where, dt.datetime):
        return where
    if isinstance(where, Mapping):
        for partition, offset in where.items():
            whole = str(partition).isdecimal() and isinstance(offset, int)
            if not whole or offset < 0:
                raise DataError(f"{name}: {partition!r}: {offset!r} is no partition and offset")
        return {int(partition): offset for partition, offset in where.items()}
    raise DataError(
        f'{name}={where!r}: must be "earliest", "latest", a datetime, or a dict of '
        "partitions and offsets"
    )
