"""How headrace speaks to Kafka: options, clients, and errors that show no secrets."""

from __future__ import annotations

import difflib
import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.plan.errors import DataError, Unreachable
from headrace.plan.located import Located
from headrace.plan.secret import MASK, SECRET_NAME, Secret

LOGGER = logging.getLogger("headrace.kafka")
# The client tells of every attempt to connect: for those only who have asked for it.
_CLIENT_LOGGER = logging.getLogger("headrace.kafka.client")
_CLIENT_LOGGER.addHandler(logging.NullHandler())
_CLIENT_LOGGER.propagate = False
TIMEOUT = 15.0  # seconds that a broker may take to answer a question
NEWS = 1.0  # seconds that a broker may take to hear of a topic that was made a moment ago

# What correctness hangs on: no commits, no jumps over what is gone, no topics out of typing errors.
_OURS = {
    "bootstrap.servers": "the first argument",
    "enable.auto.commit": "headrace keeps the positions itself",
    "enable.auto.offset.store": "headrace keeps the positions itself",
    "auto.offset.reset": "use start=",
    "enable.partition.eof": "headrace needs the ends of partitions",
    "delivery.report.only.error": "headrace waits for all deliveries",
    "transactional.id": "use transaction=",
    "allow.auto.create.topics": "headrace reads topics that are there",
}


def kafka() -> Any:
    """The module confluent_kafka; a DataError where it is not installed."""
    try:
        import confluent_kafka
    except ImportError:
        raise DataError(
            "Kafka needs the package confluent-kafka: pip install 'headrace[kafka]'"
        ) from None
    return confluent_kafka


class Connection:
    """The servers and options of clients. Its text has the servers only."""

    def __init__(self, servers: str | Iterable[str], options: Mapping[str, Any]) -> None:
        self.servers = servers if isinstance(servers, str) else ",".join(servers)
        if not self.servers.strip():
            raise DataError('no servers; give "host:port", or a list of them')
        # Names have dots, which Python's keywords cannot have.
        named = {name.replace("_", "."): value for name, value in options.items()}
        self._options = {name: _hidden(name, value) for name, value in named.items()}
        for name in self._options:
            if name in _OURS:
                raise DataError(f"option {name} cannot be set: {_OURS[name]}")

    def __str__(self) -> str:
        return self.servers

    __repr__ = __str__

    def consumer(self, trouble: Trouble, group: str = "") -> Any:
        """A consumer that commits nothing and is given its partitions; of no group, mostly."""
        defaults = {
            "group.id": "headrace",  # a name is needed, though there is no group
            "client.id": "headrace",
            "reconnect.backoff.max.ms": 1000,
            "queued.max.messages.kbytes": 16384,  # for each partition, which has its own client
            "fetch.queue.backoff.ms": 10,  # else nothing is fetched for 1 s when that is full
        }
        ours = {
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            **({"group.id": group} if group else {}),
        }
        return self._client("Consumer", defaults, ours, trouble)

    def producer(self, trouble: Trouble, transaction: str = "") -> Any:
        """A producer whose retries neither double nor reorder; perhaps one with transactions."""
        defaults = {
            "client.id": "headrace",
            "enable.idempotence": True,
            "linger.ms": 10,
            "reconnect.backoff.max.ms": 1000,
        }
        ours = {"delivery.report.only.error": True, "on_delivery": trouble.not_delivered}
        if transaction:
            ours |= {"transactional.id": transaction, "enable.idempotence": True}
            # an answer that a broker took with it when it went is waited for so long
            defaults |= {"socket.timeout.ms": 10_000}
        return self._client("Producer", defaults, ours, trouble)

    def check(self, kind: str) -> None:
        """Raise what is wrong with the options, without asking a broker."""
        client = self.consumer(Trouble()) if kind == "Consumer" else self.producer(Trouble())
        client.close()

    def _client(
        self, kind: str, defaults: dict[str, Any], ours: dict[str, Any], trouble: Trouble
    ) -> Any:
        module = kafka()
        given = {n: v.value if isinstance(v, Secret) else v for n, v in self._options.items()}
        options = {**defaults, **given, **ours, "bootstrap.servers": self.servers}
        options["error_cb"] = trouble.happened
        try:
            return getattr(module, kind)(options, logger=_CLIENT_LOGGER)
        except (module.KafkaException, ValueError, TypeError) as error:
            raise DataError(f"Kafka does not take the options: {self.said(error)}") from None

    def said(self, error: Any) -> str:
        """The words of an error of the client library, without secrets.

        >>> Connection("localhost:9092", {"sasl.password": "swordfish"}).said("got swordfish")
        'got ***'
        """
        if isinstance(error, Exception) and error.args:
            error = error.args[0]
        words = error.str() if hasattr(error, "str") else str(error)
        secrets = {v.value for v in self._options.values() if isinstance(v, Secret) and v.value}
        for secret in sorted(secrets, key=len, reverse=True):
            words = words.replace(secret, MASK)
        return str(words)

    def partitions(self, client: Any, topic: str, trouble: Trouble) -> list[int]:
        """The partitions of a topic; a DataError where there is no such topic."""
        module = kafka()
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                found = client.list_topics(topic, timeout=TIMEOUT / 5).topics[topic]
            except module.KafkaException as error:
                lasting = self.unreachable(client, error, trouble)
                if trouble.fatal is not None or time.monotonic() >= deadline:
                    raise lasting from None
                continue
            if found.error is None:
                return sorted(found.partitions)
            unknown = found.error.code() == module.KafkaError.UNKNOWN_TOPIC_OR_PART
            being_made = found.error.code() == module.KafkaError.LEADER_NOT_AVAILABLE
            grace = TIMEOUT - NEWS if unknown else 0.0
            if not (unknown or being_made) or time.monotonic() >= deadline - grace:
                raise self._no_topic(client, topic, found.error)
            time.sleep(0.1)

    def unreachable(self, client: Any, error: Exception, trouble: Trouble) -> DataError:
        """What to say where no broker answers."""
        client.poll(0)  # which lets it report what it knows
        reason = self.said(trouble.last or error)
        kind = Unreachable if trouble.fatal is None else DataError
        return kind(f"Kafka at {self} does not answer: {reason}")

    def _no_topic(self, client: Any, topic: str, error: Any) -> DataError:
        if error.code() != kafka().KafkaError.UNKNOWN_TOPIC_OR_PART:
            return DataError(f"topic {topic!r} of Kafka at {self}: {self.said(error)}")
        try:
            there = sorted(n for n in client.list_topics(timeout=TIMEOUT).topics if n[:2] != "__")
        except kafka().KafkaException:
            there = []
        near = difflib.get_close_matches(topic, there, n=1)
        names = ", ".join(there[:10]) + (", ..." if len(there) > 10 else "")
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {names or 'none'}"
        return DataError(f"Kafka at {self} has no topic {topic!r}; {hint}")


def _hidden(name: str, value: Any) -> Any:
    """The value of an option; one that may be a secret is shown and written nowhere."""
    return Secret(value) if isinstance(value, str) and SECRET_NAME.search(name) else value


class Trouble:
    """What a client reported by itself: lost connections, refused passwords, undelivered rows."""

    def __init__(self) -> None:
        self.last: Any = None  # the last report, as an explanation for what fails later
        self.fatal: Any = None  # one that the client does not get over by trying again
        self.undelivered: list[Any] = []

    def happened(self, error: Any) -> None:
        """Called by the client."""
        module = kafka()
        if error.code() != module.KafkaError._ALL_BROKERS_DOWN or self.last is None:
            self.last = error
        refused = (module.KafkaError._AUTHENTICATION, module.KafkaError._SSL)
        if error.fatal() or error.code() in refused:
            self.fatal = error

    def not_delivered(self, error: Any, message: Any) -> None:
        """Called by the client for each message that it gave up."""
        if error is not None:
            self.undelivered.append(error)


class OfTopic(Located):
    """What a source and a sink share: a topic, a format, and one client, made when it is needed.

    A copy that was sent to another process has a client and a lock of its own.
    """

    def __init__(
        self, servers: str | Iterable[str], topic: str, format: Any, options: Mapping[str, Any]
    ) -> None:
        if not isinstance(topic, str) or not topic:
            raise DataError(f"topic={topic!r}: must be the name of a topic")
        self._topic, self._format = topic, format
        self._connection = Connection(servers, options)
        self._renew()

    def _renew(self) -> None:
        self._lock = threading.RLock()
        self._open_client: Any = None
        self._trouble = Trouble()

    def __getstate__(self) -> dict[str, Any]:
        mine = ("_lock", "_open_client", "_trouble")
        return {name: value for name, value in vars(self).items() if name not in mine}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._renew()

    def __str__(self) -> str:
        return f"kafka {self._connection}, topic {self._topic}, {format_name(self._format)}"

    def _new_client(self, trouble: Trouble) -> Any:
        raise NotImplementedError

    def _client(self) -> Any:
        if self._open_client is None:
            self._trouble = Trouble()
            self._open_client = self._new_client(self._trouble)
        return self._open_client

    def _unreachable(self, error: Exception) -> DataError:
        """What to say where the client's broker does not answer."""
        return self._connection.unreachable(self._open_client, error, self._trouble)

    def _partitions(self) -> list[int]:
        """The partitions of the topic; a DataError where there is no such topic."""
        return self._connection.partitions(self._client(), self._topic, self._trouble)


def format_name(format: Any) -> str:
    """What to call a format: its name, or that of the user's function.

    >>> format_name("json"), format_name(len)
    ('json', 'len')
    """
    if isinstance(format, str):
        return format
    return str(getattr(format, "__name__", type(format).__name__))
