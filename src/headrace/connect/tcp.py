"""Lines from a TCP server."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from headrace.plan.errors import DataError

from . import text_format

RECEIVED = 1 << 16  # bytes at a time
PAUSE = 0.2  # seconds between two tries to connect
TRY_SECONDS = 10.0  # for one try


class TcpLines(Iterator[bytes]):
    """The lines that a server sends, without their ends.

    Where a connection cannot be made or breaks, it is made again for `reconnect` seconds; then it
    is a DataError. With `reconnect=0` the end of the connection is the end of the lines. A line
    that was cut off in the middle is a DataError in any case: its rest is lost.
    """

    interruptible = True

    def __init__(self, host: str, port: int, *, reconnect: float = 0.0) -> None:
        self._host, self._port, self._reconnect = host, port, reconnect
        self.__name__ = f"{host}:{port}"
        self._socket: socket.socket | None = None
        self._rest = b""
        self._lines: deque[bytes] = deque()
        self._closed = threading.Event()

    def __next__(self) -> bytes:
        while not self._lines:
            if self._closed.is_set():
                raise StopIteration
            self._receive(self._socket or self._connect())
        return self._lines.popleft()

    def close(self) -> None:
        """End the connection, also while somebody waits in it."""
        self._closed.set()
        found, self._socket = self._socket, None
        if found is not None:
            with suppress(OSError):  # it was not connected any more
                found.shutdown(socket.SHUT_RDWR)
            found.close()

    def _receive(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(RECEIVED)
        except OSError as error:
            if self._closed.is_set():
                raise StopIteration from None
            if not self._reconnect:
                raise DataError(f"tcp {self.__name__}: the connection broke: {error}") from None
            data = b""
        if not data:
            self._ended(connection)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(line.removesuffix(b"\r") for line in lines)
        if len(self._rest) > text_format.LONGEST:
            raise DataError(
                f"tcp {self.__name__}: a line is longer than {text_format.LONGEST >> 20} MiB"
            )

    def _ended(self, connection: socket.socket) -> None:
        connection.close()
        self._socket = None
        if self._closed.is_set():
            raise StopIteration
        if self._rest:
            raise DataError(
                f"tcp {self.__name__}: the connection ended in the middle of a line, behind "
                f"{self._rest[-60:]!r}"
            )
        if not self._reconnect:
            raise StopIteration

    def _connect(self) -> socket.socket:
        until = time.monotonic() + self._reconnect
        while True:
            try:
                made = socket.create_connection((self._host, self._port), timeout=TRY_SECONDS)
                made.settimeout(None)
                self._socket = made
                return made
            except OSError as error:
                if time.monotonic() >= until:
                    raise DataError(
                        f"tcp {self.__name__}: cannot connect: {error.strerror or error}"
                    ) from None
            if self._closed.wait(PAUSE):
                raise StopIteration
