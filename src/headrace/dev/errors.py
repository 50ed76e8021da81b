"""What is wrong with a server that headrace should run."""

from __future__ import annotations

from headrace.plan.errors import HeadraceError


class DevError(HeadraceError):
    """A server for development cannot be fetched, started or stopped: why, and what to do."""


class Unavailable(DevError):
    """This machine cannot have the server at all: Java is missing, or the download is refused."""
