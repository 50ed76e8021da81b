"""What a job on Spark says, and what it refuses."""

import gc
import traceback

import pyarrow as pa
import pytest
from tests.spark import pipelines

import headrace as hr
from headrace import col
from headrace.asked import engine_named
from headrace.plan.errors import PipelineError, StateError
from headrace.spark.errors import SparkError, carried, carry, of_spark
from headrace.spark.shipment import receive
from headrace.spark.wire import shard_labels


def run(*outputs, session, **options):
    options = {"compiled": False, "batch_rows": 400, "shards": 1, **options}
    return hr.run(*outputs, engine="spark", session=session, **options)


def source():
    return hr.read.memory(pipelines.tables(500, 1, disorder=20)[0])


def reciprocal(at):
    return 100 // max(0, 300 - at)


def picky(state, value):
    state.n += 1
    if value is not None and value == 13:
        raise LookupError("unlucky")
    yield state.n


@pytest.mark.parametrize("stage", ["source", "keyed"])
def test_an_error_in_a_user_function(session, stage):
    """The user's exception, with operator, line and row, in a few lines."""
    if stage == "source":
        made, kind = source().map(reciprocal, output="r", columns=["at"]), ZeroDivisionError
    else:
        keyed = source().key_by("user")
        made = keyed.process(picky, state={"n": 0}, output="n", columns=["value"])
        kind = LookupError
    with pytest.raises(kind) as caught:
        run(made.write.collect(), session=session, compiled=stage == "source")
    said = "".join(traceback.format_exception_only(caught.value))
    assert "in operator" in said
    assert "test_jobs.py" in said
    assert "row: " in said
    assert len(said.splitlines()) <= 15
    assert len(traceback.format_exception(caught.value)) <= 15


def test_checkpoints(session, tmp_path):
    """Done is done; other pipelines and other jobs are refused."""
    checkpoint = tmp_path / "checkpoint"

    def output(size=50):
        windows = source().with_watermark("at", 30).key_by("user").window(hr.tumbling(size))
        return windows.agg(n=hr.count()).write.parquet(tmp_path / "out")

    run(output(), session=session, checkpoint=checkpoint)
    before = sorted(path.name for path in (tmp_path / "out").glob("part-*"))
    again = run(output(), session=session, checkpoint=checkpoint)
    assert again.status == "finished"
    assert again.progress().batches == 0
    assert sorted(path.name for path in (tmp_path / "out").glob("part-*")) == before
    with pytest.raises(StateError, match=r"tumbling\(50\).*tumbling\(70\)"):
        run(output(70), session=session, checkpoint=checkpoint)
    with pytest.raises(StateError, match="source 'source_1' was"):
        other = hr.read.index(5).with_watermark("index", 0).key_by("index")
        made = other.window(hr.tumbling(50)).agg(n=hr.count())
        run(made.write.collect(), session=session, checkpoint=checkpoint)


def test_a_checkpoint_has_one_job(session, tmp_path):
    from headrace.spark.checkpoint import Checkpoint

    held = Checkpoint(tmp_path)
    with pytest.raises(StateError, match="another job runs on the checkpoint"):
        run(source().write.null(), session=session, checkpoint=tmp_path)
    held.close()


def test_sources_that_cannot_be_read_again(session):
    rows = hr.read.iterate(({"n": n} for n in range(3)), schema={"n": int})
    with pytest.raises(PipelineError, match="cannot be read again"):
        run(rows.write.collect(), session=session)


def test_settings_of_a_session(session):
    """Those of a session that we opened are ours; what differs in another one is said."""
    from headrace.spark.session import left_alone

    assert left_alone(session) == []

    class Other:
        class sparkContext:
            getConf = staticmethod(lambda: {"spark.log.level": "INFO"})

    said = left_alone(Other)
    assert any("spark.log.level is INFO, not OFF" in line for line in said)
    assert any("spark.python.daemon.module is not set" in line for line in said)


def test_another_master(session):
    with pytest.raises(SparkError, match="runs already"):
        hr.run(source().write.null(), engine="spark", master="local[7]")


def test_driver_sinks(session, capsys):
    """Null counts in tasks; console and callback get their rows on the driver."""
    seen = []
    kept = source().filter(col("value") > 0)
    null = kept.write.null()
    run(null, kept.write.callback(seen.append), kept.write.console(limit=3), session=session)
    assert null.rows == sum(rows.num_rows for rows in seen) > 0
    assert "user" in capsys.readouterr().out


def test_bad_arguments(monkeypatch):
    with pytest.raises(ValueError, match="engine='flink'"):
        hr.run(source().write.null(), engine="flink")
    monkeypatch.setenv("HEADRACE_ENGINE", "storm")
    with pytest.raises(ValueError, match="HEADRACE_ENGINE=storm"):
        hr.run(source().write.null())
    monkeypatch.delenv("HEADRACE_ENGINE")
    assert engine_named(None) == "spark"
    with pytest.raises(StateError, match="file system"):
        hr.run(source().write.null(), engine="spark", checkpoint="s3://bucket/x")


class Odd(Exception):
    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")


def test_errors_travel():
    error = Odd(1, 2)
    error.add_note("in operator x")
    back = carried(carry(error))
    assert str(back) == "Odd: 1 and 2"
    assert back.__notes__ == ["in operator x"]
    long = "\n".join(["[SOMETHING] Query failed", *["  at java.lang.X"] * 300, "KeyError: 'a'"])
    assert len(str(of_spark(RuntimeError(long))).splitlines()) <= 15
    assert "KeyError" in str(of_spark(RuntimeError(long)))
    ours = "headrace.plan.errors.DataError: a.parquet is gone\n  fix: put it back"
    said = str(of_spark(RuntimeError(f"[FAILED] Traceback:\n  File x\n{ours}\n\n\tat java.X")))
    assert said == "a.parquet is gone\n  fix: put it back"


def left_out(batch):
    return pa.record_batch({"n": pa.array([gc.get_freeze_count()])})


@pytest.mark.filterwarnings("ignore:.*GIL")
def test_workers_do_not_look_through_their_modules(session):
    """Spark's workers collect garbage behind every task: what is loaded once is left out."""
    output = source().map_batches(left_out, schema={"n": int}).write.collect()
    run(output, session=session)
    assert min(output.result()["n"].to_pylist()) > 50_000


def test_labels_fall_into_all_partitions(session):
    """Our copy of Spark's hash is right: each shard has a partition of its own."""
    labels = pa.table({"label": pa.array(shard_labels(7), pa.int32())})
    rows = session.createDataFrame(labels).selectExpr("pmod(hash(label), 7) AS partition")
    assert [row.partition for row in rows.collect()] == list(range(7))


def test_a_plan_is_read_once(tmp_path):
    from headrace.asked import planned
    from headrace.spark.shipment import Shipment, send, without_sinks

    plan = planned([pipelines.counted(source()).write.collect()])
    values = {"staged": {}, "channels": {}, "shards": 2, "checkpoint": "c", "batch_rows": 1}
    more = {"tasks": 1, "stop_file": "", "times": "", "state": "", "capacity": 8, "compiled": False}
    address = send(Shipment(without_sinks(plan.stages()), **values, **more), tmp_path)
    assert receive(address) is receive(address)
    assert [len(level) for level in receive(address).levels] == [1]
