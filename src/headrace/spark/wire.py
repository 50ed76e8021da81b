"""What crosses between tasks: messages, each a row for Spark and a block of rows for us."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

# Kinds of messages.
ROWS = 0  # rows of an exchange, for one shard of the stage behind it
MARK = 1  # the watermark of a sender, behind its rows
MESSAGE = 2  # what the driver needs to commit rows that a task has staged
RESULT = 3  # rows of a sink that lives on the driver
ERROR = 4  # an exception of a task
METRICS = 5  # what a task has counted
TIMES = 6  # the largest event time that a channel has had
MOVE = 7  # a shard leaves its state for its followers

DRIVER = -1  # the target of messages that no stage reads

# What a METRICS message counts: to be added up. Its other values are sizes.
SKIPPED = "skipped"  # what connectors call rows that could not be read and were left out
COUNTERS = (
    "rows_in", "rows_out", "late_rows", "failed_rows", "blocks", "seconds", "python_calls"
)  # fmt: skip


class Message(NamedTuple):
    """One row for Spark."""

    shard: int  # the label by which Spark's shuffle sends it
    kind: int
    batch: int  # the number of the micro-batch
    target: int  # the stage that reads it, or DRIVER
    port: str  # the exchange, or the sink
    sender: str  # a channel of the target's port
    serial: int  # the order among the messages of a sender
    watermark: int
    rows: int
    payload: bytes


SCHEMA = (
    "shard int, kind int, batch long, target int, port string, sender string, serial long, "
    "watermark long, rows long, payload binary"
)
_KINDS: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
}
_FIELDS = [column.split() for column in SCHEMA.split(", ")]
_ARROW = pa.schema([pa.field(name, _KINDS[kind]) for name, kind in _FIELDS])


def to_record_batch(messages: Sequence[Message]) -> pa.RecordBatch:
    """Messages as Arrow rows.

    >>> message = Message(0, MARK, 1, 1, "window.exchange", "clicks/0", 0, 100, 0, b"")
    >>> to_record_batch([message]).num_rows
    1
    """
    columns = list(zip(*messages, strict=True)) if messages else [()] * len(_ARROW)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW)]
    return pa.record_batch(arrays, schema=_ARROW)


FRAME_BYTES = 16 << 20  # of messages that go to Spark in one piece, about


def bundles(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Messages a few at a time: for Spark, a piece costs about as much as a thousand messages.

    >>> message = Message(0, ROWS, 1, 1, "window.exchange", "clicks/0", 0, 100, 0, bytes(9 << 20))
    >>> [len(bundle) for bundle in bundles([message] * 5)]
    [2, 2, 1]
    """
    kept: list[Message] = []
    size = 0
    for message in messages:
        kept.append(message)
        size += len(message.payload)
        if size >= FRAME_BYTES:
            yield kept
            kept, size = [], 0
    if kept:
        yield kept


def from_columns(columns: Iterable[Iterable[Any]]) -> Iterator[Message]:
    """Messages from the columns of a frame, in the order of the schema."""
    return map(Message._make, zip(*columns))


def by_sender(message: Message) -> tuple[str, int]:
    """The order in which a stage takes messages: a shuffle has none."""
    return message.sender, message.serial


def pack(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Record batches of one schema as bytes.

    >>> [batch.num_rows for batch in unpack(pack([pa.record_batch({"n": [1, 2]})]))]
    [2]
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def unpack(payload: bytes) -> Iterator[pa.RecordBatch]:
    """What `pack` packed."""
    with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
        yield from reader


# ---- shards ----------------------------------------------------------------------------------

_WORD = 0xFFFFFFFF


def spark_hash(value: int) -> int:
    """Spark's hash of an int column (Murmur3 with its seed), as a signed number.

    >>> spark_hash(0), spark_hash(1)
    (933211791, -559580957)
    """
    mixed = (value * 0xCC9E2D51) & _WORD
    mixed = ((mixed << 15) | (mixed >> 17)) & _WORD
    mixed = (mixed * 0x1B873593) & _WORD
    state = 42 ^ mixed
    state = ((state << 13) | (state >> 19)) & _WORD
    state = (state * 5 + 0xE6546B64) & _WORD
    state ^= 4  # the length in bytes
    state ^= state >> 16
    state = (state * 0x85EBCA6B) & _WORD
    state ^= state >> 13
    state = (state * 0xC2B2AE35) & _WORD
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def shard_labels(shards: int) -> list[int]:
    """For each shard a label that Spark's shuffle sends to a partition of its own.

    >>> labels = shard_labels(4)
    >>> sorted(spark_hash(label) % 4 for label in labels)
    [0, 1, 2, 3]
    """
    labels: dict[int, int] = {}
    label = 0
    while len(labels) < shards:
        labels.setdefault(spark_hash(label) % shards, label)
        label += 1
    return [labels[shard] for shard in range(shards)]
