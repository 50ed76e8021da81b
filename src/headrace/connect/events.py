"""Server-sent events over HTTP, as the HTML standard has them."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from typing import Any

from headrace.plan.errors import DataError
from headrace.plan.schema import Schema
from headrace.plan.types import optional

from .paths import without_credentials

SILENCE = 300.0  # seconds without a byte after which a connection counts as broken
COLUMNS = Schema.of({"event": str, "id": optional(str), "data": str})
PAUSE = 1.0  # before it is made again, unless the server says otherwise (`retry:`)


class ServerSentEvents(Iterator[bytes]):
    """The events of a server, each as a line of JSON with `event`, `id` and `data`.

    only_data: the line is the data itself, which is JSON.

    Where a connection cannot be made or breaks, it is made again for `reconnect` seconds, with the
    id of the last event, so that a server which keeps events can go on behind it; then it is a
    DataError. With `reconnect=0` the end of the connection is the end of the events. An event that
    was cut off in the middle is left out, as the standard says: it comes again, or was never sent.
    """

    interruptible = True

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        reconnect: float = 0.0,
        only_data: bool = False,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise DataError(f"{url!r} is not a URL of HTTP")
        self._url, self._headers, self._reconnect = url, dict(headers or {}), reconnect
        self.__name__, self._only_data = without_credentials(url), only_data
        self._response: HTTPResponse | None = None
        self._last, self._pause = "", PAUSE
        self._until = time.monotonic() + reconnect
        self._closed = threading.Event()

    def __next__(self) -> bytes:
        while not self._closed.is_set():
            try:
                response = self._response or self._connect()
                event = self._event(response)
            except (OSError, HTTPException, AttributeError, ValueError) as error:
                if self._closed.is_set():
                    break  # whatever a closed response says
                if isinstance(error, AttributeError | ValueError):
                    raise
                event = None
                self._broken(error)
            if event is not None:
                self._until = time.monotonic() + self._reconnect
                return event
        raise StopIteration

    def close(self) -> None:
        """End the connection, also while somebody waits in it."""
        self._closed.set()
        found, self._response = self._response, None
        connection: Any = getattr(getattr(found, "fp", None), "raw", None)
        if connection is not None:
            with suppress(OSError, AttributeError):  # it was not connected any more
                connection._sock.shutdown(socket.SHUT_RDWR)

    def _connect(self) -> HTTPResponse:
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache", **self._headers}
        if self._last:
            headers["Last-Event-ID"] = self._last
        request = urllib.request.Request(self._url, headers=headers)
        try:
            response: Any = urllib.request.urlopen(request, timeout=SILENCE)
        except urllib.error.HTTPError as error:
            if error.code < 500:  # trying again does not help
                raise DataError(f"events {self.__name__}: {error.code} {error.reason}") from None
            raise
        kind = response.headers.get_content_type()
        if kind != "text/event-stream":
            raise DataError(
                f"events {self.__name__}: the server gives {kind}, not text/event-stream"
            )
        self._response = response
        return response

    def _event(self, response: HTTPResponse) -> bytes | None:
        """The next event; None at the end of the connection."""
        name, data, identity = "message", list[str](), self._last
        while line := response.readline():
            text = line.rstrip(b"\r\n").decode(errors="replace").removeprefix("\ufeff")
            if not text:
                self._last = identity  # only now: an event that is cut off is to come again
                if data:
                    return self._line(name, data)
                name = "message"
                continue
            field, _, value = text.partition(":")
            value = value.removeprefix(" ")
            match field:
                case "event":
                    name = value
                case "data":
                    data.append(value)
                case "id" if "\0" not in value:
                    identity = value
                case "retry" if value.isdecimal():
                    self._pause = int(value) / 1000
        self._ended()
        return None

    def _line(self, name: str, data: list[str]) -> bytes:
        if self._only_data:
            return " ".join(data).encode()  # a newline in JSON is but a space
        made = {"event": name, "id": self._last or None, "data": "\n".join(data)}
        return json.dumps(made, ensure_ascii=False).encode()

    def _ended(self) -> None:
        self._response = None
        if not self._reconnect:
            self._closed.set()
        elif time.monotonic() >= self._until:
            raise DataError(f"events {self.__name__}: the server ends the connection at once")
        else:
            self._closed.wait(self._pause)

    def _broken(self, error: Exception) -> None:
        self._response = None
        if time.monotonic() >= self._until:
            said = getattr(error, "reason", None) or error
            raise DataError(f"events {self.__name__}: the connection broke: {said}") from None
        self._closed.wait(self._pause)
