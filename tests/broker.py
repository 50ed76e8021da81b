"""A Kafka broker for the tests of a worker, and ways to fill and read topics."""

import time
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.dev.errors import Unavailable
from headrace.dev.kafka import Broker
from headrace.dev.processes import free_port


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """A running broker. Skipped only where there is no Java, or no way to the jars."""
    running = Broker(
        tmp_path_factory.mktemp("kafka") / "broker", port=free_port(), dies_with_us=True
    )
    try:
        running.start()
    except Unavailable as error:
        pytest.skip(str(error))
    yield running
    pid = running.pid
    assert running.remove()
    assert not running.folder.exists()
    assert Broker(running.folder).pid is None and pid is not None


def new_topic(broker, partitions=1, **config):
    """A new topic with a name of its own."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.servers})
    made = admin.create_topics([NewTopic(name, partitions, 1, config=config)])
    made[name].result(30)
    deadline = time.monotonic() + 30
    while admin.list_topics(timeout=10).topics.get(name) is None:  # the broker hears of it later
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return name


def send(broker, topic, values, partition=0, **more):
    """Send values to a partition, and wait until they are there, in this order.

    An idempotent producer: another sends a batch that was refused (the topic is new) again behind
    the batch after it.
    """
    producer = Producer(
        {"bootstrap.servers": broker.servers, "linger.ms": 5, "enable.idempotence": True}
    )
    refused = []

    def delivered(error, _):
        if error is not None:
            refused.append(error)

    for number, value in enumerate(values):
        producer.produce(topic, value, partition=partition, on_delivery=delivered, **more)
        if number % 50_000 == 49_999:  # its queue holds 100,000
            assert producer.flush(60) == 0
    assert producer.flush(30) == 0 and not refused


def drain(reader, max_rows=8192, seconds=30.0):
    """All rows of a reader that ends, and (rows so far, position) after each poll."""
    rows, positions, deadline = [], [], time.monotonic() + seconds
    while True:
        batch = reader.poll(max_rows, 0.2)
        if batch.rows is not None:
            assert 0 < batch.rows.num_rows <= max_rows
            rows += batch.rows.to_pylist()
        positions.append((len(rows), batch.position))
        if batch.ended:
            reader.close()
            return rows, positions
        assert time.monotonic() < deadline, f"no end in sight after {len(rows)} rows"
