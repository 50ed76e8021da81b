"""A process with all our modules loaded, from which Spark's Python processes are forked.

Spark starts a Python for the planner of every query, one to ask for a schema, and a parent of the
workers that run tasks. Each loads PySpark (from a zip file, as source), Arrow, Numba and headrace:
a second before a first row. Here they are loaded once, while Java starts. Java is given a small
script for a Python (`launch.py`), which asks for a fork by a socket that only this user can reach.

The server lives as long as the driver's process. Without it, all starts as Spark would have it.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from .launch import LENGTH
from .package import is_local
from .temporary import folder_of_process

HASHING = "PYTHONHASHSEED"  # what Spark sets for all its Pythons; a fork cannot change it
# What the processes of Spark run, besides `daemon.load_all`.
MODULES = (
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.create_data_source",
    "headrace.connect.parquet_files",
)


# ---- in the driver ---------------------------------------------------------------------------


@contextmanager
def forked_python(context: Any) -> Iterator[None]:
    """What is handed to Spark meanwhile runs in forks of the server, where that can be.

    context: Spark's, with the name of the Python that its functions run in.
    """
    wanted = context.pythonExec
    script = _script(wanted) if is_local(context.master or "local") else None
    if script is None:
        yield
        return
    context.pythonExec = script
    try:
        yield
    finally:
        context.pythonExec = wanted


def begin() -> None:
    """Start the server, if it is not there: it loads while others are busy."""
    _script(sys.executable)


@cache
def _script(python: str) -> str | None:
    """What Java starts instead of a Python; None where a fork of ours would be another one."""
    if python != sys.executable or not hasattr(os, "fork"):
        return None
    folder = folder_of_process("headrace-python-")
    path = folder / "socket"
    try:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
    except OSError:  # the name of the folder is too long for a socket
        return None
    listener.listen()
    with listener:
        _start(listener)
    launch = Path(__file__).with_name("launch.py")
    words = [python, "-ISE", str(launch), str(path), python]
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    script.chmod(0o700)
    return str(script)


def _start(listener: socket.socket) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", __name__, str(listener.fileno())],
        stdin=subprocess.PIPE,  # closed when the driver ends, however it does
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[listener.fileno()],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONUNBUFFERED": "YES",  # as Spark has it
            HASHING: os.environ.get(HASHING, "0"),
        },
    )
    driver = os.getpid()

    def end() -> None:
        if os.getpid() == driver:
            server.kill()  # those that it forked live as long as Java wants them
            server.wait()

    atexit.register(end)


# ---- in the server, and in what it forks ------------------------------------------------------


def serve(listener: socket.socket) -> tuple[socket.socket, list[str]] | None:
    """Fork a process for everyone who asks. Gives who asked and what to run in each of them, and
    None at the end."""
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return None
        asker, _ = listener.accept()
        if os.fork():
            asker.close()
            continue
        listener.close()
        return asker, _take_over(asker)


def _take_over(asker: socket.socket) -> list[str]:
    """Become the process that somebody has asked for; what it is to run."""
    length, streams, _, _ = socket.recv_fds(asker, LENGTH, 3)
    left, parts = int.from_bytes(length, "big"), []
    while left:
        parts.append(asker.recv(left))
        left -= len(parts[-1])
        if not parts[-1]:
            os._exit(1)  # who asked is gone
    arguments, environment, folder = json.loads(b"".join(parts))
    if environment.get(HASHING, os.environ[HASHING]) != os.environ[HASHING]:
        os._exit(1)  # it helps itself
    for stream, own in enumerate(streams):
        os.dup2(own, stream)
        os.close(own)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    known = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path.extend(each for each in known if each and each not in sys.path)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asker.send(os.getpid().to_bytes(LENGTH, "big"))
    return [str(each) for each in arguments]


def main(number: int) -> None:
    """number: of the socket at which others ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as Java and all its children
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for what is forked
    from .daemon import load_all
    from .worker_memory import settle

    load_all()
    for name in MODULES:
        with suppress(ImportError):  # another version of PySpark
            import_module(name)
    settle()
    asked = serve(socket.socket(fileno=number))
    if asked is not None:
        run(*asked)


def run(asker: socket.socket, arguments: list[str]) -> None:
    """Be `python -m` with some arguments; who asked for it learns how it ends."""
    sys.argv = arguments
    sys.modules.pop(arguments[0], None)  # it runs anew, as the main program
    code: object = 1
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        code = None
    except SystemExit as ended:
        code = ended.code
        raise
    finally:
        with suppress(OSError):
            asker.send(bytes([code & 255 if isinstance(code, int) else int(code is not None)]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
