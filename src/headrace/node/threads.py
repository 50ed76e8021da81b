"""Threads of an engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def daemon(name: object, target: Callable[..., Any], *given: Any) -> threading.Thread:
    """A thread that has begun, and that the end of the process does not wait for.

    >>> begun = daemon("greeting", print, "hello"); begun.join()
    hello
    >>> begun.name
    'headrace-greeting'
    """
    thread = threading.Thread(target=target, args=given, name=f"headrace-{name}", daemon=True)
    thread.start()
    return thread
