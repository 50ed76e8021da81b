"""As-of joins: in time, in order, forgotten. `test_joins` compares them with the reference."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from tests.choices import choices, fewer
from tests.naive import naive, rows_of
from tests.running import CAPACITIES, assert_same, check, run_staged
from tests.test_joins import pipeline

import headrace as hr
from headrace import PipelineError, col
from headrace.asked import planned
from headrace.stage.blocks.arrow import to_arrow
from headrace.stage.snapshot import Snapshot
from headrace.stage.stage import Stage

pytestmark = pytest.mark.timeout(600)
WAIT = 100  # for rows out of order


def sides(left, right):
    """Streams of (key, time) and of (key, time, price)."""
    one = {"k": [row[0] for row in left], "t": [row[1] for row in left]}
    other = dict(zip(("k", "u", "price"), map(list, zip(*right, strict=True)), strict=True))
    return (
        hr.read.memory(one, name="left").with_watermark("t", 0),
        hr.read.memory(other, name="right").with_watermark("u", 0),
    )


@given(choose=choices())
def test_rows_come_by_time_and_key(choose):
    """However rows are cut, and whichever side is ahead."""
    outputs = pipeline(choose, "as of")[:1]
    found = run_staged(outputs, capacity=choose.pick(CAPACITIES), cuts=choose)
    assert_same(found[0], naive(outputs)[0], ordered=True)


def test_rows_come_when_the_watermark_is_behind_them():
    """That of both sides, not earlier and not later, while a pane is half given out."""
    left, right = sides([("a", 0)], [("a", 0, 1.0)])
    made = left.asof_join(right, "k").write.null(name="rows")
    stage = Stage(planned([made]).whole, compiled=False)
    for side in ("left", "right"):
        stage.declare(side, "0")

    def after(side, *times):
        columns = {"k": ["a"] * len(times), "t" if side == "left" else "u": list(times)}
        if side == "right":
            columns["price"] = [float(time) for time in times]
        stage.push(side, pa.record_batch(columns), "0")
        given = [row for _, block in stage.pull() for row in to_arrow(block).to_pylist()]
        return [(row["t"], row["price"]) for row in given]

    assert after("left", 4, 6, 9, 20) == []
    assert after("right", 3) == []
    assert after("right", 4) == []  # another version of 4 may come
    assert after("right", 4, 5, 8) == [(4, 4.0), (6, 5.0)]
    assert after("right", 21) == [(9, 8.0)]
    assert after("left", 30) == [(20, 8.0)]


@fewer
@given(choose=choices())
def test_rows_wait_in_order_however_many_come(choose):
    """Many at once are sorted, few beside many that wait enter the heap; both go on as one, and so
    do rows that were saved while they waited."""
    left, right = (side.with_watermark(time, WAIT) for side, time in _untimed())
    plan = planned([left.asof_join(right, "k").write.null(name="rows")]).whole
    stage, fronts = _declared(plan), {"left": -WAIT, "right": -WAIT}
    came: list[tuple[int, int, bool, int]] = []
    found: list[dict[str, object]] = []
    for first in range(0, 100 * choose.number(3, 20), 100):
        side = choose.pick(["left", "right"])
        count = choose.pick([1, 2, 3, 30])
        times = [fronts[side] + choose.number(0, WAIT + 20) for _ in range(count)]
        rows = {"k": [choose.number(1, 3) for _ in times], "t" if side == "left" else "u": times}
        if side == "right":
            rows["price"] = [float(first + n) for n in range(count)]
        for n, (key, moment) in enumerate(zip(rows["k"], times, strict=True)):
            if moment >= fronts[side]:  # else it is late
                came.append((moment, key, side == "left", first + n))
                fronts[side] = max(fronts[side], moment - WAIT)
        stage.push(side, pa.record_batch(rows), "0")
        found += [row for _, block in stage.pull() for row in to_arrow(block).to_pylist()]
        assert [(row["t"], row["k"], row["price"]) for row in found] == _joined(came, fronts)
        if choose.chance(20):
            saved, stage = stage.snapshot(None), Stage(plan, compiled=False)
            stage.restore(Snapshot.from_bytes(saved.to_bytes()))


def _untimed():
    left = hr.read.memory({"k": [0], "t": [0]}, name="left")
    return (left, "t"), (hr.read.memory({"k": [0], "u": [0], "price": [0.0]}, name="right"), "u")


def _declared(plan):
    stage = Stage(plan, compiled=False)
    for side in ("left", "right"):
        stage.declare(side, "0")
    return stage


def _joined(came, fronts):
    """(time, key, price) of the rows on the left that have gone on."""
    versions, made = {}, []
    for time, key, is_left, number in sorted(came):
        if time >= min(fronts.values()):
            break
        if not is_left:
            versions[key] = float(number)
        elif key in versions:
            made.append((time, key, versions[key]))
    return made


@pytest.mark.parametrize("workers", [1, 3])
def test_windows_behind_an_asof_join(workers):
    """Rows keep their event time, and none is late."""
    numbers = [((n * 7) % 5, n // 3) for n in range(300)]
    left, right = sides(numbers, [(k % 5, 3 * k, float(k)) for k in range(40)])
    priced = left.asof_join(right, "k")
    assert priced.node.time == "t"
    outputs = [priced.window(hr.tumbling(20)).agg(n=hr.count(), total=hr.sum("price"))]
    outputs = [each.write.collect() for each in outputs]
    assert sum(row["n"] for row in naive(outputs)[0]) > 250
    hr.run(*outputs, engine="node", workers=workers)
    assert_same(rows_of(outputs[0].result()), naive(outputs)[0], ordered=True)


@pytest.mark.parametrize("tolerance", [None, 300])
def test_only_versions_that_may_be_asked_for_are_kept(tolerance):
    """One of each key; with a tolerance only the young ones. Rows are forgotten when given."""
    numbers = hr.read.index(1)
    left = numbers.select(k=col("index") // 12 % 500, t=col("index")).with_watermark("t", 0)
    right = left.rename(t="u").filter(col("u") % 2 == 0)
    made = left.asof_join(right, "k", tolerance=tolerance).write.null(name="rows")
    plan = planned([made]).whole
    stage, (source,) = Stage(plan, compiled=False), plan.inputs
    kept = []
    for start in range(0, 7_000, 50):
        stage.push(source.name, pa.record_batch({"index": list(range(start, start + 50))}), "0")
        list(stage.pull())
        kept.append(max(m.get("state_keys", 0) for m in stage.metrics().values()))
    versions = 500 if tolerance is None else 3 * tolerance // 12
    assert versions // 3 <= min(kept[-10:]) <= max(kept[-10:]) <= versions + 250


def test_more_rows_wait_than_a_pane_takes():
    """One side is far ahead; what it had to remember is forgotten when the other comes."""
    rows = 40_000
    left = hr.read.memory(
        pa.table({"k": [n % 3 for n in range(rows)], "t": list(range(rows))}), name="left"
    ).with_watermark("t", 0)
    right = hr.read.memory({"k": [0, 1, 2, 0], "u": [0, 1, 2, rows // 2], "v": [0, 1, 2, 3]})
    output = left.asof_join(right.with_watermark("u", 0), "k").write.collect()
    hr.run(output, engine="thread")
    found = output.result()
    expected = [3 if n % 3 == 0 and n >= rows // 2 else n % 3 for n in range(rows)]
    assert found["v"].to_pylist() == expected
    assert found["t"].to_pylist() == list(range(rows))


def test_memory_for_the_order_of_rows_is_kept_while_as_many_wait():
    """It goes when far fewer have waited."""
    far = 100_000  # the first of rows that move the watermark, and then are left out
    numbers = hr.read.index(1).with_watermark("index", far // 2).filter(col("index") % far != 0)
    left, right = numbers.select(k=1, t=col("index")), numbers.select(k=1, u=col("index"))
    plan = planned([left.asof_join(right, "k").write.null(name="rows")]).whole
    stage, (source,) = Stage(plan, compiled=False), plan.inputs
    (panes,) = (state.kernel.windows.panes for state in stage._kernel_states())
    kept, given = [], 0
    for start, rows in ((1, 9_000), (far + 1, 9_000), (2 * far + 1, 10)):
        for batch in (range(start, start + rows), [start // far * far + far]):
            stage.push(source.name, pa.record_batch({"index": list(batch)}), "0")
            given += sum(block.rows for _, block in stage.pull())
        kept.append(panes.queue)
    assert given == 18_010
    assert kept[0] == kept[1] != 0 == kept[2]


def test_strings_of_versions_are_replaced():
    """What versions of before took is used again."""
    rows = 4_000
    text = [f"{'a long text of version ' * 40}{n}" for n in range(rows)]
    right = hr.read.memory({"k": [n % 2 for n in range(rows)], "u": range(rows), "s": text})
    left = hr.read.memory({"k": [n % 2 for n in range(rows)], "t": range(rows)})
    joined = left.with_watermark("t", 0).asof_join(right.with_watermark("u", 0), "k")
    output = joined.write.collect()
    hr.run(output, engine="thread")
    assert output.result()["s"].to_pylist() == text
    assert check([joined.filter(col("t") > rows - 10).write.collect()])


def test_mistakes_say_what_to_do():
    left, right = sides([("a", 0)], [("a", 0, 1.0)])
    for made, said in (
        (lambda: left.asof_join(hr.read.memory({"k": ["a"]}), "k"), "on the right: the stream has"),
        (lambda: left.asof_join(left, "k"), "both streams have a column 't'"),
        (lambda: left.asof_join(right, "k", how="full"), "is not a kind of join"),
        (lambda: left.asof_join(right, "k", tolerance=-1), "is no length of time"),
        (lambda: left.asof_join(right, "k", tolerance="1s"), "is a duration"),
        (lambda: left.asof_join(hr.table({"k": ["a"]}), "k"), "is not a stream"),
    ):
        with pytest.raises(PipelineError, match=said):
            made()
