"""Keys, times, places and headers of Kafka's messages as columns."""

import datetime as dt

import pytest
from confluent_kafka import Producer
from tests.broker import drain, new_topic

import headrace as hr
from headrace.connect.kafka import KafkaSource

METADATA = {
    "key": "user",
    "timestamp": "sent",
    "partition": "p",
    "offset": "at",
    "header:trace": "trace",
}


@pytest.fixture(scope="module")
def topic(broker):
    name = new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.servers, "enable.idempotence": True})
    sent = [
        (b"ann", b'{"n": 0}', [("trace", b"a"), ("trace", b"b"), ("other", b"\xff")]),
        (None, b'{"n": 1}', None),
        (b"bob", b"broken", None),
        (b"\xff", b'{"n": 3}', None),
        (b"bob", b'{"n": 4}', [("trace", b"c")]),
    ]
    for number, (key, value, headers) in enumerate(sent):
        producer.produce(name, value, key, partition=0, timestamp=1000 + number, headers=headers)
    assert producer.flush(60) == 0
    return name


def moment(ms):
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


def source(broker, topic, **options):
    options = {"schema": {"n": int}, "stop": "latest", "on_error": "skip", **options}
    return KafkaSource(broker.servers, topic, metadata=METADATA, **options)


def test_they_are_columns_behind_those_of_the_value(broker, topic):
    made = source(broker, topic)
    assert made.schema().names == ("n", "user", "sent", "p", "at", "trace")
    rows = drain(made.open("0"))[0]
    assert [tuple(row.values()) for row in rows] == [
        (0, "ann", moment(1000), 0, 0, "b"),
        (1, None, moment(1001), 0, 1, None),
        (4, "bob", moment(1004), 0, 4, "c"),
    ]
    assert made.skipped == 2  # one is not JSON, and the key of one is not UTF-8


@pytest.mark.parametrize("columns", [["at", "n"], ["n"], ["trace", "sent"], ["user"], []])
def test_only_what_is_wanted(broker, topic, columns):
    rows = drain(source(broker, topic).open("0", columns=columns))[0]
    assert len(rows) == (3 if "user" in columns else 4)  # a key that nobody wants may be anything
    assert all(list(row) == columns for row in rows)
    known = {0: (0, 0), 1: (1, 1), 2: (3, 3), 3: (4, 4)}
    if columns == ["at", "n"]:
        assert {k: (row["at"], row["n"]) for k, row in enumerate(rows)} == known


def test_a_key_that_is_no_text_is_said_with_its_offset(broker, topic):
    made = source(broker, topic, on_error="fail", start={0: 3})
    with pytest.raises(hr.DataError, match=r"offset 3.*the key is not UTF-8"):
        drain(made.open("0"))


def test_beside_a_function_and_through_a_job(broker, topic):
    import pyarrow as pa

    def lengths(values):
        return pa.record_batch({"n": [len(value) for value in values]})

    rows = hr.read.kafka(
        broker.servers, topic, schema={"n": int}, format=lengths, stop="latest", start={0: 4},
        metadata={"key": "user"},
    )  # fmt: skip
    out = rows.write.collect()
    hr.run(out, engine="node", compiled=False)
    assert out.result().to_pylist() == [{"n": 8, "user": "bob"}]


@pytest.mark.parametrize(
    ("metadata", "what"),
    [
        ({"size": "s"}, "'size' is none of key, timestamp, partition, offset and header:<name>"),
        ({"header:": "s"}, "'header:' is none of"),
        ({"key": "n"}, "there are two columns 'n'"),
        ({"key": "k", "offset": "k"}, "there are two columns 'k'"),
    ],
)
def test_mistakes(metadata, what):
    with pytest.raises(hr.PipelineError, match=what):
        hr.read.kafka("localhost:9092", "t", schema={"n": int}, metadata=metadata)
