"""Writing to a real broker exactly once: batches in transactions, with their names."""

import json
import signal
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.broker import drain, new_topic

import headrace as hr
from headrace.connect.kafka import KafkaSource
from headrace.connect.kafka_sink import KafkaSink
from headrace.plan.errors import DataError
from headrace.plan.schema import Schema

SCHEMA = Schema.of({"n": int})
SMALL, LARGE = b'{"n": 1}', b"x" * 5000


def opened(broker, topic, name="job"):
    sink = KafkaSink(broker.servers, topic, transaction=name)
    sink.open(SCHEMA)
    return sink


def write(sink, batch, *numbers):
    return sink.write(pa.record_batch({"n": list(numbers)}), batch, "0")


def numbers(broker, topic):
    """The committed rows."""
    source = KafkaSource(broker.servers, topic, format="raw", stop="latest")
    rows = [row for channel in source.channels() for row in drain(source.open(channel))[0]]
    source.close()
    return sorted(json.loads(row["value"])["n"] for row in rows)


def test_a_batch_is_committed_once_also_by_the_next_process(broker):
    topic = new_topic(broker, partitions=2)
    sink = opened(broker, topic)
    sink.commit("a-1", [write(sink, "a-1", 1, 2), write(sink, "a-1", 3)], "end 1")
    assert numbers(broker, topic) == [1, 2, 3]
    sink.commit("a-1", [write(sink, "a-1", 1, 2, 3)], "end 1")  # of a restart, say
    sink.commit("a-2", [write(sink, "a-2", 4)], "end 2")
    sink.close()
    again = opened(broker, topic)
    again.commit("a-2", [write(again, "a-2", 4)], "end 2")
    again.commit("a-3", [write(again, "a-3", 5)], "end 3")
    with pytest.raises(DataError, match="'a-3' was published with another end"):
        again.commit("a-3", [write(again, "a-3", 6)], "another end")
    again.close()
    assert numbers(broker, topic) == [1, 2, 3, 4, 5]


def test_what_is_not_committed_is_never_seen(broker):
    topic = new_topic(broker)
    sink = opened(broker, topic)
    write(sink, "a-1", 1)
    sink.abort("a-1", "0")
    sink.commit("a-1", [write(sink, "a-1", 2)])
    write(sink, "a-2", 3)
    sink.close()
    assert numbers(broker, topic) == [2]


def test_another_job_of_the_same_name_takes_over(broker):
    topic = new_topic(broker)
    first, second = opened(broker, topic), opened(broker, topic)
    second.commit("b-1", [write(second, "b-1", 1)])
    with pytest.raises(
        DataError, match=r"another job writes to topic .* with the same transaction"
    ):
        first.commit("a-1", [write(first, "a-1", 2)])
    first.abort("a-1", "0")
    first.close()
    second.close()
    assert numbers(broker, topic) == [1]


def test_rows_that_are_not_delivered_take_their_batch_back(broker):
    topic = new_topic(broker, **{"max.message.bytes": "1000"})
    sink = KafkaSink(broker.servers, topic, transaction="job", format=lambda rows: [SMALL, LARGE])
    sink.open(SCHEMA)
    with pytest.raises(DataError, match=r"[Mm]essage size too large"):
        sink.commit("a-1", [write(sink, "a-1", 1, 2)])
    sink.abort("a-1", "0")
    sink._format = "json"
    sink.commit("a-1", [write(sink, "a-1", 3)])
    sink.close()
    assert numbers(broker, topic) == [3]


def test_a_broker_that_restarts_before_a_commit(broker):
    topic = new_topic(broker)
    sink = opened(broker, topic)
    sent = write(sink, "a-1", 1, 2)
    broker.stop()
    broker.start()
    sink.commit("a-1", [sent])
    sink.close()
    assert numbers(broker, topic) == [1, 2]


KILLED = """
import os, sys, pyarrow as pa
from headrace.connect.kafka_sink import KafkaSink
from headrace.plan.schema import Schema
servers, topic, after = sys.argv[1:]
sink = KafkaSink(servers, topic, transaction="job")
sink.open(Schema.of({"n": int}))
sink.commit("a-1", [sink.write(pa.record_batch({"n": [1]}), "a-1", "0")])
sent = sink.write(pa.record_batch({"n": [2, 3]}), "a-2", "0")
sink._flush()
if after == "commit":
    sink.commit("a-2", [sent])
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("after", ["sending", "commit"])
def test_a_process_that_is_killed(broker, after):
    topic = new_topic(broker)
    command = [sys.executable, "-c", KILLED, broker.servers, topic, after]
    assert subprocess.run(command, timeout=200).returncode == -signal.SIGKILL
    sink = opened(broker, topic)
    sink.commit("a-2", [write(sink, "a-2", 2, 3)])
    sink.commit("a-3", [write(sink, "a-3", 4)])
    sink.close()
    assert numbers(broker, topic) == [1, 2, 3, 4]


def test_a_pipeline_and_its_readers(broker):
    topic = new_topic(broker)
    rows = hr.read.memory({"n": list(range(100))})
    out = rows.write.kafka(broker.servers, topic, transaction="copy")
    assert "transaction copy" in repr(out)
    hr.run(out, engine="thread", compiled=False)
    hr.run(out, engine="thread", compiled=False)  # another run is other batches
    assert numbers(broker, topic) == sorted([*range(100)] * 2)
    with pytest.raises(hr.PipelineError, match="must be a name that no other job has"):
        rows.write.kafka(broker.servers, topic, transaction="")
    with pytest.raises(hr.PipelineError, match=r"transactional.id cannot be set: use transaction="):
        rows.write.kafka(broker.servers, topic, transactional_id="x")
