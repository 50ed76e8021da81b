"""Avro in Kafka, with its schemas in a registry: one of HTTP, in this process."""

import io
import json
import pickle
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from tests.broker import broker, new_topic, send
from tests.connect.data import COMPOSITES, schemas, tables

import headrace as hr
from headrace.connect.avro import HEAD, Avro
from headrace.connect.avro_types import avro_schema, schema_of_avro
from headrace.connect.kafka import KafkaSource
from headrace.connect.kafka_decode import Custom, Messages
from headrace.connect.kafka_sink import KafkaSink
from headrace.plan.errors import DataError, PipelineError, Unreachable
from headrace.plan.schema import Schema
from headrace.plan.types import SCALARS, optional

__all__ = ["broker"]  # a fixture

VIEW = {
    "type": "record",
    "name": "View",
    "fields": [
        {"name": "user", "type": "string"},
        {"name": "n", "type": ["null", "long"], "default": None},
    ],
}


class Served(BaseHTTPRequestHandler):
    """What our client asks of a registry."""

    def log_message(self, *said):
        pass

    def do_GET(self):
        self.answer(None)

    def do_POST(self):
        self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def answer(self, told):
        known = self.server.schemas
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        match self.path.strip("/").split("/"):
            case ["schemas", "ids", number] if int(number) in known:
                return self.say(200, {"schema": json.dumps(known[int(number)][1])})
            case ["subjects", subject, "versions", "latest"]:
                found = [schema for name, schema in known.values() if name == subject]
                if found:
                    return self.say(200, {"schema": json.dumps(found[-1]), "id": len(found)})
            case ["subjects", subject, "versions"]:
                made = (subject, json.loads(told["schema"]))
                number = next((n for n, each in known.items() if each == made), len(known) + 1)
                known[number] = made
                return self.say(200, {"id": number})
            case ["broken", *_]:
                return self.say(503, {"message": "come later"})
            case ["protobuf", *_]:
                return self.say(200, {"schema": "message M {}", "schemaType": "PROTOBUF"})
            case ["page", *_]:
                return self.say(200, [])
        return self.say(404, {"error_code": 40403, "message": "Schema not found"})

    def say(self, status, what):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(what).encode())


@pytest.fixture(scope="module")
def registry():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Served)
    server.schemas, server.asked = {}, []
    server.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def registered(registry, schema):
    number = len(registry.schemas) + 1
    registry.schemas[number] = (f"of-{number}", schema)
    return number


def message(number, schema, record):
    file = io.BytesIO()
    file.write(HEAD.pack(0, number))
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), record)
    return file.getvalue()


def decoded(avro, schema, values):
    messages = Messages(partition=0)
    messages.values, messages.offsets = list(values), list(range(len(values)))
    rows, bad = Custom(avro.decoder(schema), schema, schema).decode(messages)
    return [] if rows is None else rows.to_pylist(), bad


# ---- rows as messages and back -------------------------------------------------------------------


NAMED = [kind for kind in COMPOSITES if "x y" not in kind.parts]  # as Avro names things


@given(tables(schemas=schemas((*SCALARS.values(), *NAMED))))
def test_all_types_round_trip(registry, drawn):
    schema, table = drawn
    avro = Avro(registry.url)
    if not table.num_rows:
        return
    (rows,) = table.combine_chunks().to_batches()
    encode = pickle.loads(pickle.dumps(avro.encoder(schema, f"t-{uuid.uuid4().hex}")))
    found, bad = decoded(avro, schema, encode(rows))
    assert bad == [] and str(found) == str(rows.to_pylist())  # NaN is not itself


def test_columns_follow_from_the_newest_schema(registry):
    topic = uuid.uuid4().hex
    avro = Avro(registry.url)
    made = Schema.of({"user": str, "n": optional(int), "at": "timestamp", "tags": list[str]})
    avro.encoder(made, topic)
    assert avro.schema(topic) == made
    stream = hr.read.kafka("localhost:1", topic, format=avro)
    assert stream.schema == made
    with pytest.raises(PipelineError, match="404 Schema not found"):
        hr.read.kafka("localhost:1", topic, format=Avro(registry.url, subject="other"))


def test_what_other_writers_have():
    """Enums, fixed, UUIDs, unions, named types, decimals; what we lack is named."""
    fields = [
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
        {"name": "again", "type": "ns.E"},
        {"name": "f", "type": ["null", {"type": "fixed", "name": "F", "size": 2}]},
        {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4}},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "inside", "type": {"type": "record", "name": "I", "fields": VIEW["fields"]}},
        {"name": "many", "type": ["string", "long"]},
        {"name": "map", "type": {"type": "map", "values": "long"}},
        {
            "name": "tree",
            "type": {
                "type": "record",
                "name": "T",
                "fields": [{"name": "t", "type": ["null", "T"]}],
            },
        },
    ]
    schema = schema_of_avro({"type": "record", "name": "r", "fields": fields}, "here")
    kinds = {field.name: str(field.type) for field in schema}
    assert list(kinds) == ["e", "again", "f", "u", "d", "ms", "inside"]
    assert (kinds["e"], kinds["f"], kinds["ms"]) == ("string", "optional(binary)", "timestamp")
    assert [name for name, _ in schema.unread] == ["many", "map", "tree"]


def test_messages_of_several_schemas(registry):
    """Fields that an older one lacks are null; others are not read."""
    user = {"type": "string", "logicalType": "uuid"}
    old = {"type": "record", "name": "View", "fields": [{"name": "user", "type": user}]}
    numbers = [registered(registry, schema) for schema in (old, VIEW)]
    who = uuid.uuid4()
    values = [message(numbers[0], old, {"user": who}), message(numbers[1], VIEW, {"user": "b"})]
    wanted = Schema.of({"n": optional(int), "user": str})
    rows, bad = decoded(Avro(registry.url), wanted, values)
    assert bad == [] and rows == [{"n": None, "user": str(who)}, {"n": None, "user": "b"}]
    _, bad = decoded(Avro(registry.url), Schema.of({"n": int}), values)
    assert [number for number, _ in bad] == [0, 1]
    assert "field 'n' is not there" in bad[0][1] and "field 'n' is null" in bad[1][1]


def test_messages_that_are_no_avro(registry):
    number = registered(registry, VIEW)
    good = message(number, VIEW, {"user": "ann", "n": 1})
    text = registered(registry, "string")
    values = [
        good,
        None,
        b'{"user": "ann"}',
        b"\0\0",
        HEAD.pack(0, 9999) + b"x",
        good[:-1],
        good + b"!",
        good[: HEAD.size] + b"\x04\xff\xff\0",
        message(text, "string", "alone"),
        good,
    ]
    rows, bad = decoded(Avro(registry.url), Schema.of({"user": str}), values)
    assert rows == [{"user": "ann"}] * 2 and [n for n, _ in bad] == list(range(1, 9))
    said = [text for _, text in bad]
    words = ["tombstone", "zero byte", "zero byte", "404", "no record", "1 bytes more"]
    assert all(word in text for word, text in zip(words, said)), said
    _, bad = decoded(Avro(registry.url), Schema.of({"user": int}), [good])
    assert "field 'user' cannot be int64" in bad[0][1]


def test_registries_that_are_none(registry, tmp_path):
    for url in ("localhost:8081", "ftp://host", "", None):
        with pytest.raises(DataError, match="no URL of a schema registry"):
            Avro(url)
    secret = registry.url.replace("http://", "http://ann:s%20ecret@")
    avro = Avro(secret)
    assert "ecret" not in repr(avro) + str(KafkaSource("h", "t", schema={"a": int}, format=avro))
    with pytest.raises(DataError) as caught:
        avro.schema("nothing")
    assert "ecret" not in str(caught.value)
    assert registry.asked[-1][1] == "Basic YW5uOnMgZWNyZXQ="
    for path, kind, said in [
        ("broken", Unreachable, "503 come later"),
        ("protobuf", DataError, "PROTOBUF, and not Avro"),
        ("page", DataError, "is no schema registry"),
    ]:
        with pytest.raises(kind, match=said):
            Avro(f"{registry.url}/{path}").schema("t")
    nobody = Avro("http://127.0.0.1:1")
    with pytest.raises(Unreachable, match="does not answer"):  # and is no bad message
        decoded(nobody, Schema.of({"a": int}), [message(1, VIEW, {"user": "a"})])


def test_columns_that_avro_lacks(registry):
    with pytest.raises(DataError, match=r"'a b' has a name(.|\n)*fix: rename"):
        avro_schema(Schema.of({"a b": int}), "t")
    encode = Avro(registry.url).encoder(Schema.of({"n": "uint64"}), "large")
    with pytest.raises(DataError, match="cannot be written as Avro"):
        encode(pa.record_batch({"n": pa.array([2**63], pa.uint64())}))
    sink = KafkaSink("localhost:1", "t", format=Avro(registry.url))
    assert str(sink).endswith("topic t, avro")


# ---- a broker --------------------------------------------------------------------------------


def test_from_topic_to_topic(broker, registry):
    options = {"engine": "thread", "compiled": False}
    number = registered(registry, VIEW)
    one, other = new_topic(broker), new_topic(broker)
    send(broker, one, [message(number, VIEW, {"user": f"u{n}", "n": n}) for n in range(50)])
    avro = Avro(registry.url)

    def rows():
        columns = {"user": str, "n": int}
        return hr.read.kafka(broker.servers, one, format=avro, schema=columns, stop="latest")

    written = rows().filter(hr.col("n") > 3).write.kafka(broker.servers, other, format=avro)
    hr.run(written, **options)
    output = hr.read.kafka(broker.servers, other, format=avro, stop="latest").write.collect()
    hr.run(output, **options)
    assert output.result().to_pylist() == [{"user": f"u{n}", "n": n} for n in range(4, 50)]
    send(broker, one, [b"no avro"])
    with pytest.raises(DataError, match=rf"{one}.*50.*zero byte"):
        hr.run(rows().write.null(), **options)
