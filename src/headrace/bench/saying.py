"""Telling what a benchmark does now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console

Said = Callable[[str], None]  # is told what happens now


def say_nothing(said: str) -> None:
    """For those who want no progress."""


class saying:
    """Shows what happens now: in one line that changes, in plain lines, or (JSON) not at all.

    >>> import io
    >>> console = Console(file=io.StringIO())
    >>> with saying("rows", False, console) as say:
    ...     say("made")
    >>> console.file.getvalue()
    'rows: made\\n'
    """

    def __init__(self, name: str, silent: bool, console: Console) -> None:
        self._name, self._silent, self._console = name, silent, console
        self._status: Any = None

    def __enter__(self) -> Said:
        if self._silent:
            return say_nothing
        if self._console.is_terminal:
            self._status = self._console.status(self._name)
            self._status.start()
            return lambda said: self._status.update(f"{self._name}: {said}")
        return lambda said: self._console.print(f"{self._name}: {said}", highlight=False)

    def __exit__(self, *error: object) -> None:
        if self._status is not None:
            self._status.stop()
