"""Where servers are kept: beside the cache of kernels, but apart from any version of headrace."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import DevError


def folder() -> Path:
    """The folder for programs and data of servers; made where it is missing."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    root = os.environ.get("HEADRACE_CACHE") or os.path.join(home, "headrace")
    chosen = Path(os.path.abspath(root)) / "dev"
    try:
        chosen.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DevError(
            f"cannot write {chosen} ({error.strerror}); "
            "set HEADRACE_CACHE to a folder that can be written"
        ) from None
    return chosen


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Be the only process that works on something; others wait."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
