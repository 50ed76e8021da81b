"""Rows into a Kafka topic, through confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.located import says_where
from headrace.plan.schema import Field, Schema

from .kafka_client import OfTopic, Trouble, format_name, kafka
from .kafka_encode import Encoder, check_columns, check_format, json_texts, keys_of, raw_values

FLUSH_SECONDS = 0.5  # after which a flush looks for errors


class KafkaSink(OfTopic):
    """Sends each row as a message.

    Formats: "json" is an object with all columns (times as ISO 8601, bytes as base64, NaN and the
    infinities as texts); "raw" sends the column `value` as it is; a function gets a record batch
    and gives the bytes of each row. `key` names the column of the messages' keys, which decide the
    partition; without it the client chooses.

    Guarantees: at-least-once. Rows are sent as they come and have arrived, at all replicas that are
    in sync, when a commit returns; what could not be delivered raises there. Rows that are computed
    again after a failure are sent again. Messages with the same key stay in order. A topic that is
    not there is made, with their defaults, by brokers that are set to do so.

    Other options are those of librdkafka, with dots or underscores in their names; none of their
    values shows in texts and errors.

    >>> str(KafkaSink("localhost:9092", "totals", key="user"))
    'kafka localhost:9092, topic totals, json, key user'
    """

    exactly_once = False

    def __init__(
        self,
        servers: str | Iterable[str],
        topic: str,
        *,
        format: str | Encoder = "json",
        key: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(servers, topic, format, options)
        check_format(format)
        self._key = key
        self._connection.check("Producer")
        self._schema = Schema(())

    def __str__(self) -> str:
        said = super().__str__()
        return said if self._key is None else f"{said}, key {self._key}"

    @says_where
    def open(self, schema: Schema) -> None:
        """Look whether the columns and the topic are there."""
        with self._lock:
            check_columns(schema, self._format, self._key)
            self._schema = schema
            self._partitions()

    @says_where
    def write(self, rows: pa.RecordBatch, batch: str, attempt: str) -> int:
        """Begin to send rows."""
        values = self._values(rows)
        keys: Sequence[bytes | None] = [None] * len(values)
        if self._key is not None:
            keys = keys_of(rows, Field(self._key, self._schema[self._key]))
        with self._lock:
            producer = self._client()
            for value, key in zip(values, keys, strict=True):
                self._produce(producer, value, key)
            producer.poll(0)
            self._check()
        return rows.num_rows

    @says_where
    def commit(self, batch: str, messages: Sequence[int]) -> None:
        """Wait until everything that was sent has arrived."""
        with self._lock:
            self._flush()

    def abort(self, batch: str, attempt: str) -> None:
        """Drop what has not left yet; what has left cannot be taken back."""
        with self._lock:
            if self._open_client is not None:
                self._open_client.purge()
                self._open_client.flush(FLUSH_SECONDS)
            self._trouble = Trouble()
            self._forget()

    @says_where
    def close(self) -> None:
        """Wait until everything that was sent has arrived; raises if it does not."""
        with self._lock:
            try:
                self._flush()
            finally:
                self._forget()

    # ---- inside ------------------------------------------------------------------------------

    def _new_client(self, trouble: Trouble) -> Any:
        return self._connection.producer(trouble)

    def _forget(self) -> None:
        if self._open_client is not None:
            with suppress(Exception):  # nothing is left to send
                self._open_client.close()
            self._open_client = None

    def _values(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        if self._format == "json":
            return json_texts(rows, self._schema)
        if not callable(self._format):
            return raw_values(rows)
        values = self._format(rows)
        if len(values) != rows.num_rows:
            raise DataError(
                f"{format_name(self._format)} gave {len(values)} messages for {rows.num_rows} rows"
            )
        return values

    def _produce(self, producer: Any, value: bytes | None, key: bytes | None) -> None:
        while True:
            try:
                producer.produce(self._topic, value, key)
                return
            except BufferError:  # so much is on its way that more has to wait
                producer.poll(FLUSH_SECONDS)
                self._check()
            except kafka().KafkaException as error:
                said = self._connection.said(error)
                raise DataError(f"{self}: a row of {len(value or b'')} bytes: {said}") from None

    def _flush(self) -> None:
        while self._open_client is not None and self._open_client.flush(FLUSH_SECONDS):
            self._check()
        self._check()

    def _check(self) -> None:
        """Raise what the client reported."""
        lost, fatal = self._trouble.undelivered, self._trouble.fatal
        if lost:
            count, said = len(lost), self._connection.said(lost[0])
            self._trouble.undelivered = []
            raise DataError(f"{self}: {count} rows were not delivered: {said}")
        if fatal is not None:
            raise DataError(f"{self}: {self._connection.said(fatal)}")
