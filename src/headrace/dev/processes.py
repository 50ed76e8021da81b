"""What servers of development have in common: ports, waiting, logs, and ending with us."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import time
from collections.abc import Callable

import psutil

HOST = "127.0.0.1"


def last_line(said: str) -> str:
    """The last line of a log that is not a place in Java code."""
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("\tat ")]
    return lines[-1][:300] if lines else "(nothing)"


def until(holds: Callable[[], bool], seconds: float) -> bool:
    """Wait until something holds; False if it does not within so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def is_alive(process: psutil.Process) -> bool:
    """Does a process still run? One that nobody has asked for its exit code does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        return int(free.getsockname()[1])


def in_use(port: int) -> str | None:
    """Why a port cannot be used; None if it can."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port))
        except OSError as error:
            return error.strerror
    return None


def death_follows(parent: int) -> Callable[[], None]:
    """What a child does first, so that the kernel kills it when its parent ends."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    set_death_signal = 1

    def follow() -> None:
        prctl(set_death_signal, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended meanwhile
            os._exit(1)

    return follow
