"""What takes bytes from outside: each target has inputs to begin with, and a way to read any bytes.

A target answers True where it has read something and False where it refused, with one of our own
errors. Anything else is a finding: another exception, a crash, a hang, memory without bounds.
"""

import io
import json
import os
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.asked import planned
from headrace.connect import text_format
from headrace.connect.arrow_files import ArrowFormat
from headrace.connect.csv_files import CsvSource
from headrace.connect.file_log import FileLog
from headrace.connect.file_source import FileSource
from headrace.connect.files import CHANNEL
from headrace.connect.json_decode import decode, decode_each
from headrace.connect.json_lines import JsonSource
from headrace.connect.kafka_decode import Json, Messages, Raw
from headrace.connect.parquet import ParquetSource
from headrace.plan.errors import DataError, StateError
from headrace.plan.expressions import Binary, Column
from headrace.plan.literals import to_literal
from headrace.plan.schema import Schema, schema_of_arrow
from headrace.plan.types import optional
from headrace.stage import cache as disk
from headrace.stage.blocks.arrow import Feed, to_arrow
from headrace.stage.blocks.block import Block
from headrace.stage.blocks.layout import Layout
from headrace.stage.memory import arithmetic, machine_code
from headrace.stage.snapshot import Snapshot, _from_ipc, _to_ipc
from headrace.stage.stage import Stage


@cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="headrace-fuzz-"))


def written(name: str, content: bytes) -> Path:
    path = folder() / name
    path.write_bytes(content)
    return path


def table(rows: int = 60) -> pa.Table:
    """Every type, with nulls, in layouts that files have."""
    random = np.random.default_rng(7)
    texts = [f"text {n}" * (n % 4) for n in range(rows)]
    return pa.table(
        {
            "n": pa.array([None if n % 7 == 0 else n for n in range(rows)], pa.int64()),
            "small": pa.array(random.integers(-9, 9, rows), pa.int8()),
            "x": pa.array(random.random(rows)),
            "flag": pa.array([n % 3 == 0 for n in range(rows)]),
            "s": pa.array([None if n % 11 == 0 else text for n, text in enumerate(texts)]),
            "code": pa.array([f"k{n % 5}" for n in range(rows)]).dictionary_encode(),
            "at": pa.array(range(rows), pa.timestamp("us", "UTC")),
            "day": pa.array(range(rows), pa.date32()),
            "raw": pa.array([text.encode() for text in texts], pa.binary()),
        }
    )


def through_blocks(rows: pa.RecordBatch) -> None:
    """Let compiled code follow all offsets, codes and views."""
    schema, _ = schema_of_arrow(rows.schema)
    if not len(schema):
        return  # how many rows there are is anybody's guess
    layout = Layout.of(Schema.of({f.name: optional(f.type) for f in schema}))
    feed, block = Feed(layout, rows), Block.allocate(layout, max(1, rows.num_rows))
    feed.fill(block, 0, rows.num_rows)
    assert to_arrow(block).num_rows == rows.num_rows


def read_through(source: FileSource, **wanted: Any) -> None:
    reader = source.open(CHANNEL, **wanted)
    while not (batch := reader.poll(1 << 16, 0.0)).ended:
        if batch.rows is not None and batch.rows.num_rows:
            through_blocks(batch.rows)


@dataclass(frozen=True)
class Target:
    """Where bytes come in."""

    corpus: Any  # a function that gives the inputs to begin with
    read: Any  # of bytes; raises DataError or StateError where it refuses


# ---- files ---------------------------------------------------------------------------------------


def parquet_files() -> list[bytes]:
    made = []
    for options in (
        {"row_group_size": 25},
        {"compression": "zstd", "data_page_version": "2.0"},
        {"use_dictionary": False, "compression": "none", "data_page_size": 200},
    ):
        file = io.BytesIO()
        pq.write_table(table(), file, **options)
        made.append(file.getvalue())
    return made


def read_parquet(content: bytes) -> None:
    source = ParquetSource(written("a.parquet", content))
    read_through(source)
    if "n" in source.schema() and source.schema()["n"].name == "int64":
        read_through(source, predicate=Binary("<", Column("n"), to_literal(20)))
    for name in source.schema().names[:2]:
        source.maximum(name, CHANNEL, None)


def arrow_files() -> list[bytes]:
    made = []
    views = (
        table()
        .select(["n", "s", "raw"])
        .cast(pa.schema({"n": pa.int64(), "s": pa.string_view(), "raw": pa.binary_view()}))
    )
    for rows in (table(), views):
        for new in (pa.ipc.new_file, pa.ipc.new_stream):
            for compression in (None, "lz4"):
                file = io.BytesIO()
                options = pa.ipc.IpcWriteOptions(compression=compression)
                with new(file, rows.schema, options=options) as writer:
                    writer.write_table(rows, max_chunksize=25)
                made.append(file.getvalue())
    return made


def read_arrow(content: bytes) -> None:
    form, path = ArrowFormat(), written("a.arrow", content)
    form.unfinished(path)
    read_through(FileSource(path, form))


JSON_SCHEMA = Schema.of(
    {"n": optional(int), "x": optional(float), "s": optional(str), "at": optional("timestamp")}
)


def json_files() -> list[bytes]:
    lines = [
        b'{"n": 1, "x": 0.5, "s": "a", "at": "2024-01-31T12:00:00Z"}',
        b'{"s": "\\u00e9\\ud83d\\ude00", "n": -9223372036854775808, "o": {"deep": [1, [2, {}]]}}',
        b'{"x": "NaN", "at": "1970-01-01 00:00:00", "n": null}',
        b"",
        b'{"o": [], "x": -1e-300, "s": ""}',
    ]
    return [b"\n".join(lines) + b"\n", lines[1], b"\n".join(lines * 40)]


def read_json(content: bytes) -> None:
    """Lines have the same fate alone and together."""
    source = JsonSource(written("a.json", content), schema=JSON_SCHEMA, on_error="skip")
    read_through(source)
    lines = [line for line in content.split(b"\n") if line.strip()]
    together = decode(lines, JSON_SCHEMA) if lines else None
    if together is not None:
        each, good, _ = decode_each(lines, JSON_SCHEMA)
        assert len(good) == len(lines) and str(each.to_pylist()) == str(together.to_pylist())
    read_through(JsonSource(folder() / "a.json", schema=JSON_SCHEMA))


# ---- CSV -----------------------------------------------------------------------------------------


def csv_files() -> list[bytes]:
    lines = [
        b"n,x,s,at",
        b'1,0.5,"a, ""b""",2024-01-31T12:00:00Z',
        b"-9223372036854775808,nan,\xc3\xa9,",
        b"",
        b'3,-1e-300,"two\nlines",1970-01-01',
        b'4,,5" pipe,',
    ]
    return [b"\n".join(lines) + b"\n", b"\r\n".join(lines), b"\n".join(lines[:1] + lines[1:] * 40)]


def read_csv(content: bytes) -> None:
    """Lines have the same fate in large pieces and in small ones."""
    found = []
    for size in (1 << 20, 7):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text_format, "CHUNK_BYTES", size)
            source = CsvSource(written("a.csv", content), schema=JSON_SCHEMA, on_error="skip")
            try:
                found.append((str(source.table().to_pylist()), source.skipped))
            except DataError:
                found.append(("refused", -1))
    assert found[0] == found[1]
    read_through(CsvSource(folder() / "a.csv", schema=JSON_SCHEMA))


# ---- Kafka ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Message:
    """A message as Kafka's client gives it."""

    content: Any

    def value(self) -> Any:
        return self.content

    def key(self) -> Any:
        return self.content

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000


def kafka_values() -> list[bytes]:
    lines = [line for content in json_files()[:2] for line in content.split(b"\n")]
    return [line for line in lines if line]


def read_kafka(content: bytes) -> None:
    """The message among others, as JSON and raw; it is bad alone or nowhere."""
    good, fates = Message(b'{"n": 1}'), []
    for around in ([], [good], [good, Message(b"bad"), Message(None)]):
        messages = Messages(0)
        messages.add([*around, Message(content), *around])
        rows, bad = Json(JSON_SCHEMA).decode(messages)
        if rows is not None:
            through_blocks(rows)
        fates.append(len(around) in {number for number, _ in bad})
        raw = Messages(0, ["key", "timestamp"])
        raw.add([Message(content)])
        through_blocks(
            Raw(Schema.of({"key": optional(bytes), "value": optional(bytes)})).decode(raw)[0]
        )
    assert len(set(fates)) == 1, fates
    if fates[0]:
        raise DataError("refused")


# ---- saved state ---------------------------------------------------------------------------------


class Count:
    """What is known of a key."""

    rows: int = 0
    last: str = ""


def count(state, word):
    state.rows += 1
    state.last = word
    yield state.rows


@cache
def stage_plan() -> Any:
    source = hr.read.memory({"word": ["a"], "time": [0]}, name="events")
    counted = source.key_by("word").process(count, state=Count, output=["rows"], name="count")
    windows = (
        source.with_watermark("time", 7)
        .key_by("word")
        .window(hr.tumbling(10))
        .agg(rows=hr.count(), name="windows")
    )
    outputs = [counted.write.null(name="counted"), windows.write.null(name="totals")]
    return planned(outputs)


@cache
def snapshot() -> Snapshot:
    stage = Stage(stage_plan().whole, capacity=64, compiled=False)
    words = [f"word {n % 9} and more of it" for n in range(50)]
    stage.push("events", pa.record_batch({"word": words, "time": list(range(50))}))
    for _ in stage.pull():
        pass
    return stage.snapshot()


def read_snapshot(content: bytes) -> None:
    stage = Stage(stage_plan().whole, capacity=64, compiled=False)
    stage.restore(Snapshot.from_bytes(content))


def saved_rows() -> list[bytes]:
    return [_to_ipc(state.rows) for state in snapshot().operators.values()]


def read_saved_rows(content: bytes) -> None:
    through_blocks(_from_ipc(content))


@cache
def state_lists() -> list[bytes]:
    """A list that a shard has published; its snapshot is written once."""
    from headrace.spark.states import ShardState

    state = ShardState(folder() / "shard", 0)
    listed = state.write(0, snapshot())
    state.publish({"0": {"token": snapshot().token, "snapshots": [listed]}})
    return [(folder() / "shard" / "0.json").read_bytes()]


def read_state_list(content: bytes) -> None:
    from headrace.spark.states import ShardState

    (good,) = state_lists()
    (folder() / "shard" / "0.json").write_bytes(content)
    state = ShardState(folder() / "shard", 1)
    for entry in state.before().values():
        for found in state.load(entry["snapshots"]):
            assert found.to_bytes() == snapshot().to_bytes()
    assert json.loads(content) == json.loads(good)  # nothing else is taken for a list


def file_logs() -> list[bytes]:
    log = FileLog(folder() / "log")
    log.add([(f"part-{n}.json", n) for n in range(5)])
    return [(folder() / "log").read_bytes()]


def read_file_log(content: bytes) -> None:
    log = FileLog(written("other-log", content))
    log.add([])
    for entry in log.entries(log.first):
        assert ".." not in entry.name.split("/") and not entry.name.startswith("/")


# ---- the cache -----------------------------------------------------------------------------------

FUNCTION = "headrace.stage.memory.arithmetic.floor_divide", "int int"


def own_cache() -> None:
    os.environ["HEADRACE_CACHE"] = str(folder() / "cache")


def cache_files() -> list[bytes]:
    own_cache()
    assert arithmetic.floor_divide(7, 2) == 3
    return [machine_code._path(*FUNCTION).read_bytes()]


def read_cache_file(content: bytes) -> None:
    """Code that is not what was compiled is never loaded; facts and modules are made again."""
    path = machine_code._path(*FUNCTION)
    good = path.read_bytes()
    path.write_bytes(content)
    try:
        loaded = machine_code.load(*FUNCTION)
        assert loaded is None or content == good
        disk.write_json("fuzz", 1)
        (disk.folder() / "facts" / "fuzz.json").write_bytes(content[:200])
        disk.read_json("fuzz")
        (disk.folder() / "fuzz_module.py").write_bytes(content[:200])
        assert disk.write_module("fuzz_module", "x = 1\n").read_text() == "x = 1\n"
    finally:
        path.write_bytes(good)
    if loaded is None:
        raise DataError("refused")


TARGETS = {
    "parquet": Target(parquet_files, read_parquet),
    "arrow": Target(arrow_files, read_arrow),
    "json": Target(json_files, read_json),
    "csv": Target(csv_files, read_csv),
    "kafka": Target(kafka_values, read_kafka),
    "saved rows": Target(saved_rows, read_saved_rows),
    "file log": Target(file_logs, read_file_log),
    "cache": Target(cache_files, read_cache_file),
}
if find_spec("headrace.spark.files"):  # snapshots and lists that are sealed
    TARGETS["snapshot"] = Target(lambda: [snapshot().to_bytes()], read_snapshot)
    TARGETS["state list"] = Target(state_lists, read_state_list)

REFUSALS = (DataError, StateError)
