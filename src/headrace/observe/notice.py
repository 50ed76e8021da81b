"""A notice of a running job, for `headrace top` in another process: a socket that tells how it is.

The socket lies in a folder of this user alone. Who connects gets one line of JSON, as
`observe.progress` writes it. The job itself looks whether somebody asks, as often as it looks
whether it shall stop: there is no thread for it, and nothing is measured for nobody.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

FIRST_SECONDS = 0.5  # of a job without a notice: most that are short need none
LOOK_SECONDS = 0.1  # between two looks for somebody who asks
ANSWER_SECONDS = 3.0  # that a job has to answer
TOLD_SECONDS = 0.5  # that somebody has to read what is told
ENDING = ".job"
_numbers = itertools.count(1)


def folder() -> Path:
    """Where notices lie; made where it is missing. An OSError where others could look inside.

    >>> stat.filemode(folder().stat().st_mode)
    'drwx------'
    """
    home = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    path = Path(home, f"headrace-jobs-{os.getuid()}")
    path.mkdir(0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{path} is not a folder of this user alone")
    return path


class Notice:
    """Tells of one job, which calls `look` again and again."""

    def __init__(self) -> None:
        self._next = time.perf_counter() + FIRST_SECONDS
        self._socket: socket.socket | None = None
        self._path: Path | None = None

    def look(self, job: Any) -> None:
        """Answer who asks, if it is time to look."""
        if time.perf_counter() < self._next:
            return
        if self._path is None:
            self._open()
        if self._socket is not None:
            with suppress(OSError):  # nobody asks, or who asked is gone: no matter of the job's
                asking, _ = self._socket.accept()
                with asking:
                    told = _told(job).encode()
                    asking.settimeout(TOLD_SECONDS)
                    asking.sendall(told)
        self._next = time.perf_counter() + LOOK_SECONDS

    def close(self) -> None:
        """There is nothing more to tell."""
        if self._socket is not None and self._path is not None:
            self._path.unlink(missing_ok=True)
            self._socket.close()
            self._socket = None

    def _open(self) -> None:
        """A job runs without a notice where there can be none."""
        self._path = Path(f"{os.getpid()}-{next(_numbers)}{ENDING}")
        with suppress(OSError):
            self._path = folder() / self._path
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            made.bind(os.fspath(self._path))
            self._path.chmod(0o600)
            made.listen()
            made.setblocking(False)
            self._socket = made


def _told(job: Any) -> str:
    from .graph import Graph, rates_of
    from .progress import as_json, latencies_of  # needs what draws

    job.metrics()  # whoever asks wants to see the operators inside kernels
    progress = job.progress()
    program = os.path.basename(sys.argv[0]) or "python"
    title = f"{program}, process {os.getpid()}"
    rate = progress.rows_in / max(progress.seconds, 1e-9)
    drawn = Graph.of(job.plan.optimized, rates_of(progress.operators, progress.seconds))
    graph = {"labels": drawn.labels, "edges": drawn.edges}
    return json.dumps(
        json.loads(as_json(title, progress, rate, latencies_of(job))) | {"graph": graph}
    )


def running() -> Iterator[tuple[str, dict[str, Any]]]:
    """What the jobs of this user tell, by the names of their notices; of dead ones nothing."""
    for path in sorted(folder().glob(f"*{ENDING}")):
        told = _asked(path)
        if told is not None:
            yield path.name, told


def _asked(path: Path) -> dict[str, Any] | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.settimeout(ANSWER_SECONDS)
        try:
            made.connect(os.fspath(path))
            told = b"".join(iter(lambda: made.recv(1 << 16), b""))
        except ConnectionRefusedError:  # its process was killed
            path.unlink(missing_ok=True)
            return None
        except OSError:  # it is busy, or over by now
            return None
    with suppress(ValueError):
        return dict(json.loads(told))
    return None
