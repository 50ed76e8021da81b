"""Saved state: any point, another process, deltas, parts of the key groups, changed pipelines."""

import pickle
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.choices import fewer

import headrace as hr
from headrace import StateError
from headrace.asked import planned
from headrace.stage.blocks.arrow import to_arrow
from headrace.stage.snapshot import Snapshot
from headrace.stage.stage import Stage
from headrace.stage.store import GROUPS

ROWS = 240


class Seen:
    """State with every kind of field."""

    count: int = 0
    total: float = 0.0
    longest: str = ""
    last: hr.optional(int) = None


def track(state, word, value):
    state.count += 1
    state.total += value
    if len(word) > len(state.longest):
        state.longest = word
    before = state.last
    state.last = value
    if state.count % 3 == 0:
        yield state.count, state.total, state.longest, before


def pipeline():
    """A keyed function over state with strings, and two windows, of one source."""
    source = hr.read.memory({"word": ["a"], "value": [1], "time": [0]}, name="events")
    tracked = source.key_by("word").process(
        track, state=Seen, output=["count", "total", "longest", "before"], name="track"
    )
    windows = (
        source.with_watermark("time", 7)
        .key_by("word")
        .window(hr.tumbling(10))
        .agg(rows=hr.count(), most=hr.max("value"), first=hr.min("word"))
    )
    again = windows.window(hr.tumbling(40)).agg(rows=hr.sum("rows"))
    outputs = [tracked.write.null(name="tracked"), windows.write.null(name="windows")]
    return planned(
        [*outputs, again.write.null(name="again"), windows.late().write.null(name="late")]
    )


PLAN = pipeline()


def events(first, last):
    """Rows with long and short words, and times that go back beyond the bound now and then."""
    numbers = range(first, last)
    return pa.record_batch(
        {
            "word": [f"{'long word number ' if n % 3 else 'w'}{n * 7 % 11}" for n in numbers],
            "value": list(numbers),
            "time": [n - (n * 13 % 17) for n in numbers],
        }
    )


def feed(stage, first, last):
    """The rows that come out, each under the name of its output."""
    stage.push("events", events(first, last), "0")
    return [(n, row) for n, block in stage.pull() for row in to_arrow(block).to_pylist()]


def finish(stage):
    stage.end("events", "0")
    return [(n, row) for n, block in stage.pull() for row in to_arrow(block).to_pylist()]


def by_output(rows):
    return {name: [row for each, row in rows if each == name] for name, _ in rows}


def undisturbed(compiled):
    stage = Stage(PLAN.whole, compiled=compiled)
    return by_output(feed(stage, 0, ROWS) + finish(stage))


cuts = st.lists(st.integers(0, ROWS), min_size=1, max_size=6).map(sorted)


@pytest.mark.parametrize("compiled", [False, True])
@fewer
@given(cuts=cuts)
def test_snapshots_at_any_points_change_nothing(compiled, cuts):
    stage, rows, done, saved = Stage(PLAN.whole, compiled=compiled), [], 0, []
    for cut in cuts:
        rows += feed(stage, done, cut)
        done = cut
        snapshot = stage.snapshot(saved[-1].token if saved else None)
        saved = [*saved, snapshot] if snapshot.since else [snapshot]
        stage = Stage(PLAN.whole, compiled=compiled)
        stage.restore(*[Snapshot.from_bytes(s.to_bytes()) for s in saved])
    rows += feed(stage, done, ROWS) + finish(stage)
    assert by_output(rows) == undisturbed(compiled)


def test_restored_in_another_process(tmp_path):
    stage = Stage(PLAN.whole)
    rows = feed(stage, 0, 100)
    base = stage.snapshot()
    rows += feed(stage, 100, 130)
    delta = stage.snapshot(base.token)
    assert delta.since == base.token
    (tmp_path / "saved").write_bytes(pickle.dumps([base.to_bytes(), delta.to_bytes()]))
    program = f"""
import importlib.util, pickle, sys
spec = importlib.util.spec_from_file_location("saved_here", {str(Path(__file__))!r})
here = importlib.util.module_from_spec(spec)
spec.loader.exec_module(here)
saved = pickle.load(open({str(tmp_path / "saved")!r}, "rb"))
stage = here.Stage(here.PLAN.whole)
stage.restore(*[here.Snapshot.from_bytes(each) for each in saved])
rows = here.feed(stage, 130, here.ROWS) + here.finish(stage)
pickle.dump(rows, open({str(tmp_path / "rows")!r}, "wb"))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=240)
    rows += pickle.loads((tmp_path / "rows").read_bytes())
    assert by_output(rows) == undisturbed(True)


def keyed_sum():
    def add(state, value):
        state.count += 1
        state.total += value
        if state.count < 0:
            yield state.total

    source = hr.read.memory({"key": [0], "value": [0]}, name="rows")
    made = source.key_by("key").process(add, state={"count": int, "total": int}, output=["t"])
    return planned([made.write.null(name="out")])


def push(stage, keys):
    stage.push("rows", pa.record_batch({"key": keys, "value": keys}), "0")
    assert not list(stage.pull())


def test_a_delta_weighs_little():
    """1 % of the keys, at random: at most five times their records."""
    keys = np.random.default_rng(1).permutation(1_000_000)[:100_000]
    stage = Stage(keyed_sum().whole)
    push(stage, keys)
    base = stage.snapshot()
    push(stage, np.random.default_rng(2).choice(keys, 1_000, replace=False))
    delta = stage.snapshot(base.token)
    record_bytes = 3 * 8  # key, count, total
    assert delta.records == 1_000
    assert len(delta.to_bytes()) <= 5 * 1_000 * record_bytes
    assert base.records == 100_000


def test_deltas_that_outgrow_half_the_base_become_a_base():
    stage = Stage(keyed_sum().whole, compiled=False)
    push(stage, np.arange(100))
    token, kinds = stage.snapshot().token, []
    for _ in range(4):
        push(stage, np.arange(30))
        snapshot = stage.snapshot(token)
        token = snapshot.token
        kinds.append("delta" if snapshot.since else "base")
    assert kinds == ["delta", "delta", "base", "delta"]


@pytest.mark.parametrize("owners", [1, 3, 7])
def test_key_groups_go_to_other_owners(owners):
    stage = Stage(keyed_sum().whole, compiled=False)
    push(stage, np.arange(500))
    snapshot = stage.snapshot()
    bounds = [GROUPS * k // owners for k in range(owners + 1)]
    total = 0
    for first, last in pairwise(bounds):
        part = Stage(keyed_sum().whole, compiled=False)
        part.restore(snapshot, groups=range(first, last))
        total += part.snapshot().records
    assert total == 500


def test_an_unknown_token_gives_a_base():
    stage = Stage(keyed_sum().whole, compiled=False)
    push(stage, [1, 2])
    first = stage.snapshot()
    stage.snapshot()
    assert stage.snapshot(first.token).since is None


def test_snapshots_in_the_wrong_order_are_refused():
    stage = Stage(keyed_sum().whole, compiled=False)
    push(stage, np.arange(10))
    base = stage.snapshot()
    push(stage, [1])
    delta = stage.snapshot(base.token)
    with pytest.raises(StateError, match="a base, then its deltas"):
        Stage(keyed_sum().whole, compiled=False).restore(delta, base)


def test_rows_in_work_are_not_saved():
    stage = Stage(keyed_sum().whole, compiled=False)
    stage.push("rows", pa.record_batch({"key": [1], "value": [1]}), "0")
    with pytest.raises(StateError, match="pull everything first"):
        stage.snapshot()


def changed_sum(**state):
    def add(state, value):
        yield value

    source = hr.read.memory({"key": [0], "value": [0]}, name="rows")
    made = source.filter(hr.col("value") >= 0).key_by("key")
    made = made.process(add, state=state, output=["t"])
    return planned([made.write.null(name="out")])


def test_a_new_filter_does_not_orphan_state():
    stage = Stage(keyed_sum().whole, compiled=False)
    push(stage, np.arange(10))
    other = Stage(changed_sum(count=int, total=int).whole, compiled=False)
    other.restore(stage.snapshot())
    assert other.snapshot().records == 10


def test_a_changed_state_says_what_changed():
    stage = Stage(keyed_sum().whole, compiled=False)
    push(stage, np.arange(10))
    other = Stage(changed_sum(count=int, total=float).whole, compiled=False)
    with pytest.raises(StateError, match=r"process_1.*types: saved.*float64"):
        other.restore(stage.snapshot())


def test_an_operator_that_is_gone_says_so():
    stage = Stage(keyed_sum().whole, compiled=False)
    snapshot = stage.snapshot()
    source = hr.read.memory({"key": [0], "value": [0]}, name="rows")
    other = Stage(planned([source.write.null(name="out")]).whole, compiled=False)
    with pytest.raises(StateError, match="'process_1', which the pipeline lacks"):
        other.restore(snapshot)


def test_other_bytes_are_refused():
    with pytest.raises(StateError, match="not a saved state"):
        Snapshot.from_bytes(b"something else entirely")
