"""Runs that are recorded and run again: the same rows, the same results, at a pace."""

import struct
import threading

import pytest

import headrace as hr
from headrace import col
from headrace.testing import VirtualClock

engines = pytest.mark.parametrize("engine", ["thread", "node"])


def pipeline(source):
    windows = (
        source.with_columns(t=hr.from_millis(col("ms")))
        .with_watermark("t", "1s")
        .key_by("user")
        .window(hr.tumbling("10s"))
        .agg(n=hr.count(), most=hr.max("ms"))
    )
    return [windows.write.collect(), windows.late().write.collect()]


def rows(count=500):
    for n in range(count):
        yield {"user": f"user {n % 3}", "ms": (n * 997) % 60_000 + n * 50}


def results(outputs):
    return [output.result().to_pylist() for output in outputs]


@engines
def test_a_run_can_be_had_again(tmp_path, engine):
    outputs = pipeline(hr.read.iterate(rows()))  # which nobody could read twice
    hr.run(*hr.record(tmp_path / "monday", *outputs), engine=engine, compiled=False)
    first = results(outputs)
    assert len(first[0]) > 5 and len(first[1]) > 5
    for again in ("thread", "node"):
        hr.run(*hr.replay(tmp_path / "monday", *outputs, speed=None), engine=again, compiled=False)
        assert results(outputs) == first
    # another pipeline over the same input, with columns that nobody wanted before
    other = hr.read.iterate(rows(1)).filter(col("ms") < 100).write.collect()
    hr.run(*hr.replay(tmp_path / "monday", other, speed=None), engine=engine, compiled=False)
    assert other.result()["ms"].to_pylist() == [r["ms"] for r in rows() if r["ms"] < 100]


@engines
def test_several_sources_and_channels(tmp_path, engine):
    tables = [{"n": list(range(k, 100, 3))} for k in range(3)]
    one = hr.read.memory([_table(each) for each in tables])
    both = one.union(hr.read.memory({"n": [1000, 1001]}))
    out = both.write.collect()
    hr.run(*hr.record(tmp_path / "r", out), engine=engine, compiled=False)
    hr.run(*hr.replay(tmp_path / "r", out, speed=None), engine=engine, compiled=False)
    assert sorted(out.result()["n"].to_pylist()) == [*range(100), 1000, 1001]


def _table(columns):
    import pyarrow as pa

    return pa.table(columns)


def test_rows_come_at_their_pace(tmp_path):
    """Recorded at 0, 10 and 30 seconds; twice as fast they come at 0, 5 and 15."""
    clock = VirtualClock()
    times = {0: 0.0, 1: 10.0, 2: 20.0}

    class Timed:
        """A source whose rows take time, by the clock of the test."""

        def __init__(self):
            self.source = hr.read.memory({"n": [0, 1, 2]}).node.connector

        def __getattr__(self, name):
            return getattr(self.source, name)

        def open(self, channel, *given):
            reader = self.source.open(channel, *given)
            poll = reader.poll

            def slow(most, timeout):
                batch = poll(1, timeout)
                if batch.rows is not None:
                    clock.advance(times[batch.rows["n"][0].as_py()])
                return batch

            reader.poll = slow
            return reader

    from headrace.connect.recording import Beginning, RecordedSource, RecordingSource

    recording = RecordingSource(Timed(), tmp_path / "0", Beginning(clock))
    reader = recording.open("0")
    while not reader.poll(10, 0.0).ended:
        pass
    played = RecordedSource(tmp_path / "0", recording.schema(), 2.0, Beginning(clock))
    (channel,) = played.channels()
    reader, begun, seen = played.open(channel), clock.now(), {}
    while not (batch := reader.poll(10, 0.0)).ended:
        if batch.rows is None:
            clock.advance(1.0)
        else:
            seen[batch.rows["n"][0].as_py()] = clock.now() - begun
    assert seen == {0: 0.0, 1: 5.0, 2: 15.0}


def test_a_recording_is_validated_before_anything_follows_it(tmp_path):
    """An offset behind the text, written into the file."""
    out = hr.read.memory({"s": ["abc", "defg", "hi"]}).filter(col("s") != "x").write.collect()
    hr.run(*hr.record(tmp_path / "r", out), engine="thread", compiled=False)
    (path,) = (tmp_path / "r").rglob("*.arrows")
    content, offsets = path.read_bytes(), struct.pack("<4i", 0, 3, 7, 9)
    assert content.count(offsets) == 1
    path.write_bytes(content.replace(offsets, struct.pack("<4i", 0, 3, 7, 1 << 20)))
    with pytest.raises(hr.DataError, match=rf"{path}: column 's' is damaged"):
        hr.run(*hr.replay(tmp_path / "r", out, speed=None), engine="thread")


def test_a_replay_that_waits_can_be_stopped(tmp_path):
    out = hr.read.iterate(({"n": n} for n in range(2)), schema={"n": int}).write.collect()
    hr.run(*hr.record(tmp_path / "r", out), engine="thread", compiled=False)
    (slow,) = hr.replay(tmp_path / "r", out, speed=1e-9)  # rows come after years
    job = hr.start(slow, engine="node", compiled=False)
    threading.Event().wait(0.2)
    assert job.stop(timeout=60) and job.status == "stopped"


def test_a_recording_that_was_cut_off(tmp_path):
    out = hr.read.memory({"n": [1, 2]}).write.collect()
    hr.run(*hr.record(tmp_path / "r", out), engine="thread", compiled=False)
    (file,) = (tmp_path / "r" / "0").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-8])  # without its end mark
    with pytest.raises(hr.DataError, match="ends here: the run was killed"):
        hr.run(*hr.replay(tmp_path / "r", out, speed=None), engine="thread", compiled=False)
    file.write_bytes(whole[:-40])
    with pytest.raises(hr.DataError, match=r"cannot be read|ends here"):
        hr.run(*hr.replay(tmp_path / "r", out, speed=None), engine="thread", compiled=False)


def test_mistakes(tmp_path):
    out = hr.read.memory({"n": [1]}).write.collect()
    with pytest.raises(hr.PipelineError, match="is not a recording of this pipeline's source"):
        hr.replay(tmp_path / "no", out)
    hr.run(*hr.record(tmp_path / "r", out), engine="thread", compiled=False)
    with pytest.raises(hr.PipelineError, match="is there already; record into a new folder"):
        hr.record(tmp_path / "r", out)
    with pytest.raises(hr.PipelineError, match="speed=0: use a number above zero"):
        hr.replay(tmp_path / "r", out, speed=0)
    with pytest.raises(hr.PipelineError, match="there is no output"):
        hr.record(tmp_path / "s")
    other = hr.read.memory({"m": ["x"]}).write.collect()
    with pytest.raises(hr.DataError, match="there is no column 'm'; there are: n"):
        hr.run(*hr.replay(tmp_path / "r", other, speed=None), engine="thread", compiled=False)
