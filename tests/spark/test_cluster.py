"""A real cluster: a worker is killed in the middle of a job, and nothing is lost or twice."""

import os
import stat
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from tests.spark import cluster_job

from headrace import cli
from headrace.dev.cluster import Cluster
from headrace.dev.errors import DevError
from headrace.dev.processes import free_port, is_alive
from headrace.spark import cluster_secret

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)  # workers have what the driver sends them
    made = Cluster(tmp_path / "cluster", port=free_port(), dies_with_us=True)
    made.start(workers=2)
    yield made
    made.remove()


def below(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def committed(folder: Path) -> int:
    return sum(path.name.isdigit() for path in (folder / "checkpoint/spark/commits").glob("*"))


def check_closed(cluster) -> None:
    """Who does not know the secret stays outside, and nobody else can look at it."""
    secret = cluster_secret.secret_of(cluster.url)
    assert len(secret) >= 32
    for pid in cluster.pids.values():
        process = psutil.Process(pid)
        said = " ".join(process.cmdline())
        assert "-Dspark.authenticate=true" in said and secret not in said
        assert "-Dspark.master.rest.enabled=false" in said
        listening = [c.laddr for c in process.net_connections("tcp") if c.status == "LISTEN"]
        assert listening
        assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
        assert 6066 not in [address.port for address in listening]
    assert stat.S_IMODE(cluster.folder.stat().st_mode) == 0o700


@pytest.mark.timeout(600)
def test_a_worker_is_killed(cluster, tmp_path):
    assert cluster.status().workers == 2
    check_closed(cluster)
    with pytest.raises(DevError, match=r"runs at .* already"):
        cluster.start()
    command = [sys.executable, "-m", "tests.spark.cluster_job", cluster.url, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    job = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        while job.poll() is None and committed(tmp_path) < 2:
            time.sleep(0.05)
        assert job.poll() is None, job.stdout.read()[-3000:]
        killed = below(cluster.pids["worker 1"])
        assert len(killed) > 1  # with its executor
        for process in killed:
            process.kill()
        said = job.communicate(timeout=400)[0]
    finally:
        job.kill()
        job.wait()
    lines = said.splitlines()
    assert lines[0] == f"finished {cluster_job.ROWS}", said[-3000:]
    found = Counter()
    for path in (tmp_path / "out").glob("part-*.parquet"):
        for row in pq.read_table(path).to_pylist():
            found[row["key"], row["window_start"]] += row["n"]
    size = cluster_job.SIZE
    assert found == Counter((k % 7, k // size * size) for k in range(cluster_job.ROWS))
    # A DataFrame on the cluster, and an error in one of its tasks.
    assert lines[1] == "[0, 1, 2, 3, 4]"
    error = lines[lines.index("Traceback (most recent call last):") :]
    assert len([line for line in error if line.strip()]) <= 15
    assert "ZeroDivisionError: integer division or modulo by zero" in error
    assert any("in operator" in line for line in error)
    assert any("row: id=70" in line for line in error)
    assert cluster.status().workers <= 2
    left = [process for pid in cluster.pids.values() for process in below(pid)]
    assert cluster.stop()
    assert cluster_secret.secret_of(cluster.url) is None
    assert not any(is_alive(process) for process in [*left, *killed])


def test_commands_where_nothing_runs(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    assert cli.main(["cluster", "status"]) == 1
    assert "no cluster is running" in capsys.readouterr().out
    assert cli.main(["cluster", "down"]) == 0
    assert "no cluster was running" in capsys.readouterr().out


def test_a_cluster_that_does_not_start(monkeypatch, tmp_path):
    """Its last words are in the message, and no process stays."""
    script = tmp_path / "spark-class"
    script.write_text("#!/bin/sh\necho 'no memory left'\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr("headrace.dev.cluster._spark_class", lambda: str(script))
    made = Cluster(tmp_path / "cluster", port=free_port())
    with pytest.raises(DevError, match=r"the master ended; .*no memory left"):
        made.start()
    assert made.pids == {}
