"""Extensions of Numba's typing and lowering, registered when somebody needs Numba.

Loading Numba takes longer than all else that a warm start does, and machine code from the cache
runs without it. So modules that extend Numba declare it here, and whoever is about to compile
calls `register_extensions`.

>>> known = []
>>> @extension
... def numbers() -> None:
...     known.append("numbers")
>>> register_extensions(); register_extensions()
>>> known
['numbers']
"""

from __future__ import annotations

import threading
from collections.abc import Callable

_waiting: dict[Callable[[], None], None] = {}  # in order
_registering = threading.RLock()
_has_begun = False


def extension(given: Callable[[], None]) -> Callable[[], None]:
    """Call a function without arguments when Numba is needed; at once, if it has been already."""
    _waiting[given] = None
    if _has_begun:
        # not under the lock: modules are loaded here, and who registers may wait for one
        _register(given)
    return given


def register_extensions() -> None:
    """Register the extensions that were not registered yet."""
    global _has_begun
    with _registering:
        _has_begun = True
        while _waiting:
            _register(next(iter(_waiting)))


def _register(given: Callable[[], None]) -> None:
    missing = object()
    if _waiting.pop(given, missing) is not missing:  # nobody else has taken it
        given()
