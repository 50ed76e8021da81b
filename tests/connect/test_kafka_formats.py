"""What needs no broker: options, secrets, messages as rows and rows as messages."""

import json
import logging
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connect.data import tables

import headrace as hr
from headrace.connect import kafka_client
from headrace.connect.kafka import KafkaSource
from headrace.connect.kafka_decode import Json, Messages
from headrace.connect.kafka_encode import json_texts
from headrace.connect.kafka_sink import KafkaSink
from headrace.plan.errors import DataError, PipelineError
from headrace.plan.schema import Schema

NOWHERE = "127.0.0.1:1"
NUMBER = Schema.of({"n": int})


def decoded(values, schema):
    messages = Messages(partition=0)
    messages.values, messages.offsets = list(values), list(range(len(values)))
    rows, bad = Json(schema).decode(messages)
    return [] if rows is None else rows.to_pylist(), [number for number, _ in bad]


# ---- JSON ------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [b'{"n":1}', b'{"n":', b"2}", b"{}", b" ", b"\n", b"null", b"[", b'"', b"\xff"]
)


def one_by_one(values):
    rows, bad = [], []
    for offset, value in enumerate(values):
        try:
            found = json.loads(value.decode())
            assert type(found["n"]) is int
            rows.append({"n": found["n"]})
        except (ValueError, TypeError, KeyError, AssertionError):
            bad.append(offset)
    return rows, bad


@given(st.lists(st.lists(PIECES, max_size=3).map(b"".join), max_size=80))
def test_messages_are_judged_each_by_itself(values):
    assert decoded(values, NUMBER) == one_by_one(values)


def test_two_halves_do_not_make_a_whole():
    assert decoded([b'{"n":1}{"n"', b":2}"], NUMBER) == ([], [0, 1])
    assert decoded([b'{"n":1}{"n":2}', b""], NUMBER) == ([], [0, 1])


def test_many_bad_ones_among_many(n=5000):
    values = [b"{" if i % 97 == 0 else b'{"n":%d}' % i for i in range(n)]
    rows, bad = decoded(values, NUMBER)
    assert [row["n"] for row in rows] == [i for i in range(n) if i % 97]
    assert bad == [i for i in range(n) if i % 97 == 0]


@given(tables())
def test_what_is_written_is_read_back(given_table):
    schema, table = given_table
    for batch in table.to_batches():
        rows, bad = decoded(json_texts(batch, schema), schema)
        assert bad == []
        assert rows == batch.to_pylist()


@given(tables())
def test_what_is_written_is_json(given_table):
    schema, table = given_table
    for batch in table.to_batches():
        for text, row in zip(json_texts(batch, schema), batch.to_pylist(), strict=True):
            found = json.loads(text, parse_constant=pytest.fail)
            assert list(found) == list(row)
            for field in schema:
                if field.type.name in ("bool", "string") or field.type.is_integer:
                    assert found[field.name] == row[field.name]


def test_numbers_that_json_lacks():
    rows = pa.record_batch({"x": [math.nan, math.inf, -math.inf, None]})
    texts = json_texts(rows, Schema.of(rows.schema))
    assert texts == [b'{"x":"NaN"}', b'{"x":"Infinity"}', b'{"x":"-Infinity"}', b'{"x":null}']
    read, bad = decoded(texts, Schema.of(rows.schema))
    assert bad == [] and str(read) == str(rows.to_pylist())


# ---- arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give schema="),
        ({"format": "raw", "schema": {"n": int}}, "raw messages have their own columns: key, "),
        ({"format": "avro"}, "format='avro': must be"),
        ({"schema": {"n": int}, "start": "now"}, "start='now': must be"),
        ({"schema": {"n": int}, "stop": {"a": 1}}, "stop: 'a': 1 is no partition and offset"),
        ({"schema": {"n": int}, "on_error": "stop"}, 'must be "fail" or "skip"'),
        ({"schema": {"n": int}, "fetch_wait": 1}, 'No such configuration property: "fetch.wait"'),
        ({"schema": {"n": int}, "auto.offset.reset": "latest"}, "cannot be set: use start="),
    ],
)
def test_wrong_arguments_are_found_at_once(options, message):
    with pytest.raises(PipelineError, match=r"read\.kafka: ") as raised:
        hr.read.kafka(NOWHERE, "t", **options)
    assert message in str(raised.value)


def test_wrong_arguments_of_the_sink():
    rows = hr.read.memory({"n": [1]})
    with pytest.raises(PipelineError, match="format='avro': must be"):
        rows.write.kafka(NOWHERE, "t", format="avro")
    with pytest.raises(PipelineError, match="topic='': must be the name"):
        rows.write.kafka(NOWHERE, "")
    with pytest.raises(PipelineError, match="no servers"):
        rows.write.kafka([], "t")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka", None)
    with pytest.raises(DataError, match=r"pip install 'headrace\[kafka\]'"):
        KafkaSource(NOWHERE, "t", schema={"n": int})


# ---- secrets, and servers that are not there -------------------------------------------------

SECRET = "swordfish"


def test_secrets_do_not_show(monkeypatch, caplog):
    monkeypatch.setattr(kafka_client, "TIMEOUT", 1.0)
    caplog.set_level(logging.DEBUG)
    options = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "ann",
        "sasl_password": SECRET,
    }
    stream = hr.read.kafka(NOWHERE, "t", schema={"n": int}, **options)
    output = stream.write.kafka(NOWHERE, "u", **options)
    source = KafkaSource(NOWHERE, "t", schema={"n": int}, **options)
    sink = KafkaSink(NOWHERE, "u", **options)
    said = [str(source), repr(source), str(sink), repr(sink), repr(stream), repr(output)]
    said += [stream.explain(), repr(vars(source)["_connection"])]
    for fails in (source.channels, lambda: sink.open(NUMBER), lambda: hr.run(output)):
        with pytest.raises(DataError, match=f"Kafka at {NOWHERE} does not answer: .*refused") as e:
            fails()
        said.append(str(e.value))
    with pytest.raises(DataError) as raised:
        KafkaSource(NOWHERE, "t", schema={"n": int}, **{**options, "sasl_mechanism": SECRET})
    said.append(str(raised.value))
    with pytest.raises(DataError) as raised:
        KafkaSource(NOWHERE, "t", schema={"n": int}, security_protocol="SSL", ssl_key_pem=SECRET)
    said.append(str(raised.value))
    assert SECRET not in "\n".join(said) + caplog.text
