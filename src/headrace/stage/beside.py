"""Compiling in a process beside this one, so that a cold start uses a second core.

Numba compiles one function at a time in a process, and is slow to load. What the other process
makes comes back through the disk cache; where it fails, or takes too long, this process compiles
for itself. This module loads no compiler, so that the other process can begin before this one.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from functools import cache

from headrace.stage import cache as disk

TIMEOUT = 60.0  # seconds
_PROGRAM = "import sys; from headrace.stage.beside import Beside; Beside(sys.argv[1]).wait()"
_IS_BESIDE = "HEADRACE_BESIDE"  # set in the environment of the other process


@cache
def beside(name: str) -> Beside:
    """See Beside; one for each function."""
    return Beside(name)


class Beside:
    """The machine code of "module:function", a function of one integer, to be had soon."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._fact = "compiled-" + name.replace(":", ".")
        self._process = None
        if disk.read_json(self._fact) is None and _may_start():
            self._process = _start(name)

    def wait(self) -> None:
        """When this returns, the function is compiled."""
        process, self._process = self._process, None
        if process is not None:
            try:
                process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                pass  # it is compiled here
            finally:
                process.kill()
                process.wait()
        self._compile()

    def _compile(self) -> None:
        """Compile it here, or load what is in the disk cache."""
        from numba import types

        module, function = self._name.split(":")
        getattr(importlib.import_module(module), function).compile((types.int64,))
        disk.write_json(self._fact, True)


def _may_start() -> bool:
    """Is there an interpreter to start, and a second core for it?"""
    is_python = bool(sys.executable) and not getattr(sys, "frozen", False)
    return is_python and (os.cpu_count() or 1) > 1 and _IS_BESIDE not in os.environ


def _start(name: str) -> subprocess.Popen[bytes] | None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        _IS_BESIDE: "1",
    }
    try:
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, name],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
