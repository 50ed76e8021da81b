"""What generated code calls around user functions: optional values, results, suspended frames."""

from __future__ import annotations

from typing import Any

from .memory.extensions import extension
from .memory.records import compiled


@compiled
def maybe(valid, value):
    """A value as a user function sees it: None where it is null.

    >>> maybe(True, 3), maybe(False, 3)
    (3, None)
    """
    if valid:
        return value
    return None


def present(value: Any) -> Any:
    """A value that is known not to be None, as its plain type."""
    return value


def only(result: Any) -> Any:
    """The only result of a user function, which may come in a tuple of one.

    >>> only((3,)), only(3)
    (3, 3)
    """
    return result[0] if isinstance(result, tuple) else result


# ---- generators kept between calls ---------------------------------------------------------
# A Numba generator is a plain struct: it can be copied to memory of ours and run on from there.

_parked: dict[int, Any] = {}  # interpreted: address -> the Python generator


def suspend(generator: Any, address: int) -> None:
    """Save a generator at an address."""
    _parked[address] = generator


def resume(like: Any, address: int) -> Any:
    """The generator saved at an address; `like`, a fresh one of its function, gives the type."""
    return _parked[address]


def forget_frame(address: int) -> None:
    """Interpreted: let go of the generator saved at an address."""
    _parked.pop(address, None)


def frame_bytes(generator: Any) -> int:
    """Bytes that suspend() needs; interpreted none."""
    return 0


@extension
def _register() -> None:
    from . import support_types  # noqa: F401
