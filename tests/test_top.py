"""`headrace top`: jobs of other processes tell how they are, to their own user alone."""

import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time

import pytest
from rich.console import Console

import headrace as hr
from headrace.cli import main
from headrace.observe import notice, top

SLOW = """
import headrace as hr
rows = hr.read.index(rate=200).filter(hr.col("index") % 2 == 0)
hr.run(rows.write.null(), engine="{engine}", compiled=False, seconds=120)
"""


@pytest.fixture(autouse=True)
def runtime(tmp_path, monkeypatch):
    """A place for notices that no other job has."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def job(tmp_path):
    program = tmp_path / "slow.py"
    program.write_text(SLOW.format(engine="thread"))
    process = subprocess.Popen([sys.executable, str(program)])
    yield process
    process.kill()
    process.wait()


def told(seconds=60.0):
    """What jobs tell, as soon as there is one."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = list(notice.running())
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("no job tells anything")


def test_a_job_of_another_process_is_seen_and_forgotten_when_it_is_killed(job, capsys):
    ((name, first),) = told()
    assert first["job"] == f"slow.py, process {job.pid}" and first["status"] == "running"
    path = notice.folder() / name
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert main(["top", "--seconds", "1.1", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) >= 2 and lines[-1]["rows_in"] > lines[0]["rows_in"] >= first["rows_in"]
    assert lines[-1]["rows_per_second"] > 0 and "filter_1" in lines[-1]["operators"]
    assert main(["top", "--seconds", "0"]) == 0
    assert f"slow.py, process {job.pid}: running" in capsys.readouterr().out
    assert main(["graph"]) == 0
    assert re.search(r"filter filter_1<br/>.*<br/>[\d.]+ → [\d.]+ rows/s", capsys.readouterr().out)
    drawn = io.StringIO()
    assert top.watch(0, console=Console(file=drawn, force_terminal=True, width=120))
    assert "filter_1" in drawn.getvalue() and "rows in" in drawn.getvalue()
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    assert main(["top", "--seconds", "0"]) == 1
    assert top.NOBODY in capsys.readouterr().err
    assert main(["graph"]) == 1 and "no job runs here" in capsys.readouterr().err
    assert not path.exists()


def test_a_job_that_ends_takes_its_notice_with_it(runtime):
    out = hr.read.index(rate=100).write.null()
    one, other = (hr.start(out, engine="thread", compiled=False) for _ in range(2))
    until = time.monotonic() + 60
    while len(found := list(notice.folder().iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    assert len(found) == 2
    one.stop(timeout=30)
    other.cancel(timeout=30)
    assert not list(notice.running()) and not list(notice.folder().iterdir())


def test_who_asks_and_goes_or_waits_does_no_harm(monkeypatch):
    """A job answers a client that reads nothing, and goes on."""
    job = hr.start(hr.read.index(rate=100).write.null(), engine="thread", compiled=False)
    ((name, _),) = told()
    for _ in range(3):
        with notice.socket.socket(notice.socket.AF_UNIX) as client:
            client.connect(str(notice.folder() / name))
    before = job.progress().rows_in
    assert told()[0][1]["rows_in"] >= before
    job.stop(timeout=30)
    assert job.status == "stopped"


def test_a_folder_of_others_is_not_used(runtime):
    notice.folder().chmod(0o755)
    with pytest.raises(PermissionError, match="not a folder of this user alone"):
        notice.folder()
    job = hr.start(hr.read.index(rate=100).write.null(), engine="thread", compiled=False)
    time.sleep(notice.FIRST_SECONDS + 2 * notice.LOOK_SECONDS)
    job.stop(timeout=30)
    assert job.status == "stopped" and not list(runtime.glob("headrace-jobs-*/*"))
    assert main(["top", "--seconds", "0"]) != 0
