"""What Numba is taught of this package, at the time when somebody needs Numba.

Loading Numba takes longer than all else that a warm start does, and machine code from the cache
runs without it. So modules that have something to teach declare a lesson, and whoever is about to
compile calls `teach`.

>>> learnt = []
>>> @lesson
... def numbers() -> None:
...     learnt.append("numbers")
>>> teach(); teach()
>>> learnt
['numbers']
"""

from __future__ import annotations

import threading
from collections.abc import Callable

_waiting: dict[Callable[[], None], None] = {}  # in order
_teaching = threading.RLock()
_has_begun = False


def lesson(given: Callable[[], None]) -> Callable[[], None]:
    """Call a function without arguments when Numba is needed; at once, if it has been already."""
    _waiting[given] = None
    if _has_begun:
        # not under the lock: modules are loaded here, and who teaches may wait for one of them
        _give(given)
    return given


def teach() -> None:
    """Give the lessons that were not given yet."""
    global _has_begun
    with _teaching:
        _has_begun = True
        while _waiting:
            _give(next(iter(_waiting)))


def _give(given: Callable[[], None]) -> None:
    missing = object()
    if _waiting.pop(given, missing) is not missing:  # nobody else has taken it
        given()
