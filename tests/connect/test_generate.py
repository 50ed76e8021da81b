"""The index source, with and without a rate."""

import pickle
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connect.data import read_all

from headrace.connect.generate import IndexSource
from headrace.plan.connector import Source, is_replayable
from headrace.plan.errors import DataError
from headrace.testing import VirtualClock


def indices(reader, max_rows=7):
    return [row["index"] for row in read_all(reader, max_rows)[0]]


@given(st.integers(0, 50), st.integers(1, 5), st.integers(1, 9), st.data())
def test_channels_share_the_rows_and_ranges_can_be_read_again(rows, channels, max_rows, data):
    source = IndexSource(rows, channels=channels)
    assert isinstance(source, Source) and is_replayable(source)
    found = {c: indices(source.open(c), max_rows) for c in source.channels()}
    assert found == {str(c): list(range(c, rows, channels)) for c in range(channels)}
    assert source.latest() == {c: len(f) for c, f in found.items()}
    channel = data.draw(st.sampled_from(source.channels()))
    count = len(found[channel])
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count))
    assert indices(source.open(channel, start, stop), max_rows) == found[channel][start:stop]
    assert source.maximum("index", channel, stop) == max(found[channel][:stop], default=None)


def test_without_rows_it_has_no_end():
    source = IndexSource(channels=2)
    assert source.latest() == {"0": None, "1": None}
    batch = source.open("1", start=10**9).poll(3, 0.0)
    assert batch.rows["index"].to_pylist() == [2 * 10**9 + 1 + 2 * k for k in range(3)]
    assert not batch.ended
    assert str(source) == "generate, endless in 2 channels"


def test_only_the_number_of_rows_may_be_wanted():
    assert IndexSource(5).open("0", columns=[]).poll(10, 0.0).rows.num_rows == 5


def test_a_rate_follows_the_clock():
    clock = VirtualClock()
    reader = IndexSource(100, rate=10, clock=clock).open("0")
    assert reader.poll(50, 0.0).rows is None
    clock.advance(0.3)
    assert reader.poll(50, 0.0).rows["index"].to_pylist() == [0, 1, 2]
    assert reader.poll(50, 0.0).rows is None
    clock.advance(1.0)
    assert reader.poll(4, 0.0).rows.num_rows == 4
    assert reader.poll(50, 0.0).rows.num_rows == 6
    clock.advance(1000.0)
    last = reader.poll(1000, 0.0)
    assert last.rows.num_rows == 87 and last.ended


def test_a_rate_is_shared_by_the_channels_and_begins_at_the_start():
    clock = VirtualClock(start=1e6)
    reader = IndexSource(rate=10, channels=5, clock=clock).open("3", start=100)
    clock.advance(1.0)
    batch = reader.poll(50, 0.0)
    assert batch.rows["index"].to_pylist() == [503, 508] and batch.position == 102


def test_a_rate_in_steps_follows_the_clock():
    clock = VirtualClock()
    source = IndexSource(rate=[(10, "1s"), (0, "2s"), (1000, "1s")], channels=2, clock=clock)
    assert str(source).endswith("at 10/s for 1 s, then 0/s for 2 s, then 1,000/s")
    reader = source.open("1")
    clock.advance(1.0)
    assert reader.poll(50, 0.0).rows["index"].to_pylist() == [1, 3, 5, 7, 9]
    clock.advance(1.9)
    assert reader.poll(50, 0.0).rows is None
    clock.advance(0.2)
    assert reader.poll(50, 0.0).rows["index"].to_pylist() == list(range(11, 111, 2))


@pytest.mark.parametrize("rate", [3.0, 7.7, 1e6, 1e9, [(7.7, "100ms"), (0, "1h"), (3, None)]])
def test_an_automatic_clock_never_hangs(rate):
    clock = VirtualClock(start=123456.789, automatic=True)
    reader = IndexSource(20, rate=rate, clock=clock).open("0")
    for _ in range(1000):
        if reader.poll(1, 0.0).ended:
            break
    else:
        pytest.fail("it hangs")


def test_the_wall_clock_is_waited_for_and_close_wakes():
    reader = IndexSource(rate=100).open("0")
    assert reader.poll(10, 5.0).rows.num_rows >= 1
    slow = IndexSource(rate=0.001).open("0")
    threading.Timer(0.05, slow.close).start()
    before = time.monotonic()
    batch = slow.poll(10, 30.0)
    assert time.monotonic() - before < 5
    assert (batch.rows, batch.ended) == (None, False)


def test_it_travels():
    assert indices(pickle.loads(pickle.dumps(IndexSource(3))).open("0")) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": -1}, "rows=-1: cannot be negative"),
        ({"channels": 0}, "channels=0: there must be at least one"),
        ({"rate": 0}, "rate=0: must be above zero"),
        ({"rate": float("nan")}, "rate=nan: must be above zero"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(DataError, match=message):
        IndexSource(**options)


def test_wrong_positions():
    with pytest.raises(DataError, match="channel 0 has no row 6"):
        IndexSource(5).open("0", start=6)
    with pytest.raises(DataError, match="no channel 'x'"):
        IndexSource(5).open("x")
