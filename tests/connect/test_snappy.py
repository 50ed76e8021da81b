"""Unpacking Snappy, against Arrow's codec and against tags made by hand; in both lives."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.connect import snappy
from headrace.connect.parquet_pages import read_number
from headrace.stage.memory.records import interpreted

GUARD = 64
LIVES = ["compiled", "interpreted"]


def unpacked(life, tags, size):
    """What the tags give, or None; nothing outside of the target may be written to."""
    unpack = snappy.unpack if life == "compiled" else interpreted(snappy.unpack)
    source = np.frombuffer(tags, np.uint8)
    memory = np.full(size + 2 * GUARD, 0xEE, np.uint8)
    target = memory.ctypes.data + GUARD
    made = unpack(source.ctypes.data, source.ctypes.data + len(source), target, target + size)
    assert (memory[: GUARD - snappy.BEFORE] == 0xEE).all()
    assert (memory[GUARD + size :] == 0xEE).all()
    return None if made == snappy.DAMAGED else memory[GUARD : GUARD + made].tobytes()


def packed(content):
    """The tags that Arrow's codec makes."""
    made = pa.Codec("snappy").compress(content).to_pybytes()
    size, begin = read_number(memoryview(made), 0)
    assert size == len(content)
    return made[begin:]


PIECES = st.binary(max_size=12) | st.sampled_from([b"\0" * 70, b"abc" * 30, bytes(range(200))])
NUMBERS = st.sampled_from(["<i2", "<i4", "<i8", "<f8"])


@pytest.mark.parametrize("life", LIVES)
@given(st.lists(PIECES, max_size=30), st.integers(1, 4))
def test_any_bytes(life, pieces, times):
    content = b"".join(pieces) * times
    assert unpacked(life, packed(content), len(content)) == content


@pytest.mark.parametrize("life", LIVES)
@given(NUMBERS, st.integers(0, 2**32), st.integers(1, 2**20), st.integers(0, 600))
def test_numbers(life, kind, seed, most, count):
    content = np.random.default_rng(seed).integers(0, most, count).astype(kind).tobytes()
    assert unpacked(life, packed(content), len(content)) == content


def literal(content, extra):
    """A literal whose length takes so many bytes behind the tag."""
    size = len(content) - 1
    if not extra:
        return bytes([size << 2]) + content
    return bytes([(59 + extra) << 2]) + size.to_bytes(extra, "little") + content


def copy(offset, count, size):
    """A copy whose offset takes 1, 2 or 4 bytes behind the tag."""
    if size == 1:
        return bytes([1 | (count - 4) << 2 | offset >> 8 << 5, offset & 255])
    return bytes([{2: 2, 4: 3}[size] | (count - 1) << 2]) + offset.to_bytes(size, "little")


@st.composite
def tags(draw):
    """Tags of every form, and what they mean."""
    made, content = b"", b""
    for _ in range(draw(st.integers(1, 12))):
        if not content or draw(st.booleans()):
            piece = draw(st.binary(min_size=1, max_size=90))
            extra = draw(st.integers(0 if len(piece) <= 60 else 1, 4))
            made, content = made + literal(piece, extra), content + piece
            continue
        size = draw(st.sampled_from([1, 2, 4]))
        offset = draw(
            st.integers(1, min(len(content), 2047)) | st.integers(1, min(len(content), 9))
        )
        count = draw(st.integers(4, 11) if size == 1 else st.integers(1, 64))
        made += copy(offset, count, size)
        for _ in range(count):
            content += content[-offset : len(content) - offset + 1]
    return made, content


@pytest.mark.parametrize("life", LIVES)
@given(tags(), st.booleans())
def test_tags_of_every_form(life, drawn, more):
    made, content = drawn
    if more:  # so that the quick loop sees the tags before
        end = bytes(range(100))
        made, content = made + literal(end, 1), content + end
    assert unpacked(life, made, len(content)) == content


@pytest.mark.parametrize("life", LIVES)
@given(st.binary(min_size=1, max_size=200), st.integers(0, 300))
@example(copy(1, 4, 1) + bytes(40), 200)  # before the beginning
@example(literal(bytes(8), 0) + copy(0, 4, 2) + bytes(40), 200)  # from nowhere
@example(literal(bytes(100), 4)[:50], 200)  # more than there is
@example(literal(bytes(100), 1), 50)  # more than there is room for
@example(literal(b"ab", 0) + copy(2, 64, 2), 20)
@example(b"\xfc\xff", 200)  # a length that is cut off
@example(b"\x01", 200)
def test_damaged_bytes_stay_inside(life, given, size):
    made = unpacked(life, given, size)
    assert made is None or len(made) <= size
