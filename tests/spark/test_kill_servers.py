"""kill -9 of a job, and PostgreSQL and Kafka that stop and come back: nothing lost or twice."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from tests.broker import new_topic
from tests.counts import count
from tests.naive import rows_of
from tests.running import assert_same
from tests.spark.served_job import COLUMNS, ROWS, counted
from tests.spark.test_kill import committed, in_postgres, kill_tree

import headrace as hr

pgserver = pytest.importorskip("pgserver")
pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]


def start(folder: Path, *places: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.spark.served_job", str(folder), *places]
    return subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def await_batch(process: subprocess.Popen, folder: Path) -> bool:
    """Wait until one more batch is committed; False if the job ended before."""
    before = committed(folder)
    while process.poll() is None and committed(folder) <= before:
        time.sleep(0.02)
    return process.poll() is None


def restart(server, broker) -> None:
    """PostgreSQL stops at once, as in a crash, Kafka in order; both come back."""
    pid = server.get_pid()
    os.kill(pid, signal.SIGQUIT)  # "immediate shutdown"
    broker.stop()
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=60)
    server.ensure_postgres_running()
    broker.start()
    count("restart of PostgreSQL and Kafka")


@pytest.fixture
def server():
    folder = tempfile.mkdtemp(prefix="postgres")
    os.chmod(folder, 0o755)  # where we are root, the server is somebody else
    made = pgserver.get_server(folder, cleanup_mode="delete")
    yield made
    made.cleanup()


@pytest.mark.parametrize("when", ["behind the job", "under the job"])
def test_kills_and_restarts_of_servers(tmp_path, server, broker, when):
    """The servers restart when the job is killed, or while it runs, before it is killed."""
    topic = new_topic(broker, partitions=2)
    places = server.get_uri(), broker.servers, topic
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    process = start(tmp_path, *places)
    assert await_batch(process, tmp_path), process.stdout.read().decode()[-2000:]
    time.sleep(chance.uniform(0, 1.0))
    if when == "under the job":
        restart(server, broker)
        time.sleep(chance.uniform(0, 2.0))
    if process.poll() is None:
        kill_tree(process)
        count("kill -9 of a job with PostgreSQL and Kafka")
    process.stdout.close()
    if when == "behind the job":
        restart(server, broker)
    said = start(tmp_path, *places).communicate()[0].decode()
    assert said.startswith("finished"), said[-2000:]
    check(*places)


def check(url: str, servers: str, topic: str) -> None:
    """Exactly the rows of a run on the thread, in the table and in the topic."""
    expected = counted().write.collect()
    sent = hr.read.kafka(servers, topic, schema=COLUMNS, stop="latest").write.collect()
    hr.run(expected, sent, engine="thread", compiled=False)
    rows = rows_of(expected.result())
    assert sum(row["n"] for row in rows) == ROWS
    assert_same(rows_of(sent.result()), rows, ordered=False)
    assert_same(in_postgres(url, "counted", list(COLUMNS)), rows, ordered=False)
