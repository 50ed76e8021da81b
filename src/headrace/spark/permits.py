"""Asking at the gate, from the process that plans the batches of a query (`gate.py` answers).

Both sides live as long as their socket. Where the other end is gone nobody is waited for: a planner
without a gate goes on, and the gate takes back the place of a planner that is no more.
"""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

LOOK_SECONDS = 0.1  # between two looks whether the query is to stop
SIZE = 4096  # bytes: more than a message has


def address_of(path: str, place: int) -> str:
    """Where a place is asked for.

    >>> parsed(address_of("gate/socket", 7)) == ("gate/socket", 7)
    True
    """
    return f"{path}#{place}"


def parsed(address: str) -> tuple[str, int]:
    """What `address_of` put together."""
    path, _, place = address.rpartition("#")
    return path, int(place)


def packed(message: dict[str, Any]) -> bytes:
    """A message is a line of JSON.

    >>> packed({"ask": 1})
    b'{"ask": 1}\\n'
    """
    return json.dumps(message).encode() + b"\n"


@dataclass(frozen=True)
class Permit:
    """A batch may begin, of so many rows at most; None: of as many as there are."""

    rows: int | None


class Permits:
    """One query's way to its gate."""

    def __init__(self, address: str, stopped: Callable[[], bool]) -> None:
        """stopped: is the query to read no more?"""
        self._path, self._place = parsed(address)
        self._stopped = stopped
        self._socket: socket.socket | None = None
        self._gone = False
        self._asked = 0  # so that an answer to an earlier question is known as such
        self._held = False

    def ask(self, pending: int, waited: float) -> Permit | None:
        """Wait until a batch may begin; None: the query is to stop.

        pending, waited: how many rows there are, and for how many seconds the first of them is.
        """
        self._asked += 1
        self._send({"ask": self._asked, "pending": pending, "waited": waited})
        while not self._gone:
            if self._stopped():
                self._send({"withdraw": self._asked})
                return None
            for answer in self._answers():
                if answer["ask"] == self._asked:
                    self._held = True
                    return Permit(answer["rows"])
        return Permit(None)

    def give_back(self) -> None:
        """The batch that was allowed does not begin."""
        if self._held:
            self._held = False
            self._send({"withdraw": self._asked})

    def used(self) -> None:
        """The batch that was allowed is planned: the driver gives the place back behind it."""
        self._held = False

    def close(self) -> None:
        """Ask no more."""
        self._gone = True
        if self._socket is not None:
            self._socket.close()

    def _send(self, message: dict[str, Any]) -> None:
        if self._gone:
            return
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self._socket.connect(self._path)
                self._socket.sendall(packed({"place": self._place}))
            self._socket.sendall(packed(message))
        except OSError:
            self.close()

    def _answers(self) -> list[dict[str, Any]]:
        """What has come, after a moment."""
        assert self._socket is not None
        with suppress(OSError):
            if not select.select([self._socket], [], [], LOOK_SECONDS)[0]:
                return []
            if said := self._socket.recv(SIZE):
                return [json.loads(line) for line in said.splitlines()]
        self.close()
        return []
