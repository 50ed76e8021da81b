"""Rows into a Kafka topic, through confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.located import says_where
from headrace.plan.schema import Field, Schema

from .avro import Avro
from .kafka_client import OfTopic, Trouble, format_name, kafka
from .kafka_encode import Encoder, check_columns, check_format, json_texts, keys_of, raw_values
from .kafka_transactions import Transactions
from .staging import published_otherwise

FLUSH_SECONDS = 0.5  # after which a flush looks for errors


class KafkaSink(OfTopic):
    """Sends each row as a message.

    Formats: "json" is an object with all columns (times as ISO 8601, bytes as base64, NaN and the
    infinities as texts); "raw" sends the column `value` as it is; `hr.Avro(registry)`
    registers the columns as a schema, and sends Avro; a function gets a record batch and gives the
    bytes of each row. `key` names the column of the messages' keys, which decide the
    partition; without it the client chooses.

    Guarantees: at-least-once. Rows are sent as they come and have arrived, at all replicas that are
    in sync, when a commit returns; what could not be delivered raises there. Rows that are computed
    again after a failure are sent again. Messages with the same key stay in order. A topic that is
    not there is made, with their defaults, by brokers that are set to do so.

    With `transaction`, a name that this job alone has, also after a restart: exactly-once. A batch
    is one transaction, with its name, so readers of committed messages see all of it or nothing,
    and a batch whose name is the last one is not sent again. Kafka forgets that name when nobody
    has written for some days (offsets.retention.minutes). Another job of the same name ends this
    one's writing.

    Other options are those of librdkafka, with dots or underscores in their names; none of their
    values shows in texts and errors.

    >>> str(KafkaSink("localhost:9092", "totals", key="user"))
    'kafka localhost:9092, topic totals, json, key user'
    """

    def __init__(
        self,
        servers: str | Iterable[str],
        topic: str,
        *,
        format: str | Encoder | Avro = "json",
        key: str | None = None,
        transaction: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(servers, topic, format, options)
        check_format(format)
        if transaction is not None and (not isinstance(transaction, str) or not transaction):
            raise DataError(f"transaction={transaction!r}: must be a name that no other job has")
        self._key, self._transaction = key, transaction
        self.exactly_once = self.keeps_ends = transaction is not None
        self._connection.check("Producer")
        self._schema = Schema(())
        self._encoder: Encoder | None = None  # of Avro, once its schema is registered

    def __str__(self) -> str:
        said = super().__str__()
        said += "" if self._key is None else f", key {self._key}"
        return said if self._transaction is None else f"{said}, transaction {self._transaction}"

    @says_where
    def open(self, schema: Schema) -> None:
        """Look whether the columns and the topic are there."""
        with self._lock:
            check_columns(schema, self._format, self._key)
            self._schema = schema
            if isinstance(self._format, Avro):
                self._encoder = self._format.encoder(schema, self._topic)
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
            if self._transactions is not None:
                if self._is_published(batch):
                    return rows.num_rows
                self._transactions.begin()
            for value, key in zip(values, keys, strict=True):
                self._produce(producer, value, key)
            producer.poll(0)
            self._check()
        return rows.num_rows

    @says_where
    def commit(self, batch: str, messages: Sequence[int], end: str = "") -> None:
        """Wait until everything that was sent has arrived, all of it at once in a transaction.

        end: stands for where the batch ends. One that was committed with another end had other
        rows, and is a DataError.
        """
        with self._lock:
            if self._transaction is None:
                self._flush()
            elif not self._is_published(batch, end):
                assert self._transactions is not None
                try:
                    self._transactions.commit(batch, end)
                except DataError:
                    try:
                        with suppress(Exception):  # a fatal one is what was raised
                            self._client().poll(FLUSH_SECONDS)
                        self._check()  # it may know by now of rows that were not delivered
                    finally:
                        self._forget()  # who begins again takes back what is open
                    raise

    def abort(self, batch: str, attempt: str) -> None:
        """Drop what has not left yet; what has left can be taken back in a transaction only."""
        with self._lock:
            if self._transactions is not None:
                with suppress(DataError):  # one that cannot be taken back is never committed
                    self._transactions.abort()
            elif self._open_client is not None:
                self._open_client.purge()
                self._open_client.flush(FLUSH_SECONDS)
            self._trouble = Trouble()
            self._forget()

    @says_where
    def close(self) -> None:
        """Wait until everything that was sent has arrived; raises if it does not."""
        with self._lock:
            try:
                if self._transactions is not None:
                    self._transactions.abort()  # what is committed has arrived
                else:
                    self._flush()
            finally:
                self._forget()

    # ---- inside ------------------------------------------------------------------------------

    def _renew(self) -> None:
        super()._renew()
        self._transactions: Transactions | None = None

    def _new_client(self, trouble: Trouble) -> Any:
        if self._transaction is None:
            return self._connection.producer(trouble)
        name = f"{self._transaction}-{self._topic}"  # a job may write to several topics
        self._transactions = Transactions(self._connection, name, self._topic, trouble)
        return self._transactions.producer

    def _forget(self) -> None:
        if self._open_client is not None:
            with suppress(Exception):  # nothing is left to send
                (self._transactions or self._open_client).close()
            self._open_client = self._transactions = None

    def _is_published(self, batch: str, end: str | None = None) -> bool:
        """Is this the last batch that was committed? Then it must have had the same end."""
        self._client()
        assert self._transactions is not None
        last = self._transactions.published
        if last is None or last[0] != batch:
            return False
        if end is not None and last[1] != end:
            raise published_otherwise(self, batch, last[1], end)
        return True

    def _values(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        if self._format == "json":
            return json_texts(rows, self._schema)
        if isinstance(self._format, Avro):
            assert self._encoder is not None, "open() comes before write()"
            return self._encoder(rows)
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
