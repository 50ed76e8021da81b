"""The order in which sinks see rows on Spark is the one that `explain` says."""

import headrace as hr
from headrace import col


def jumps(state, n):
    """Depends on the order of the rows of its key."""
    state.last, before = n, state.last
    yield n - before


def test_rows_of_a_channel_and_of_each_key_are_in_order(session):
    """Many batches, several tasks that read one channel, three shards."""
    rows = hr.read.index(1500)
    outputs = [
        rows.filter(col("index") % 3 != 0).write.collect(),
        rows.with_columns(k=col("index") * col("index") % 11)
        .key_by("k")
        .process(jumps, state={"last": int}, output="jump", columns=["index"])
        .with_ordering("key")
        .write.collect(),
        rows.filter(col("index") % 3 != 0)  # branches, by row
        .union(rows.select(index=-1 - col("index")))
        .write.collect(),
    ]
    hr.run(*outputs, engine="thread", compiled=False)
    expected = [output.result().to_pylist() for output in outputs]
    job = hr.run(
        *outputs, engine="spark", session=session, compiled=False, shards=3, batch_rows=400
    )
    assert job.progress().batches >= 3
    assert outputs[0].result().to_pylist() == expected[0]
    assert outputs[2].result().to_pylist() == expected[2]
    found = outputs[1].result().to_pylist()
    assert len(found) == len(expected[1])
    assert sorted(found, key=_key) == sorted(expected[1], key=_key)


def _key(row):
    return row["k"]  # sorting is stable: the rows of a key stay as they came
