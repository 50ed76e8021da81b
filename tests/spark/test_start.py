"""Starting: what a terminal shows, jobs in the background, options that Spark has not."""

import os
import pty
import subprocess
import sys
import time

import psutil
import pytest
from tests.naive import naive, rows_of
from tests.running import assert_same
from tests.spark import pipelines

import headrace as hr
from headrace.spark import alive as alive_module
from headrace.spark.alive import alive
from headrace.spark.errors import SparkError, is_busy, of_spark
from headrace.spark.session import attempts, open_session, with_retries

OPTIONS = {"engine": "spark", "compiled": False, "shards": 1}


def source():
    return hr.read.memory(pipelines.tables(500, 1, disorder=20)[0])


# ---- hr.start ----------------------------------------------------------------------------------


def test_a_job_in_the_background(session):
    output = pipelines.counted(source()).write.collect()
    job = hr.start(output, session=session, batch_rows=200, **OPTIONS)
    assert job.await_termination(200)
    assert (job.status, job.is_over, job.error) == ("finished", True, None)
    (expected,) = naive([output])
    assert_same(rows_of(output.result()), expected, ordered=False)


@pytest.mark.parametrize("way", ["stop", "cancel"])
def test_an_endless_job_in_the_background(session, way):
    output = hr.read.index(rate=5000).write.collect()
    job = hr.start(output, session=session, **OPTIONS)
    while job.progress().batches < 2:
        time.sleep(0.05)
        assert not job.is_over
    assert not job.await_termination(0.01)
    ended = job.stop if way == "stop" else job.cancel
    assert ended(timeout=120)
    assert job.status == ("stopped" if way == "stop" else "cancelled")
    found = output.result()["index"].to_pylist()
    assert found == list(range(len(found)))


def divide(n):
    return 10 // (n - 3)


def test_a_job_in_the_background_that_fails(session):
    output = hr.read.memory({"n": [1, 2, 3]}).map(divide, output="m").write.null()
    job = hr.start(output, session=session, **OPTIONS)
    with pytest.raises(ZeroDivisionError) as caught:
        job.await_termination(200)
    assert job.status == "failed" and job.error is caught.value


@pytest.mark.parametrize("run", [hr.run, hr.start])
def test_shards_that_cannot_be(run):
    with pytest.raises(ValueError, match="there is at least one"):
        run(source().write.null(), engine="spark", shards=0)


# ---- what a terminal shows ---------------------------------------------------------------------


def test_a_line_on_the_terminal(monkeypatch):
    """It counts seconds, and is gone in the end; without a terminal there is none."""
    monkeypatch.setattr(alive_module, "FIRST_SECONDS", 0.0)
    master, terminal = pty.openpty()
    monkeypatch.setattr(alive_module, "STANDARD_ERROR", terminal)
    with alive("starting Spark") as shown:
        said = os.read(master, 1000)
        assert b'starting Spark: 0 s (engine="node" needs none)' in said
        shown.end()
        while not said.endswith(alive_module.CLEAR):
            said += os.read(master, 1000)
    reading, writing = os.pipe()
    monkeypatch.setattr(alive_module, "STANDARD_ERROR", writing)
    with alive("starting Spark") as shown:
        assert shown is None
    os.close(writing)
    assert os.read(reading, 10) == b""
    for descriptor in (master, terminal, reading):
        os.close(descriptor)


PROGRAM = """
import headrace as hr
out = hr.read.memory({"n": [1, 2, 3]}).write.null()
if __name__ == "__main__":
    hr.run(out, engine="spark", master="local[1]", compiled=False)
    from headrace.spark.session import close_session
    close_session()
"""


@pytest.mark.parametrize("how", ["hr.run", "headrace run"])
def test_spark_starts_on_a_terminal(tmp_path, how):
    """In a program and by the command, it says what it waits for."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    command = [sys.executable, str(path)]
    if how == "headrace run":
        command = [sys.executable, "-m", "headrace.cli", "run", str(path), "--engine", "spark"]
        command += ["--master", "local[1]"]
    master, terminal = pty.openpty()
    job = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=terminal,
    )
    os.close(terminal)
    said = b""
    while True:
        try:
            said += os.read(master, 10_000)
        except OSError:  # all who could write are gone
            break
    os.close(master)
    assert job.wait(60) == 0, said.decode()
    assert b"starting Spark: " in said and b'(engine="node" needs none)' in said
    assert said.rstrip(b"\r\n").endswith(alive_module.CLEAR)


# ---- a machine with much to do -----------------------------------------------------------------

SLOW = """#!/bin/sh
case "$*" in *python_streaming_source_runner*)
  if mkdir "{mark}" 2>/dev/null; then sleep 60; fi;;
esac
exec "{python}" "$@"
"""
BUSY = """
import sys
sys.executable = {slow!r}
import headrace as hr
out = hr.read.memory({{"n": [1, 2, 3]}}).write.collect()
job = hr.run(out, engine="spark", master="local[1]", compiled=False)
print(job.status, out.result()["n"].to_pylist())
from headrace.spark.session import close_session
close_session()
"""


def test_a_python_process_that_is_slow_to_start(tmp_path):
    """Spark gives it ten seconds, and then up; the job begins once more, and goes on."""
    slow = tmp_path / "python"
    slow.write_text(SLOW.format(mark=tmp_path / "mark", python=sys.executable))
    slow.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", BUSY.format(slow=str(slow))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.stdout.strip() == "finished [1, 2, 3]", done.stderr[-3000:]
    assert (tmp_path / "mark").exists()


def test_a_machine_that_stays_busy():
    error = RuntimeError("[STREAM_FAILED] Python worker failed to connect back. SQLSTATE: XXKST")
    assert is_busy(error)
    assert isinstance(of_spark(error), SparkError)
    assert "too much to do" in str(of_spark(error)) and "fix: " in str(of_spark(error))


def test_tasks_are_tried_again_in_local_mode(session):
    assert attempts(session.sparkContext) == 3  # as the tests' own session was asked to
    assert with_retries("local[*]") == "local[*,4]"
    assert open_session("local[2]", None).sparkContext is session.sparkContext
    assert open_session("local[2,9]", None).sparkContext is session.sparkContext


def test_spark_listens_to_this_machine_alone(session):
    """All ports of a local Spark are on the loopback address."""
    java = psutil.Process(session.sparkContext._gateway.proc.pid)
    here = psutil.Process()
    found = [
        connection.laddr.ip
        for process in (here, java, *java.children(recursive=True))
        for connection in process.net_connections("tcp")
        if connection.status == "LISTEN"
    ]
    assert found
    assert {address.removeprefix("::ffff:") for address in found} <= {"127.0.0.1", "::1"}
