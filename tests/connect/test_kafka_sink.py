"""Writing to a real broker, at least once, with delivery checked at each commit."""

import datetime as dt
import json
import pickle

import pyarrow as pa
import pytest
from tests.broker import drain, new_topic

import headrace as hr
from headrace.connect.kafka import KafkaSource
from headrace.connect.kafka_sink import KafkaSink
from headrace.plan.errors import DataError
from headrace.plan.schema import Schema

ROWS = pa.record_batch({"user": ["ann", None, 'q"\n'], "n": [1, 2, 3]})
SCHEMA = Schema.of(ROWS.schema)


def raw(broker, topic):
    source = KafkaSource(broker.servers, topic, format="raw", stop="latest")
    rows = [row for channel in source.channels() for row in drain(source.open(channel))[0]]
    source.close()
    return rows


def test_committed_rows_are_there(broker):
    topic = new_topic(broker)
    sink = KafkaSink(broker.servers, topic, key="n")
    sink.open(SCHEMA)
    message = sink.write(ROWS, "b1", "0")
    sink.commit("b1", [message])
    found = raw(broker, topic)
    assert [json.loads(row["value"]) for row in found] == ROWS.to_pylist()
    assert [row["key"] for row in found] == [b"1", b"2", b"3"]
    sink.commit("b1", [message])
    sink.close()
    sink.close()
    assert len(raw(broker, topic)) == 3


def test_a_pickled_sink_delivers_when_it_is_closed(broker):
    """So it goes where tasks write and another sink object commits."""
    topic = new_topic(broker)
    sink = KafkaSink(broker.servers, topic, key="user")
    sink.open(SCHEMA)
    task = pickle.loads(pickle.dumps(sink))
    message = task.write(ROWS, "b1", "0")
    task.close()
    sink.commit("b1", [message])
    assert [row["key"] for row in raw(broker, topic)] == [b"ann", None, b'q"\n']
    sink.close()


def test_a_raw_value_and_a_function(broker):
    topic = new_topic(broker)
    rows = pa.record_batch({"value": [b"\xff\x00", None], "key": ["a", None]})
    sink = KafkaSink(broker.servers, topic, format="raw", key="key")
    sink.open(Schema.of(rows.schema))
    sink.commit("b", [sink.write(rows, "b", "0")])
    sink.close()
    numbers = KafkaSink(
        broker.servers, topic, format=lambda rows: [b"%d" % n for n in rows["n"].to_pylist()]
    )
    numbers.open(SCHEMA)
    numbers.commit("b", [numbers.write(ROWS, "b", "0")])
    numbers.close()
    found = [(row["key"], row["value"]) for row in raw(broker, topic)]
    assert found == [(b"a", b"\xff\x00"), (None, None), *((None, v) for v in (b"1", b"2", b"3"))]


def test_what_cannot_be_delivered_raises(broker):
    topic = new_topic(broker, **{"max.message.bytes": "1000"})
    large = pa.record_batch({"user": ["x" * 5000], "n": [1]})
    sink = KafkaSink(broker.servers, topic)
    sink.open(SCHEMA)
    message = sink.write(large, "b1", "0")
    with pytest.raises(DataError, match=f"topic {topic}, json: 1 rows were not delivered: .*size"):
        sink.commit("b1", [message])
    sink.write(large, "b2", "0")
    with pytest.raises(DataError, match="not delivered"):
        sink.close()
    sink.write(large, "b3", "0")
    sink.abort("b3", "0")
    sink.close()  # what was aborted is nobody's loss
    huge = pa.record_batch({"user": ["x" * 2_000_000], "n": [1]})
    with pytest.raises(DataError, match=r"a row of 20000\d\d bytes: "):
        sink.write(huge, "b4", "0")
    sink.close()


def test_columns_are_checked_before_a_row_is_read(broker):
    topic = new_topic(broker)
    with pytest.raises(DataError, match="no column 'usr' for key=; did you mean 'user'"):
        KafkaSink(broker.servers, topic, key="usr").open(SCHEMA)
    with pytest.raises(DataError, match='format="raw" needs a column value'):
        KafkaSink(broker.servers, topic, format="raw").open(SCHEMA)


@pytest.mark.compiled
def test_a_pipeline_from_topic_to_topic(broker):
    times = [dt.datetime(2024, 1, 1, 12, 0, n % 60, n, tzinfo=dt.UTC) for n in range(5000)]
    table = pa.table(
        {
            "n": list(range(5000)),
            "x": [n / 8 for n in range(5000)],
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "name": [None if n % 7 == 0 else f"é{n}" for n in range(5000)],
        }
    )
    one, other = new_topic(broker, partitions=3), new_topic(broker)
    hr.run(hr.read.memory(table).write.kafka(broker.servers, one, key="n"))
    schema = {"n": int, "x": float, "at": "timestamp", "name": hr.optional(str)}
    copied = hr.read.kafka(broker.servers, one, schema=schema, stop="latest")
    hr.run(copied.filter(hr.col("n") % 2 == 0).write.kafka(broker.servers, other))
    result = hr.read.kafka(broker.servers, other, schema=schema, stop="latest").write.collect()
    hr.run(result)
    found = sorted(result.result().to_pylist(), key=lambda row: row["n"])
    assert found == table.to_pylist()[::2]
