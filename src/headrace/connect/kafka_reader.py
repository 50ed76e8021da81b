"""One partition of a Kafka topic, read from an offset on."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.plan.connector import Batch
from headrace.plan.errors import DataError
from headrace.plan.located import Located, says_where

from .kafka_client import Connection, Trouble, kafka
from .kafka_decode import Format, Messages

MOST = 8192  # messages decoded at a time,
MOST_BYTES = 64 << 20  # and bytes: a message may have many
CHUNK = 512  # messages taken from the client at a time, too few to start the collector
WAIT = 0.1  # seconds after which a poll that waits looks whether it was closed


class KafkaReader(Located):
    """One partition, read by a client of its own."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        partition: int,
        start: int,
        stop: int | None,
        decoder: Format,
        skip: Callable[[str, str, int], None] | None,
    ) -> None:
        self._connection, self._topic, self._partition = connection, topic, partition
        self._position = self._reached = start
        self._stop = stop
        self._decoder, self._skip = decoder, skip
        self._failed: DataError | None = None
        self._closed = threading.Event()
        self._using = threading.Lock()  # held while the client is used: two threads may not
        self._trouble = Trouble()
        self._consumer: Any = None
        if stop is None or start < stop:
            self._consumer = connection.consumer(self._trouble)
            module = kafka()
            self._consumer.assign([module.TopicPartition(topic, partition, start)])

    @says_where
    def poll(self, max_rows: int, timeout: float) -> Batch:
        """The messages that are there; waits for the first of them at most `timeout` seconds."""
        try:
            with self._using:
                if self._closed.is_set():
                    return Batch(None, self._position)
                return self._next(max_rows, time.monotonic() + timeout)
        finally:
            self._let_go()

    def close(self) -> None:
        """Give no more rows; the client is closed now, or by the thread that uses it."""
        self._closed.set()
        self._let_go()

    def _let_go(self) -> None:
        if self._closed.is_set() and self._using.acquire(blocking=False):
            try:
                if self._consumer is not None:
                    self._consumer.close()
                    self._consumer = None
            finally:
                self._using.release()

    def _next(self, max_rows: int, deadline: float) -> Batch:
        if self._failed is not None:
            raise self._failed
        if self._at_stop():
            return Batch(None, self._position, ended=True)
        try:
            messages = self._messages(min(max_rows, MOST), deadline)
            rows = self._rows(messages) if messages else None
        except DataError as error:
            self._failed = error  # the messages that were taken do not come again
            raise
        if self._closed.is_set():  # what was taken is behind the position, and not lost
            return Batch(None, self._position)
        self._position = self._reached
        return Batch(rows, self._position, ended=self._at_stop())

    def _at_stop(self) -> bool:
        return self._stop is not None and self._position >= self._stop

    def _messages(self, count: int, deadline: float) -> Messages:
        """Messages before the stop, at least one if it comes before the deadline."""
        messages = Messages(self._partition, self._decoder.wanted)
        while True:
            room = min(count - len(messages), CHUNK)
            taken = self._consumer.consume(room, 0)
            full = len(taken) == room
            if not taken and not messages:
                wait = max(0.0, min(deadline - time.monotonic(), WAIT))
                taken = self._consumer.consume(1, wait)
                full = bool(taken)  # others may have come with it
            messages.add(self._before_stop(taken))
            at_end = self._stop is not None and self._reached >= self._stop
            full_up = len(messages) == count or messages.size >= MOST_BYTES
            if full_up or at_end or self._closed.is_set():
                return messages
            if not full and (messages or time.monotonic() >= deadline):
                return messages

    def _before_stop(self, taken: list[Any]) -> list[Any]:
        """What is a message, and wanted; says how far all of them reach."""
        if self._trouble.fatal is not None:
            raise self._error(self._trouble.fatal)
        if any(map(kafka().Message.error, taken)):
            taken = [message for message in taken if self._is_message(message)]
        if taken:
            self._reached = max(self._reached, taken[-1].offset() + 1)
        if self._stop is not None and self._reached >= self._stop:
            self._reached = self._stop
            return taken[: bisect_left(taken, self._stop, key=lambda m: m.offset())]
        return taken

    def _is_message(self, message: Any) -> bool:
        """Is this a message, and not a report about the partition?"""
        error = message.error()
        if error is None:
            return True
        module = kafka()
        if error.code() == module.KafkaError._PARTITION_EOF:
            # Marks of transactions take offsets too, and are no messages.
            self._reached = max(self._reached, message.offset())
            return False
        if error.retriable() or error.code() in _passing(module):
            return False
        raise self._error(error)

    def _error(self, error: Any) -> DataError:
        module = kafka()
        lost = (module.KafkaError._AUTO_OFFSET_RESET, module.KafkaError.OFFSET_OUT_OF_RANGE)
        if error.code() in lost:
            return gone(self._topic, self._partition, self._position, self._connection.said(error))
        where = f"topic {self._topic}, partition {self._partition}"
        return DataError(f"{where} of Kafka at {self._connection}: {self._connection.said(error)}")

    def _rows(self, messages: Messages) -> pa.RecordBatch | None:
        rows, bad = self._decoder.decode(messages)
        if bad:
            number, said = bad[0]
            offset = messages.offsets[number]
            where = f"topic {self._topic}, partition {self._partition}, offset {offset}"
            if self._skip is None:
                raise DataError(f'{where}: {said}; to skip such messages, use on_error="skip"')
            self._skip(where, said, len(bad))
        return rows


def _passing(module: Any) -> tuple[int, ...]:
    """Errors that are over when the broker is back."""
    errors = module.KafkaError
    return (errors._ALL_BROKERS_DOWN, errors._TRANSPORT, errors._RESOLVE, errors._TIMED_OUT)


def gone(topic: str, partition: int, offset: int, why: str) -> DataError:
    """What to say of an offset that the broker does not have."""
    return DataError(
        f"topic {topic}, partition {partition}: the broker does not have offset {offset} ({why}); "
        "its messages were removed, or the topic was made anew"
    )
