"""Spark's Python processes are forked from one that is loaded, and are what Spark asked for."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from headrace.spark import fork_server

SAY = """
import json, os, sys
said = [sys.argv[1:], os.getcwd(), os.environ.get("ASKED"), "headrace.spark.keyed" in sys.modules,
        os.getppid(), __name__]
print(json.dumps(said), flush=True)
line = sys.stdin.readline()
if line == "wait\\n":
    sys.stdin.readline()
sys.exit(int(line or 0))
"""


@pytest.fixture(scope="module")
def script():
    """The Python that Java would start."""
    made = fork_server._script(sys.executable)
    assert made is not None
    return made


@pytest.fixture
def program(tmp_path):
    (tmp_path / "said_module.py").write_text(SAY)

    def run(script, **environment):
        return subprocess.Popen(
            [script, "-m", "said_module", "one", "two words"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return run


def said(process):
    import json

    return json.loads(process.stdout.readline())


def test_a_fork_has_what_it_was_asked_for(script, program, tmp_path):
    process = program(script, ASKED="ü")
    arguments, folder, asked, loaded, parent, name = said(process)
    assert (arguments, folder, asked, name) == (
        ["one", "two words"],
        str(tmp_path),
        "ü",
        "__main__",
    )
    assert loaded and parent != process.pid  # the server's child
    assert process.communicate("7\n", 30) == ("", "")
    assert process.returncode == 7


def test_who_is_told_to_end_tells_its_fork(script, program):
    process = program(script)
    said(process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) != 0
    process.communicate()


@pytest.mark.parametrize("why", ["no server", "other hashes"])
def test_without_a_fork_python_starts_as_ever(why, script, program, tmp_path):
    if why == "no server":
        gone = tmp_path / "python"
        text = open(script).read()
        socket = next(word for word in text.split() if word.endswith("socket"))
        gone.write_text(text.replace(socket, str(tmp_path / "nobody")))
        gone.chmod(0o700)
        process = program(str(gone))
    else:
        process = program(script, PYTHONHASHSEED="12345")
    arguments, _, _, loaded, _, _ = said(process)
    assert arguments == ["one", "two words"] and not loaded
    process.communicate("0\n", 60)
    assert process.returncode == 0


def test_other_arguments_are_not_its_business(script):
    done = subprocess.run([script, "-c", "print(1 + 1)"], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_the_server_ends_with_its_driver():
    program = (
        "import sys; from headrace.spark import fork_server as f\n"
        "made = []; start = f.subprocess.Popen\n"
        "f.subprocess.Popen = lambda *a, **k: made.append(start(*a, **k)) or made[-1]\n"
        "f.begin(); print(made[0].pid, flush=True); sys.stdin.readline()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    driver = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    server = int(driver.stdout.readline())
    driver.kill()
    driver.communicate()
    deadline = time.monotonic() + 60
    while _is_there(server):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _is_there(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_only_what_is_ours_and_local_is_forked(script):
    for master, python, wanted in [
        ("local[2]", sys.executable, script),
        ("spark://somewhere:7077", sys.executable, sys.executable),
        ("local[2]", "/usr/bin/another", "/usr/bin/another"),
    ]:
        context = SimpleNamespace(master=master, pythonExec=python)
        with fork_server.forked_python(context):
            assert context.pythonExec == wanted
        assert context.pythonExec == python
