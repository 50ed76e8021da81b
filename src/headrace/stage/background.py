"""Compiling in a background process, so that a cold start uses a second core.

Numba compiles one function at a time in a process, and is slow to load. What the other process
makes comes back through the disk cache; where it fails, or takes too long, this process compiles
for itself. This module loads no compiler, so that the other process can begin before this one.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from headrace.stage import cache as disk

if TYPE_CHECKING:
    import subprocess

TIMEOUT = 60.0  # seconds
LOOK_SECONDS = 0.02
_PROGRAM = """
import sys
from headrace.stage.background import in_background, named
name, then = sys.argv[1:]
in_background(name, then).load()
named(then)()
"""
_IS_BACKGROUND = "HEADRACE_BACKGROUND"  # set in the environment of the other process


def named(name: str) -> Any:
    """What "module:function" stands for."""
    module, function = name.split(":")
    return getattr(importlib.import_module(module), function)


@cache
def in_background(name: str, then: str) -> BackgroundCompile:
    """See BackgroundCompile; one for each function."""
    return BackgroundCompile(name, then)


class BackgroundCompile:
    """The machine code of "module:function", a function of one integer, to be had soon.

    The other process calls `then` when it is done, for whatever else is to be in the cache when
    this process is started the next time.
    """

    def __init__(self, name: str, then: str) -> None:
        self._name = name
        self._fact = "compiled-" + name.replace(":", ".")
        self._lock = threading.Lock()
        self.is_there = disk.read_json(self._fact) is not None
        self._process = None if self.is_there or not _may_start() else _start(name, then)
        self._deadline = time.monotonic() + TIMEOUT
        if self._process is not None:
            atexit.register(self._await_process)  # or the next start would be cold, too

    def await_machine_code(self, give_up: Callable[[], bool]) -> bool:
        """Wait until the function is compiled and loaded; False: `give_up` came true before."""
        while self._is_running() and disk.read_json(self._fact) is None:
            if give_up():
                return False
            time.sleep(LOOK_SECONDS)
        self.load()
        return True

    @property
    def is_busy(self) -> bool:
        """Is the other process still at work, on this or on what comes after it?"""
        return self._process is not None and self._process.poll() is None

    def load(self) -> None:
        """Load the function from the disk cache, or compile it here."""
        with self._lock:
            named(self._name).load(int)
            if not self.is_there:
                disk.write_json(self._fact, True)
                self.is_there = True

    def _is_running(self) -> bool:
        """Is the other process at work? It is stopped if that takes too long."""
        if self._process is None or self._process.poll() is not None:
            return False
        if time.monotonic() > self._deadline:
            self._process.kill()
        return True

    def _await_process(self) -> None:
        while self._is_running():
            time.sleep(LOOK_SECONDS)


def _may_start() -> bool:
    """Is there an interpreter to start, and a second core for it?"""
    is_python = bool(sys.executable) and not getattr(sys, "frozen", False)
    return is_python and (os.cpu_count() or 1) > 1 and _IS_BACKGROUND not in os.environ


def _start(name: str, then: str) -> subprocess.Popen[bytes] | None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        _IS_BACKGROUND: "1",
    }
    import subprocess  # not for a warm start

    try:
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, name, then],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
