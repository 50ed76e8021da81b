"""Reading a real broker: nothing lost, nothing twice, and clear words where it cannot be."""

import datetime as dt
import json
import pickle
import random
import threading
import time

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.broker import drain, new_topic, send

import headrace as hr
from headrace.connect import kafka, kafka_client
from headrace.connect.kafka import KafkaSource
from headrace.plan.errors import DataError, PipelineError, Unreachable

SCHEMA = {"n": int, "text": str}


def messages(numbers):
    return [json.dumps({"n": n, "more": [n], "text": f"é{n}"}).encode() for n in numbers]


def rows_of(numbers):
    return [{"n": n, "text": f"é{n}"} for n in numbers]


@pytest.fixture(scope="module")
def filled(broker):
    """A topic of three partitions, and what is in each."""
    topic = new_topic(broker, partitions=3)
    numbers = {
        p: list(range(p * 10_000, p * 10_000 + count)) for p, count in enumerate((5000, 7, 0))
    }
    for partition, of_partition in numbers.items():
        send(broker, topic, messages(of_partition), partition)
    return topic, numbers


def source_of(broker, topic, **options):
    options = {"schema": SCHEMA, "stop": "latest", **options}
    return KafkaSource(broker.servers, topic, **options)


def read_all(source):
    rows = {channel: drain(source.open(channel))[0] for channel in source.channels()}
    source.close()
    return rows


# ---- what is there ---------------------------------------------------------------------------


def test_all_partitions_give_what_was_sent(broker, filled):
    topic, numbers = filled
    source = source_of(broker, topic)
    assert source.channels() == ["0", "1", "2"]
    assert source.first() == {"0": 0, "1": 0, "2": 0}
    assert source.latest() == {str(p): len(sent) for p, sent in numbers.items()}
    assert read_all(source) == {str(p): rows_of(sent) for p, sent in numbers.items()}


def test_ranges_between_positions_are_read_again(broker, filled):
    topic, numbers = filled
    source = source_of(broker, topic)
    rows, positions = drain(source.open("0"), max_rows=700)
    assert rows == rows_of(numbers[0])
    places = [(0, 0), *positions]
    chosen = random.Random(1)
    for _ in range(6):
        (low, start), (high, stop) = sorted(chosen.sample(places, 2))
        assert drain(source.open("0", start, stop))[0] == rows[low:high]
    assert drain(source.open("0", 17, 17)) == ([], [(0, 17)])
    source.close()


def test_only_wanted_columns(broker, filled):
    topic, numbers = filled
    source = source_of(broker, topic)
    assert drain(source.open("1", columns=["text"]))[0] == [
        {"text": row["text"]} for row in rows_of(numbers[1])
    ]
    assert drain(source.open("1", columns=[]))[0] == [{}] * 7
    source.close()


def test_a_pickled_source_reads_the_same(broker, filled):
    topic, _ = filled
    source = source_of(broker, topic, start="latest", stop=None)
    assert source.first() == {"0": 5000, "1": 7, "2": 0}
    copy = pickle.loads(pickle.dumps(source))
    assert copy.first() == source.first() and str(copy) == str(source)
    source.close()
    copy.close()


# ---- where reading starts and stops ----------------------------------------------------------


def test_starts_and_stops(broker):
    topic = new_topic(broker, partitions=2)
    send(broker, topic, messages(range(10)), 0, timestamp=1_000_000)
    send(broker, topic, messages(range(10, 20)), 0, timestamp=2_000_000)
    send(broker, topic, messages(range(5)), 1, timestamp=3_000_000)

    def read(**options):
        rows = read_all(source_of(broker, topic, **options))
        return [[row["n"] for row in rows[channel]] for channel in ("0", "1")]

    def at(seconds):
        return dt.datetime.fromtimestamp(seconds, dt.UTC)

    assert read(start={0: 15}) == [[15, 16, 17, 18, 19], [0, 1, 2, 3, 4]]
    assert read(start={"1": 3, "0": 20}) == [[], [3, 4]]
    assert read(start=at(2000)) == [list(range(10, 20)), [0, 1, 2, 3, 4]]
    assert read(start=at(1000.000001)) == [list(range(10, 20)), [0, 1, 2, 3, 4]]
    assert read(start=at(4000)) == [[], []]
    assert read(stop=at(2000)) == [list(range(10)), []]
    assert read(stop={0: 3}) == [[0, 1, 2], [0, 1, 2, 3, 4]]
    assert read(start="latest") == [[], []]


def test_latest_begins_behind_what_was_there(broker):
    topic = new_topic(broker)
    send(broker, topic, messages(range(5)))
    source = source_of(broker, topic, start="latest", stop=None)
    reader = source.open("0")
    assert reader.poll(10, 0.3).rows is None
    send(broker, topic, messages([77]))
    assert reader.poll(10, 10.0).rows.to_pylist() == rows_of([77])
    reader.close()
    assert source.open("0").poll(10, 10.0).position == 6  # the start was found out once
    source.close()


def test_offsets_that_the_broker_lacks(broker):
    topic = new_topic(broker)
    send(broker, topic, messages(range(10)))
    with pytest.raises(DataError, match=r"does not have offset 11 \(it has 0 to 10\)"):
        source_of(broker, topic).open("0", 11)
    admin = AdminClient({"bootstrap.servers": broker.servers})
    for done in admin.delete_records([TopicPartition(topic, 0, 6)]).values():
        done.result(30)
    with pytest.raises(DataError, match=r"offset 3 \(it has 6 to 10\)"):
        source_of(broker, topic).open("0", 3)
    assert [row["n"] for row in read_all(source_of(broker, topic))["0"]] == [6, 7, 8, 9]


def test_transactions(broker):
    """What was aborted is not read; the marks of transactions do not keep the end from coming."""
    topic = new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": topic})
    producer.init_transactions(30)
    for numbers, kept in ((range(5), True), (range(5, 8), False), (range(8, 9), True)):
        producer.begin_transaction()
        for value in messages(numbers):
            producer.produce(topic, value, partition=0)
        if kept:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    source = source_of(broker, topic)
    rows, positions = drain(source.open("0"))
    assert rows == rows_of([0, 1, 2, 3, 4, 8])
    assert positions[-1][1] == source.latest()["0"] == 12  # nine messages and three marks
    assert drain(source.open("0", 0, 7))[0] == rows_of([0, 1, 2, 3, 4])  # stops inside a gap
    source.close()


# ---- messages that are not right -------------------------------------------------------------

BAD = {
    3: b"",
    40: b'{"n": 1}{"n"',
    41: b': 2, "text": ""}',
    60: b'{"n": 1, "text": "a"} {"n": 2, "text": "b"}',
    100: b'{"n": "1", "text": "a"}',
    101: b'{"text": "a"}',
    102: b'{"n": 1, "text": "\xff"}',
    103: b"null",
    150: None,
    499: b"{",
}


@pytest.fixture(scope="module")
def mixed(broker):
    """A topic with bad messages, and the good numbers in it."""
    topic = new_topic(broker)
    values = messages(range(500))
    values[200] = b' \n{"text": "\\u00e9200",\n "n": 200}\r\n'  # good, only not in one line
    for offset, value in BAD.items():
        values[offset] = value
    send(broker, topic, values)
    return topic, [n for n in range(500) if n not in BAD]


def test_a_bad_message_fails_with_its_place(broker, mixed):
    topic, _ = mixed
    source = source_of(broker, topic)
    for offset in BAD:
        reader = source.open(
            "0", max(0, offset - 1) if offset not in (41, 101, 102, 103) else offset
        )
        for _ in range(2):  # and goes on failing
            with pytest.raises(DataError, match=f"topic {topic}, partition 0, offset {offset}: "):
                drain(reader)
        reader.close()
    source.close()


def test_bad_messages_are_skipped_and_counted(broker, mixed, caplog):
    topic, good = mixed
    source = source_of(broker, topic, on_error="skip")
    rows, positions = drain(source.open("0"))
    assert rows == rows_of(good)
    assert positions[-1] == (len(good), 500)
    assert source.skipped == len(BAD)
    assert f"topic {topic}, partition 0, offset 3: " in caplog.text
    rows, positions = drain(source.open("0", 100, 104))  # nothing but bad ones
    assert rows == [] and positions[-1] == (0, 104)
    source.close()


def test_raw_messages(broker, mixed):
    topic, _ = mixed
    source = source_of(broker, topic, format="raw", schema=None)
    rows = read_all(source)["0"]
    assert [row["offset"] for row in rows] == list(range(500))
    assert {row["partition"] for row in rows} == {0} and {row["key"] for row in rows} == {None}
    assert {offset: rows[offset]["value"] for offset in BAD} == BAD
    age = dt.datetime.now(dt.UTC) - rows[0]["timestamp"]
    assert dt.timedelta(0) < age < dt.timedelta(minutes=10)


def test_a_decoder_of_the_user(broker):
    topic = new_topic(broker)
    send(broker, topic, [b"%d;%s" % (n, b"x" * (n % 3)) for n in range(300)])

    def split(values):
        parts = [value.split(b";") for value in values]
        if any(int(number) in (17, 200) for number, _ in parts):
            raise ValueError("unlucky")
        texts = [text.decode() for _, text in parts]
        return pa.record_batch({"text": texts, "n": [int(number) for number, _ in parts]})

    with pytest.raises(DataError, match="offset 17: split: ValueError: unlucky"):
        read_all(source_of(broker, topic, format=split))
    source = source_of(broker, topic, format=split, on_error="skip")
    rows = read_all(source)["0"]
    assert rows == [{"n": n, "text": "x" * (n % 3)} for n in range(300) if n not in (17, 200)]
    assert source.skipped == 2

    def halved(values):
        return pa.record_batch({"n": [1] * (len(values) // 2), "text": [""] * (len(values) // 2)})

    with pytest.raises(DataError, match="halved: DataError: gave 0 rows for 1 messages"):
        read_all(source_of(broker, topic, format=halved))


# ---- outages ---------------------------------------------------------------------------------


def test_a_broker_that_restarts_loses_and_doubles_nothing(broker):
    topic = new_topic(broker, partitions=2)
    send(broker, topic, messages(range(20_000)), 0)
    send(broker, topic, messages(range(300)), 1)
    source = source_of(broker, topic, stop={0: 20_500, 1: 300})
    reader, other = source.open("0"), source.open("1")
    rows = reader.poll(500, 30.0).rows.to_pylist()

    def read():
        rows.extend(drain(reader, max_rows=500, seconds=90)[0])

    reading = threading.Thread(target=read)
    reading.start()
    broker.stop()
    broker.start()
    send(broker, topic, messages(range(20_000, 20_500)), 0)
    reading.join()
    assert rows == rows_of(range(20_500))
    assert drain(other)[0] == rows_of(range(300))  # was not polled before the restart
    source.close()


def test_questions_in_an_outage_and_behind_it(broker, monkeypatch):
    """Who asks while nobody is there can ask again."""
    monkeypatch.setattr(kafka, "TIMEOUT", 0.5)
    monkeypatch.setattr(kafka_client, "TIMEOUT", 0.5)
    topic = new_topic(broker, partitions=2)
    source = source_of(broker, topic, stop=None)
    assert source.latest() == {"0": 0, "1": 0}
    broker.stop()
    for _ in range(3):
        with pytest.raises(Unreachable, match="does not answer"):
            source.latest()
        assert source._open_client is None  # another client asks next: this one may never come back
    broker.start()
    send(broker, topic, messages(range(3)), 1)
    monkeypatch.undo()
    assert source.latest() == {"0": 0, "1": 3}
    source.close()


def test_close_from_another_thread_ends_a_poll(broker):
    source = source_of(broker, new_topic(broker), stop=None)
    reader = source.open("0")
    threading.Timer(0.3, reader.close).start()
    started = time.monotonic()
    batch = reader.poll(10, 60.0)
    assert time.monotonic() - started < 5
    assert (batch.rows, batch.ended) == (None, False)
    assert reader.poll(10, 60.0).rows is None
    reader.close()
    source.close()
    source.close()


def test_an_unknown_topic(broker):
    topic = new_topic(broker)
    with pytest.raises(DataError, match=f"has no topic '{topic}x'; did you mean '{topic}'?"):
        source_of(broker, topic + "x").channels()
    with pytest.raises(DataError, match="no partition 1; there are 1"):
        source_of(broker, topic).open("1")
    with pytest.raises(DataError, match="no partition 4; there are 1"):
        source_of(broker, topic, start={4: 0}).channels()


# ---- through a pipeline ----------------------------------------------------------------------


@pytest.mark.compiled
def test_a_window_over_a_topic(broker, filled):
    topic, numbers = filled
    stream = hr.read.kafka(broker.servers, topic, schema={"n": int}, stop="latest")
    window = stream.with_watermark("n", 0).window(hr.tumbling(1000))
    totals = window.agg(count=hr.count(), total=hr.sum("n")).write.collect()
    hr.run(totals)
    expected = {}
    for n in [n for sent in numbers.values() for n in sent]:
        count, total = expected.get(n // 1000 * 1000, (0, 0))
        expected[n // 1000 * 1000] = (count + 1, total + n)
    result = totals.result()
    assert (
        dict(
            zip(
                result["window_start"].to_pylist(),
                zip(result["count"].to_pylist(), result["total"].to_pylist()),
            )
        )
        == expected
    )


def test_errors_name_the_line_of_the_user(broker, mixed):
    topic, _ = mixed
    with pytest.raises(PipelineError, match=r"read\.kafka: give schema=(.|\n)*test_kafka\.py"):
        hr.read.kafka(broker.servers, topic)
    stream = hr.read.kafka(broker.servers, topic, schema=SCHEMA, stop="latest")
    with pytest.raises(DataError, match=f"topic {topic}, partition 0, offset 3: "):
        hr.run(stream.write.null())
