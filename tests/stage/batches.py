"""Random Arrow batches of every type, what should come back of them, and the two modes of code."""

import contextlib

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from headrace.plan.schema import Schema
from headrace.plan.types import SCALARS, optional
from headrace.stage.blocks import arrow
from headrace.stage.blocks import block as blocks
from headrace.stage.blocks.arrow import Feed
from headrace.stage.blocks.block import Block, Layout
from headrace.stage.memory.records import interpreted

MODES = ["compiled", "interpreted"]
COMPILED = {
    arrow: ["fill_block", "fill_table", "text_size", "write_text"],
    blocks: ["start_block_at", "all_within", "gather_rows", "partition_rows", "copy_stamps"],
}


@contextlib.contextmanager
def mode(name):
    """Run what the body calls compiled or interpreted."""
    with pytest.MonkeyPatch.context() as patch:
        if name == "interpreted":
            for module, functions in COMPILED.items():
                for function in functions:
                    patch.setattr(module, function, interpreted(getattr(module, function)))
        yield


# ---- random columns: (type, values as Python sees them in an Arrow column, variants) ------------

INTEGERS = [name for name, kind in SCALARS.items() if kind.is_whole and not kind.is_time]
TEXT = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    ["", "a", "\0", "a\0b", "12 bytes ....", "exactly12byt", "exactly 13 by", "x" * 40, "é" * 9]
)
BLOB = st.binary(max_size=30) | st.sampled_from([b"", b"\0" * 13, b"\xff" * 12, b"y" * 300])
DAY = 24 * 3600
SECONDS = st.integers(-(2**40), 2**40)


def exact_floats(width):
    special = [0.0, -0.0, float("nan"), float("inf"), -float("inf")]
    return st.floats(width=width) | st.sampled_from(special)


@st.composite
def columns(draw, rows):
    """(layout's type, what a source gives, what a block gives back)."""
    name, nullable = draw(st.sampled_from(sorted(SCALARS))), draw(st.booleans())
    before, after = draw(st.integers(0, 10)), draw(st.integers(0, 3))
    values = st.none() | VALUES[name] if nullable else VALUES[name]
    # What lies around the slice may be null whatever the column is.
    total = before + rows + after
    drawn = draw(st.lists(values, min_size=total, max_size=total))
    if not nullable and before and draw(st.booleans()):
        drawn[0] = None
    source, wanted = MAKERS.get(name, plain)(draw, name, drawn)
    kind = optional(SCALARS[name]) if nullable else SCALARS[name]
    return kind, source.slice(before, rows), wanted.slice(before, rows)


def plain(draw, name, drawn):
    made = pa.array(drawn, SCALARS[name].to_arrow())
    return made, made


def made_dates(draw, name, drawn):
    days = pa.array(drawn, pa.int32()).view(pa.date32())
    if draw(st.booleans()):
        return days, days
    milliseconds = [None if day is None else day * DAY * 1000 for day in drawn]
    return pa.array(milliseconds, pa.int64()).view(pa.date64()), days


def made_timestamps(draw, name, drawn):
    unit, zone = draw(st.sampled_from(["s", "ms", "us", "ns"])), draw(st.sampled_from(ZONES))
    per_second = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[unit]
    low, high = -(2**63) // per_second + 1, 2**63 // per_second - 1
    jitter = draw(st.integers(0, per_second - 1))
    ticks = [
        None if s is None else min(max(s, low), high) * per_second + jitter % per_second
        for s in drawn
    ]
    wanted = [None if t is None else t * 10**6 // per_second for t in ticks]
    source = pa.array(ticks, pa.int64()).view(pa.timestamp(unit, zone))
    return source, pa.array(wanted, pa.int64()).view(pa.timestamp("us", "UTC"))


def made_texts(draw, name, drawn):
    text = name == "string"
    wanted = pa.array(drawn, SCALARS[name].to_arrow())
    how = draw(st.sampled_from(["plain", "large", "view", "dictionary"]))
    if how == "large":
        return wanted.cast(pa.large_string() if text else pa.large_binary()), wanted
    if how == "view":
        kind, cut = pa.string_view() if text else pa.binary_view(), draw(st.integers(0, len(drawn)))
        parts = [wanted.slice(0, cut), wanted.slice(cut)]  # concatenated: several data buffers
        return pa.concat_arrays([pa.array(part.to_pylist(), kind) for part in parts]), wanted
    if how == "dictionary":
        return made_dictionary(draw, drawn, wanted), wanted
    return wanted, wanted


def made_dictionary(draw, drawn, wanted):
    """Nulls are null codes, or codes of a null in the dictionary."""
    distinct = list(dict.fromkeys(drawn))
    if draw(st.booleans()):
        distinct = [value for value in distinct if value is not None]
    places = {value: i for i, value in enumerate(distinct)}
    code = st.sampled_from([pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.int64()])
    codes = pa.array([places.get(value) for value in drawn], draw(code))
    return pa.DictionaryArray.from_arrays(codes, pa.array(distinct, wanted.type))


ZONES = [None, "UTC", "Europe/Oslo", "America/New_York"]
VALUES = {
    "bool": st.booleans(),
    "float32": exact_floats(32),
    "float64": exact_floats(64),
    "date": st.integers(-(10**6), 10**6),
    "timestamp": SECONDS,
    "string": TEXT,
    "binary": BLOB,
} | {
    name: st.integers(*SCALARS[name].integer_range) | st.sampled_from(SCALARS[name].integer_range)
    for name in INTEGERS
}
MAKERS = {
    "date": made_dates,
    "timestamp": made_timestamps,
    "string": made_texts,
    "binary": made_texts,
}


@st.composite
def batches(draw):
    """(layout, batch, the batch that should come back)."""
    rows = draw(st.integers(0, 60))
    drawn = draw(st.lists(columns(rows), min_size=1, max_size=5))
    schema = Schema.of({f"c{i}": kind for i, (kind, _, _) in enumerate(drawn)})
    batch = pa.record_batch([given for _, given, _ in drawn], names=list(schema.names))
    wanted = pa.record_batch([wanted for _, _, wanted in drawn], schema=schema.to_arrow())
    return Layout.of(schema), batch, wanted


def bits(batch):
    """Comparable by value and by bit: NaN is NaN, -0.0 is not 0.0."""
    widths = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
    return [c.view(widths[c.type]) if c.type in widths else c for c in batch.columns]


def assert_same(found, wanted):
    found.validate(full=True)
    assert found.schema == wanted.schema
    assert found.num_rows == wanted.num_rows
    for one, other in zip(bits(found), bits(wanted), strict=True):
        assert one.equals(other), (one, other)


def filled(layout, batch):
    block = Block.allocate(layout, max(batch.num_rows, 1))
    Feed(layout, batch).fill(block, 0, batch.num_rows)
    return block
