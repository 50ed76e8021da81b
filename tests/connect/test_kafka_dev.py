"""The broker for development: what the commands say, and what they leave behind."""

import os
import socket
import stat
import subprocess
import sys

import pytest
from tests.broker import free_port

from headrace import cli
from headrace.dev import jars, java, places
from headrace.dev.errors import DevError, Unavailable
from headrace.dev.kafka import Broker

PROGRAM = jars.KAFKA


def fake_java(folder, said, code=0):
    """A program that says something and ends."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit {code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(folder)


def run(capsys, *arguments):
    code = cli.main(["dev", "kafka", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_java_that_is_missing(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"(?s)Kafka \S+: Java 99 or .*apt-get"):
        java.java(99, str(PROGRAM))


def test_a_download_that_is_refused(monkeypatch, tmp_path):
    said = 'openjdk version "17"\n:: UNRESOLVED DEPENDENCIES ::\njava.net.ConnectException: refused'
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path / "java", said))
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(Unavailable, match=r"could not be fetched .*: java\.net\.ConnectException"):
        jars.fetch(PROGRAM)
    assert jars.fetched(PROGRAM) is None
    assert [path.name for path in places.folder().iterdir()] == ["jars.lock"]


def test_without_pyspark_there_is_no_ivy(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    monkeypatch.setattr(jars.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unavailable, match=r"pip install 'pyspark==4|is needed"):
        jars.fetch(PROGRAM)


def test_status_and_down_where_nothing_runs(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    assert run(capsys, "status") == (
        1,
        "Kafka is not running; start it: headrace dev kafka up [--port 9092]\n",
        "",
    )
    assert run(capsys, "down") == (0, "Kafka was not running\n", "")


def test_a_process_id_that_is_someone_elses(tmp_path):
    (tmp_path / "broker.pid").write_text(f'{{"pid": {os.getpid()}, "port": 9092}}')
    broker = Broker(tmp_path)
    assert broker.pid is None
    assert not broker.stop()


def test_a_port_in_use(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    monkeypatch.setattr("headrace.dev.commands.fetched", lambda program: tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, err = run(capsys, "up", "--port", str(port))
    assert code == 1
    assert err == (
        f"headrace: port {port} cannot be used (Address already in use); "
        "choose another with --port\n"
    )


def test_a_broker_that_does_not_start(monkeypatch, tmp_path):
    """Its last words are in the message, and no process stays."""
    said = 'openjdk version "17"\nERROR disk is full'
    home = fake_java(tmp_path / "java", said)
    monkeypatch.setenv("JAVA_HOME", home)
    monkeypatch.setattr("headrace.dev.kafka.fetch", lambda program: tmp_path)
    broker = Broker(tmp_path / "broker", port=free_port())
    with pytest.raises(DevError, match=r"the broker ended with exit code 0; .*ERROR disk is full"):
        broker.start()
    assert broker.pid is None


def test_up_status_down(monkeypatch, tmp_path, capsys):
    """The real thing, as a user does it; the broker outlives the process that started it."""
    try:
        there = jars.fetch(PROGRAM)
    except Unavailable as error:
        pytest.skip(str(error))
    cache = tmp_path / "cache"
    (cache / "dev").mkdir(parents=True)
    (cache / "dev" / there.name).symlink_to(there)
    monkeypatch.setenv("HEADRACE_CACHE", str(cache))
    port = str(free_port())
    command = [sys.executable, "-m", "headrace.cli", "dev", "kafka", "up", "--port", port]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"Kafka {PROGRAM.version} is up at 127.0.0.1:{port} (pid " in done.stdout
        pid = Broker(places.folder() / "kafka").pid
        up = f"Kafka {PROGRAM.version} is up at 127.0.0.1:{port} (pid {pid})\n"
        assert run(capsys, "status") == (0, up, "")
        assert run(capsys, "up") == (0, done.stdout, "")  # it runs: nothing to do
        code, _, err = run(capsys, "up", "--port", str(free_port()))
        assert code == 1 and f"a broker runs at 127.0.0.1:{port}" in err
    finally:
        stopped = run(capsys, "down")
    assert stopped == (0, f"Kafka at 127.0.0.1:{port} is stopped\n", "")
    assert run(capsys, "status")[0] == 1
    assert not (cache / "dev" / "kafka").exists()
    assert not os.path.exists(f"/proc/{pid}/exe")
