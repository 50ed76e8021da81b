"""Operators that share one query on Spark give what the reference gives, over several batches."""

from tests.naive import naive, rows_of
from tests.running import assert_same
from tests.spark import pipelines

import headrace as hr
from headrace import col


def test_operators(session):
    rows = hr.read.memory(pipelines.tables(600, 1, disorder=30, seed=4)[0])
    stream = rows.with_watermark("at", 10)
    made = {
        "limit": stream.limit(123),
        "dedup": stream.dedup("user", "value"),
        "dedup within": stream.dedup("user", within=100),
        "distinct": stream.key_by("user")
        .window(hr.tumbling(200))
        .agg(n=hr.count_distinct("value")),
        "slid": stream.window(hr.sliding(200, every=100)).agg(n=hr.count_distinct("user")),
        "running": stream.key_by("user").running(n=hr.count(), total=hr.sum("value")),
        "counted": stream.key_by("user").window(hr.counting(7)).agg(last=hr.last("value")),
        "kept": stream.key_by("user").window(hr.tumbling(50, lateness=40)).agg(n=hr.count()),
        "early": stream.key_by("user").window(hr.tumbling(50, early=20)).agg(n=hr.count()),
        "early rows": stream.key_by("user")
        .window(hr.tumbling(50, early=hr.counting(3), lateness=40))
        .agg(last=hr.last("value")),
        "lists": stream.key_by("user")
        .window(hr.sliding(200, every=100))
        .agg(all=hr.collect("value", 50, on_full="first"), top=hr.top_k("value", 3, by="at")),
        "everything": rows.agg(n=hr.count_distinct("value"), m=hr.count_distinct("user")),
    }
    outputs = [each.write.collect(name=name) for name, each in made.items()]
    hr.run(*outputs, engine="spark", session=session, compiled=False, batch_rows=250, shards=2)
    for output, expected in zip(outputs, naive(outputs), strict=True):
        assert_same(rows_of(output.result()), expected, ordered=False)


def test_times_of_the_far_future(session):
    (table,) = pipelines.tables(600, 1, disorder=30, seed=5)
    times = [10**9 if k % 100 == 50 else at for k, at in enumerate(table["at"].to_pylist())]
    stream = hr.read.memory(table.set_column(1, "at", [times])).with_watermark(
        "at", 30, latest=10**6
    )
    counted = stream.key_by("user").window(hr.tumbling(50)).agg(n=hr.count())
    outputs = [counted.write.collect(), counted.late().write.collect()]
    job = hr.run(
        *outputs, engine="spark", session=session, compiled=False, batch_rows=250, shards=2
    )
    for output, expected in zip(outputs, naive(outputs), strict=True):
        assert_same(rows_of(output.result()), expected, ordered=False)
    assert job.progress().late_rows == 6


def test_sketches(session):
    rows = hr.read.memory(pipelines.tables(600, 2, disorder=30, seed=4))
    stream = rows.with_watermark("at", 30).window(hr.sliding(400, every=200))
    made = stream.agg(
        about=hr.approx_count_distinct("value", 0.1), top=hr.quantile("at", 0.9, error=0.05)
    )
    outputs = [made.write.collect(), made.write.collect()]
    hr.run(outputs[0], engine="spark", session=session, compiled=False, batch_rows=250, shards=2)
    hr.run(outputs[1], engine="thread", compiled=False)
    on_spark, on_thread = (rows_of(output.result()) for output in outputs)
    assert_same(on_spark, on_thread, ordered=False)


def test_joins(session):
    left, right = (
        hr.read.memory(pipelines.tables(300, channels, disorder=30, seed=channels), name=name)
        for channels, name in ((1, "left"), (2, "right"))
    )
    left = left.with_watermark("at", 10)  # some rows are late
    right = right.rename(at="then", value="other").with_watermark("then", 30)
    single = hr.read.memory(pipelines.tables(300, 1, disorder=30, seed=3)[0], name="single")
    single = single.rename(at="then", value="other").with_watermark("then", 20)
    made = {
        "inner": left.window_join(right, "user", hr.tumbling(50)),
        "full": left.window_join(right, "user", hr.tumbling(20), how="full"),
        "near": left.interval_join(right, "user", before=5, after=20, how="left"),
        "as of": left.asof_join(single, "user", tolerance=40, how="left"),
    }
    outputs = [each.write.collect(name=name) for name, each in made.items()]
    hr.run(*outputs, engine="spark", session=session, compiled=False, batch_rows=250, shards=2)
    for output, expected in zip(outputs, naive(outputs), strict=True):
        assert expected
        assert_same(rows_of(output.result()), expected, ordered=False)


def _seen(state, at):
    state.n += 1
    state.due = at + 15


def _silent(state, at):
    yield at, state.n


def test_timers(session):
    """From batch to batch, rows and timers that wait lie in the checkpoint, and so do states."""
    rows = pipelines.tables(600, 2, disorder=30, seed=9)
    keyed = hr.read.memory(rows).with_watermark("at", 10).key_by("user")
    state = {"n": int, "due": int | None}
    made = keyed.process(_seen, state=state, output=["at", "n"], timers={"due": _silent}, ttl=20)
    outputs = [made.write.collect(), made.late().write.collect()]
    hr.run(*outputs, engine="spark", session=session, compiled=False, batch_rows=150, shards=2)
    for output, expected in zip(outputs, naive(outputs), strict=True):
        assert expected
        assert_same(rows_of(output.result()), expected, ordered=False)


def test_streams_by_time(session):
    """One shard has them all, and a sink sees them in their order."""
    one, two = (
        hr.read.memory(pipelines.tables(300, 1, disorder=20, seed=seed)).with_watermark("at", 5)
        for seed in (1, 2)
    )
    merged = one.merge(two)
    last = merged.key_by("user").window(hr.tumbling(50)).agg(last=hr.last("value"))
    outputs = [each.write.collect() for each in (merged, two.sort_by_time(), merged.late(), last)]
    hr.run(*outputs, engine="spark", session=session, compiled=False, batch_rows=120, shards=2)
    for k, (output, expected) in enumerate(zip(outputs, naive(outputs), strict=True)):
        assert expected
        assert_same(rows_of(output.result()), expected, ordered=k < 2)


def _few_aside(state, at):
    state.n += 1
    if state.n % 3 == 0:
        yield hr.aside("thirds", at, "the third one")
    yield state.n


def _silent_aside(state, at):
    yield at, state.n
    yield hr.aside("silent", state.n)


def test_several_outputs(session):
    rows = hr.read.memory(pipelines.tables(600, 1, disorder=30, seed=8)).with_watermark("at", 10)
    keyed = rows.key_by("user").process(
        _few_aside, state={"n": int}, output="n", asides={"thirds": ["at", "what"]}
    )
    timed = rows.key_by("user").process(
        _seen, state={"n": int, "due": int | None}, output=["at", "n"],
        timers={"due": _silent_aside}, asides={"silent": "n"},
    )  # fmt: skip
    made = [keyed, keyed.aside("thirds"), timed, timed.aside("silent"), timed.late()]
    outputs = [each.write.collect() for each in made]
    hr.run(*outputs, engine="spark", session=session, compiled=False, batch_rows=250, shards=2)
    for output, expected in zip(outputs, naive(outputs), strict=True):
        assert expected
        assert_same(rows_of(output.result()), expected, ordered=False)


def test_rows_that_fail(session):
    stream = hr.read.memory(pipelines.tables(600, 2, disorder=30, seed=6)).with_watermark("at", 30)
    whole = {"on_error": "dead_letter"}
    divided = stream.with_columns(q=1000 // (col("at") % 7), name="divided", **whole)
    keyed = divided.key_by("user").process(
        _few, state={"n": int}, output="n", name="keyed", **whole
    )
    made = {
        "quotients": divided,
        "windows": divided.key_by("user").window(hr.tumbling(50)).agg(n=hr.sum("q")),
        "failed": divided.dead_letters().select("user", "at", "error_operator"),
        "failed by key": keyed.dead_letters().select("user", "q", "error_operator"),
        "skipped": stream.filter(10 // (col("at") % 3) > 4, on_error="skip"),
    }
    outputs = [each.write.collect(name=name) for name, each in made.items()]
    job = hr.run(
        *outputs, engine="spark", session=session, compiled=False, batch_rows=250, shards=2
    )
    by_name = dict(zip(made, naive(outputs), strict=True))
    for output, expected in zip(outputs, by_name.values(), strict=True):
        assert expected
        assert_same(rows_of(output.result()), expected, ordered=False)
    skipped = sum(row["at"] % 3 == 0 for row in naive([stream.write.collect()])[0])
    failed = len(by_name["failed"]) + len(by_name["failed by key"]) + skipped
    assert job.progress().failed_rows == failed


def _few(state, q):
    state.n += 1
    yield state.n
    if q % 2 == 0:
        raise ValueError("an even one")
