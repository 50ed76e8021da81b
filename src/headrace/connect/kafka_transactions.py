"""Batches into Kafka, each in one transaction that also says which batch it is.

The name of the last batch is the metadata of an offset that the transaction commits, of a consumer
group of the same name: so it is there exactly if the rows are. A producer that begins ends what one
of its name has left open, and keeps it from sending any more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from headrace.plan.errors import DataError, Unreachable

from .kafka_client import TIMEOUT, Connection, Trouble, kafka

PATIENCE = 30.0  # seconds to try again for, where brokers are gone
PAUSE = 0.2
CLOSE_SECONDS = 5.0  # that clients have to close


class Transactions:
    """The transactions of a producer, one after the other."""

    def __init__(self, connection: Connection, name: str, topic: str, trouble: Trouble) -> None:
        self._connection, self._name, self._topic = connection, name, topic
        self.producer = connection.producer(trouble, name)
        try:
            self._tried(lambda: self.producer.init_transactions(TIMEOUT))
            self._consumer = connection.consumer(Trouble(), group=name)
            self.published, self._count = self._last()
        except BaseException:
            self.producer.close()
            raise
        self._begun = False

    def begin(self) -> None:
        """Rows that are sent from now on belong to the next batch."""
        if not self._begun:
            self._tried(self.producer.begin_transaction)
            self._begun = True

    def commit(self, batch: str, end: str) -> None:
        """All that was sent since `begin`, and the name of the batch, or nothing of it."""
        place = self._place(self._count + 1, f"{batch}\n{end}")
        group = self._consumer.consumer_group_metadata()
        self._tried(lambda: self.producer.send_offsets_to_transaction([place], group, TIMEOUT))
        self._tried(lambda: self.producer.commit_transaction(TIMEOUT))
        self._begun = False
        self.published, self._count = (batch, end), self._count + 1

    def abort(self) -> None:
        """Take back all that was sent since `begin`."""
        if self._begun:
            self._begun = False
            self._tried(lambda: self.producer.abort_transaction(TIMEOUT))

    def close(self) -> None:
        """Close the clients; what was not committed is taken back by the broker in time.

        One that waits for an answer of a broker that is gone does not close: nobody waits for it.
        """
        closing = threading.Thread(target=self._close, name="headrace-kafka-close", daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)

    def _close(self) -> None:
        with suppress(Exception):  # of a client that is fenced: it has said so before
            self._consumer.close()
            self.producer.purge()
            self.producer.close()

    def _place(self, *known: Any) -> Any:
        return kafka().TopicPartition(self._topic, 0, *known)

    def _last(self) -> tuple[tuple[str, str] | None, int]:
        """The name and the end of the last batch, and how many there were."""
        found = self._tried(self._committed)
        if found.offset < 0 or not found.metadata:
            return None, 0
        batch, _, end = found.metadata.partition("\n")
        return (batch, end), found.offset

    def _committed(self) -> Any:
        (found,) = self._consumer.committed([self._place()], TIMEOUT)
        if found.error is not None:
            raise kafka().KafkaException(found.error)
        return found

    def _tried(self, call: Callable[[], Any]) -> Any:
        """Call a client; again, where it says that this may help."""
        module, until = kafka(), time.monotonic() + PATIENCE
        while True:
            try:
                return call()
            except (module.KafkaException, SystemError) as error:
                # the client raises a fatal error inside of callbacks, which Python does not like
                cause = error.__cause__ if isinstance(error, SystemError) else error
                if not isinstance(cause, module.KafkaException):
                    raise
                found = cause.args[0]
                if not _may_help(found) or time.monotonic() > until:
                    raise self._said(found) from None
                time.sleep(PAUSE)

    def _said(self, error: Any) -> DataError:
        module = kafka().KafkaError
        words = self._connection.said(error)
        if error.code() in (module._FENCED, module.PRODUCER_FENCED, module.INVALID_PRODUCER_EPOCH):
            return DataError(
                f"another job writes to topic {self._topic!r} with the same transaction= ({words})"
                "\n  fix: end it, or give each job a name of its own"
            )
        kind = Unreachable if _may_help(error) else DataError
        return kind(f"topic {self._topic!r} of Kafka at {self._connection}: {words}")


def _may_help(error: Any) -> bool:
    """Is it worth while to try again? Consumers do not say so themselves."""
    module = kafka().KafkaError
    return error.retriable() or error.code() in (
        module.NOT_COORDINATOR,
        module.COORDINATOR_NOT_AVAILABLE,
        module.COORDINATOR_LOAD_IN_PROGRESS,
        module.UNSTABLE_OFFSET_COMMIT,
        module.REQUEST_TIMED_OUT,
        module._TIMED_OUT,
        module._TRANSPORT,
        module._WAIT_COORD,
    )
