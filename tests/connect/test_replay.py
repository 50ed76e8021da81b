"""A table replayed round after round, against a loop."""

import pickle
import threading

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connect.data import read_all
from tests.connect.test_memory import FORMS, ROWS
from tests.naive import naive, rows_of
from tests.running import assert_same

import headrace as hr
from headrace import col
from headrace.connect import replay
from headrace.connect.replay import ReplaySource
from headrace.plan.connector import Source, Statistics, is_replayable
from headrace.plan.errors import DataError, PipelineError
from headrace.plan.schema import Schema
from headrace.plan.types import optional
from headrace.testing import VirtualClock

MICROSECOND = pa.timestamp("us", "UTC")


def naive_replay(rows, span, total, channels):
    """The rows of each channel; times are moved round by round."""
    made = [[] for _ in range(channels)]
    for number in range(total):
        place, at = divmod(number, len(rows))
        row = dict(rows[at])
        row["at"] = None if row["at"] is None else row["at"] + place * span
        made[at % channels].append(row)
    return made


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Few rows at once, so that small tables have several pieces."""
    monkeypatch.setattr(replay, "PIECE_ROWS", 3)


times = st.lists(st.none() | st.integers(-1000, 1000), min_size=1, max_size=20).filter(
    lambda drawn: any(at is not None for at in drawn)
)


@given(
    times, st.none() | st.integers(1, 3000), st.integers(0, 70), st.integers(1, 3),
    st.booleans(), st.data(),
)  # fmt: skip
def test_rounds_follow_one_another_and_ranges_can_be_read_again(
    drawn, span, total, channels, stamps, data
):
    channels = min(channels, len(drawn))
    rows = [{"at": at, "text": f"row {i}", "n": i} for i, at in enumerate(drawn)]
    table = pa.Table.from_pylist(rows, pa.schema({"at": "int64", "text": "string", "n": "int64"}))
    given_span = span
    if stamps:
        kind = data.draw(st.sampled_from([MICROSECOND, pa.timestamp("us")]))
        table = table.set_column(0, "at", table["at"].cast(kind))
        given_span = None if span is None else f"{span}us"
    cut = data.draw(st.integers(0, len(rows)))
    table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    source = ReplaySource(table, time="at", span=given_span, rows=total, channels=channels)
    assert isinstance(source, Source) and isinstance(source, Statistics) and is_replayable(source)

    there = [at for at in drawn if at is not None]
    width = max(there) - min(there) + 1 if span is None else span
    wanted = naive_replay(rows, width, total, channels)
    for channel, expected in zip(source.channels(), wanted, strict=True):
        assert source.latest()[channel] == len(expected)
        max_rows = data.draw(st.integers(1, 30))
        found, positions = read_whole(source.open(channel), max_rows)
        assert found == expected
        assert all(count == position for count, position in positions)
        start = data.draw(st.integers(0, len(expected)))
        stop = data.draw(st.integers(start, len(expected)))
        again, _ = read_whole(source.open(channel, start, stop), max_rows)
        assert again == expected[start:stop]
        before = [row["at"] for row in expected[:stop] if row["at"] is not None]
        assert source.maximum("at", channel, stop) == max(before, default=None)
        numbers = [row["n"] for row in expected[:stop]]
        assert source.maximum("n", channel, stop) == max(numbers, default=None)


def read_whole(reader, max_rows):
    """All rows, with times as numbers."""
    rows, positions = read_all(reader, max_rows)
    for row in rows:
        if row["at"] is not None and not isinstance(row["at"], int):
            row["at"] = pa.scalar(row["at"], MICROSECOND).value
    return rows, positions


@pytest.mark.parametrize("form", sorted(set(FORMS) - {"batches"}))
def test_every_form_of_a_table_can_be_replayed(form):
    source = ReplaySource(FORMS[form], rows=5)
    assert source.schema() == Schema.of({"a": int, "b": optional(str)})
    assert read_all(source.open("0"))[0] == (ROWS * 3)[:5]


def test_without_rows_it_has_no_end():
    source = ReplaySource({"at": [0, 1], "n": [1, 2]}, time="at", channels=2)
    assert source.latest() == {"0": None, "1": None}
    batch = source.open("1", start=10**9).poll(5, 0.0)
    assert batch.rows.to_pylist() == [{"at": 2 * 10**9 + 1, "n": 2}] and not batch.ended
    assert str(source) == "replay of 2 rows, endless in 2 channels"
    assert str(ReplaySource({"n": [1]}, rows=5, rate=3)) == (
        "replay of 1 rows, 5 rows in all at 3/s"
    )
    with pytest.raises(DataError, match="an endless stream has no largest value"):
        source.maximum("at", "0", None)


def test_only_times_are_new_and_not_for_every_poll():
    table = pa.table({"at": list(range(10)), "n": list(range(10))})
    reader = ReplaySource(table, time="at").open("0", start=10)
    first, second = reader.poll(2, 0.0).rows, reader.poll(2, 0.0).rows
    where = [column.buffers()[1].address for column in (*first.columns, *second.columns)]
    assert where[1] == where[3] == table["n"].chunk(0).buffers()[1].address
    assert where[0] == where[2] != table["at"].chunk(0).buffers()[1].address
    assert second["at"].to_pylist() == [12]  # the end of a piece
    assert reader.poll(5, 0.0).rows["at"].to_pylist() == [13, 14, 15]


def test_what_a_round_is_made_of():
    source = ReplaySource({"at": [0, 5, 9], "n": [1, 2, 3]}, time="at", span=50, channels=2)
    assert (source.time, source.span) == ("at", 50)
    assert source.rounds("0").rows.to_pydict() == {"at": [0, 9], "n": [1, 3]}
    assert source.rounds("1").rows.to_pydict() == {"at": [5], "n": [2]}


def test_columns_are_pruned_in_the_order_asked_for():
    source = ReplaySource({"at": [0, 1], "n": [5, 6], "m": [7, 8]}, time="at")
    rows = source.open("0", start=2, columns=["m", "at"]).poll(10, 0.0).rows
    assert rows.to_pylist() == [{"m": 7, "at": 2}, {"m": 8, "at": 3}]
    assert source.open("0", start=3, columns=["n"]).poll(10, 0.0).rows["n"].to_pylist() == [6]
    assert source.open("0", start=3, columns=[]).poll(10, 0.0).rows.num_rows == 1


def test_times_of_other_units_are_microseconds_rounded_down():
    values = [-1, 1_500, 2_000]
    table = pa.table({"at": pa.array(values, pa.timestamp("ns"))})
    reader = ReplaySource(table, time="at", span="1ms", rows=6).open("0")
    found = pa.concat_tables(
        pa.Table.from_batches([reader.poll(10, 0.0).rows]).cast(pa.schema({"at": MICROSECOND}))
        for _ in range(2)
    )
    assert found["at"].cast("int64").to_pylist() == [-1, 1, 2, 999, 1001, 1002]
    seconds = ReplaySource(
        pl.DataFrame({"at": pl.Series([1, 2]).cast(pl.Datetime("ms"))}), time="at"
    )
    assert seconds.maximum("at", "0", 4) == 2_000 + 1_001


def test_a_rate_in_steps_follows_the_clock():
    clock = VirtualClock()
    reader = ReplaySource({"n": [1, 2, 3]}, rate=[(2, "1s"), (4, "1s")], clock=clock).open("0")
    assert reader.poll(10, 0.0).rows is None
    clock.advance(1.0)
    assert reader.poll(10, 0.0).rows["n"].to_pylist() == [1, 2]
    clock.advance(0.5)
    found = [reader.poll(10, 0.0).rows["n"].to_pylist() for _ in range(2)]
    assert found == [[3], [1]]
    assert reader.poll(10, 0.0).rows is None


def test_after_close_there_are_no_rows_and_no_end():
    reader = ReplaySource({"a": [1, 2]}, rows=1, rate=0.001).open("0")
    threading.Timer(0.05, reader.close).start()
    batch = reader.poll(1, 30.0)
    assert (batch.rows, batch.position, batch.ended) == (None, 0, False)


def test_it_travels():
    source = pickle.loads(pickle.dumps(ReplaySource({"at": [1, 2]}, time="at", rows=3)))
    assert read_all(source.open("0"))[0] == [{"at": 1}, {"at": 2}, {"at": 3}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": -1}, "rows=-1: cannot be negative"),
        ({"channels": 0}, "channels=0: there must be at least one"),
        ({"channels": 3}, "2 rows cannot be replayed in 3 channels"),
        ({"time": "when"}, "time='when': there is no such column"),
        ({"time": "name"}, "time='name': a time is a timestamp or an int64, not string"),
        ({"time": "none"}, "column 'none' has no time that is not null"),
        ({"time": "at", "span": 0}, "span=0: must be above zero"),
        ({"time": "at", "span": "1s"}, "the span '1s' is a duration, and the time column is int64"),
        ({"time": "stamp", "span": 5}, "the span 5 has no unit"),
        ({"span": 5}, "span=5: say which column is the time"),
        ({"rate": -1}, "rate=-1: must be above zero"),
    ],
)
def test_wrong_options(options, message):
    data = {
        "at": [0, 1],
        "name": ["x", "y"],
        "none": pa.array([None, None], pa.int64()),
        "stamp": pa.array([0, 1], MICROSECOND),
    }
    with pytest.raises(PipelineError) as raised:
        hr.read.replay(data, **options)
    assert message in str(raised.value) and "test_replay.py" in str(raised.value)


def test_no_rows_and_wrong_positions():
    with pytest.raises(DataError, match="0 rows cannot be replayed"):
        ReplaySource(pa.table({"a": pa.array([], pa.int64())}))
    source = ReplaySource({"a": [1]}, rows=5)
    with pytest.raises(DataError, match="channel 0 has no row 6"):
        source.open("0", start=6)
    with pytest.raises(DataError, match="no channel 'x'"):
        source.open("x")


def test_times_that_leave_64_bits():
    reader = ReplaySource({"at": [0, 1]}, time="at", span=1 << 60).open("0", start=14)
    assert reader.poll(5, 0.0).rows["at"].to_pylist() == [7 << 60, (7 << 60) + 1]
    with pytest.raises(DataError, match="in round 8, times of column 'at' leave 64 bits"):
        reader.poll(5, 0.0)


@pytest.mark.parametrize("engine", ["thread", "node"])
def test_windows_go_on_over_rounds(engine):
    table = {"at": [0, 3, 7, 12, 19], "user": ["a", "b", "a", "b", "a"]}
    events = hr.read.replay(table, time="at", span=20, rows=98, channels=2)
    counts = (
        events.filter(col("user") == "a")
        .with_watermark("at", 0)
        .key_by("user")
        .window(hr.tumbling(10))
        .agg(n=hr.count())
        .write.collect()
    )
    hr.run(counts, engine=engine, compiled=False)
    assert_same(rows_of(counts.result()), naive([counts])[0], ordered=False)
    assert sum(row["n"] for row in rows_of(counts.result())) == 20 * 3 - 1


def test_an_endless_replay_is_stopped():
    events = hr.read.replay({"at": [0, 1], "n": [1, 2]}, time="at")
    output = events.write.null()
    job = hr.run(
        output, compiled=False, watch=lambda job: job.progress().rows_in > 10 and job.stop()
    )
    assert job.progress().rows_in > 10
