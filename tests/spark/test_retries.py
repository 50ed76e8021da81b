"""Tasks that fail, tasks that are tried again, and tasks that run twice: the rows stay exact."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.naive import naive, rows_of
from tests.running import assert_same
from tests.spark import pipelines
from tests.spark.failing import FailingSink, FailingSource
from tests.spark.shards import Engine

import headrace as hr


def check(folder, stream):
    """The folder has the rows of the reference, and nothing is left over."""
    found = pa.concat_tables([pq.read_table(path) for path in folder.glob("part-*.parquet")])
    (expected,) = naive([stream.write.collect()])
    assert_same(rows_of(found), expected, ordered=False)
    assert not list(folder.glob("_staging/*"))


def test_tasks_that_fail_are_tried_again(session, tmp_path):
    """In every batch, before and behind the exchange, while other stages have saved their state."""
    marks = tmp_path / "marks"
    marks.mkdir()
    tables = pipelines.tables(300, 1, disorder=20)
    source, good = hr.read.source(FailingSource(tables, marks)), hr.read.memory(tables)
    kinds = {
        "stateless": pipelines.stateless,
        "counted": pipelines.counted,
        "processed": pipelines.processed,
    }
    outputs = [kinds["stateless"](source).write.parquet(tmp_path / "stateless")]
    for name in ("processed", "counted"):
        folder = tmp_path / name
        outputs.append(kinds[name](source).write.to(FailingSink(folder, marks)))
    job = hr.run(
        *outputs, engine="spark", session=session, compiled=False, shards=1, batch_rows=150
    )
    failed = [path.name.split("-")[0] for path in marks.iterdir()]
    assert failed.count("read") >= 2 and failed.count("write") >= 4
    assert job.progress().rows_in == 300
    for name, build in kinds.items():
        check(tmp_path / name, build(good))


def test_a_task_that_always_fails(session, tmp_path):
    """The job ends with the error itself, as on every other engine."""

    class Gone(FailingSource):
        def open(self, channel, start=None, stop=None, columns=None, predicate=None):
            if stop is not None:
                raise OSError("the network is gone for good")
            return super().open(channel, start, stop, columns, predicate)

    source = hr.read.source(Gone(pipelines.tables(50, 1, disorder=20), tmp_path))
    with pytest.raises(OSError) as caught:
        hr.run(source.write.null(), engine="spark", session=session, compiled=False, shards=1)
    assert str(caught.value) == "the network is gone for good"


@pytest.mark.parametrize("counts", ["first", "second"])
def test_tasks_that_run_twice(tmp_path, counts):
    """Both attempts stage all they have and save their state; one of them counts."""
    source = hr.read.memory(pipelines.tables(300, 2, disorder=20))
    streams = {"stateless": pipelines.stateless(source), "recounted": pipelines.recounted(source)}
    outputs = [stream.write.parquet(tmp_path / name) for name, stream in streams.items()]
    engine = Engine([], tmp_path, 100, shards=2, outputs=outputs)
    while not engine.has_ended:
        planned = engine.plan()
        first = engine.batch(planned)
        saved = tmp_path / "saved"
        shutil.copytree(tmp_path / "state", saved)
        second = engine.batch(planned)
        if counts == "first":  # the other attempt's files stay, the list is the first one's
            shutil.copytree(saved, tmp_path / "state", dirs_exist_ok=True)
        shutil.rmtree(saved)
        engine.commit(*(first if counts == "first" else second))
    for name, stream in streams.items():
        check(tmp_path / name, stream)
