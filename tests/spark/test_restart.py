"""Jobs that go on from a checkpoint: with other shards, another filter, after the end."""

import pytest
from tests.naive import naive, rows_of
from tests.running import assert_same
from tests.spark import pipelines

import headrace as hr
from headrace import col
from headrace.plan.errors import StateError


def run(outputs, session, checkpoint, *, batches=None, **options):
    """Run to the end, or stop once so many batches are done."""

    def watch(job):
        if batches is not None and job.progress().batches >= batches:
            job.stop()

    options = {"compiled": False, "batch_rows": 150, "watch": watch, **options}
    return hr.run(*outputs, engine="spark", session=session, checkpoint=checkpoint, **options)


def outputs(source, keep):
    """Several kinds of state; `keep` may add a filter."""
    return [
        pipelines.slid(keep(source)).write.collect(),
        pipelines.visited(keep(source)).write.collect(),
        pipelines.counted(keep(source)).write.collect(),
        pipelines.processed(keep(source)).write.collect(),
        pipelines.recounted(keep(source)).write.collect(),
    ]


def test_other_shards_and_a_new_filter(session, tmp_path):
    """State goes to its new owners; what has no state may change."""
    source = hr.read.memory(pipelines.tables(450, 1, disorder=20)[0])
    found = [[], [], [], [], []]
    changes = [
        (2, lambda stream: stream),
        (1, lambda stream: stream.filter(col("at") > -1000)),
    ]
    for number, (shards, keep) in enumerate(changes):
        made, last = outputs(source, keep), number == len(changes) - 1
        job = run(made, session, tmp_path, shards=shards, batches=None if last else 1)
        assert job.status == "finished" if last else "stopped"
        assert not list(tmp_path.glob("moved-*"))  # the shards of now have all saved their own
        for rows, output in zip(found, made):
            rows.extend(rows_of(output.result()))
    for one, other in zip(found, naive(made), strict=True):
        assert_same(one, other, ordered=False)
    again = run(outputs(source, changes[0][1]), session, tmp_path, shards=4)
    assert (again.status, again.progress().batches) == ("finished", 0)


def test_what_has_state_may_not_change(session, tmp_path):
    """The message says what has changed, and how to go on."""
    source = hr.read.memory(pipelines.tables(300, 1, disorder=20)[0])
    run([pipelines.processed(source).write.null()], session, tmp_path, shards=1, batches=1)

    def other(state, value):
        state.count += 1
        yield state.count

    by_user = source.key_by("user")
    changed = by_user.process(other, state={"count": 0.0}, output="n", columns=["value"])
    with pytest.raises(StateError, match=r"process.*'count': 'int64'.*'count': 'float64'.*\n.*fix"):
        run([changed.write.null()], session, tmp_path)
    with pytest.raises(StateError, match="operator 'process_1' is gone"):
        run([source.write.null()], session, tmp_path)
