"""Values that must not be shown, and not be written anywhere."""

from __future__ import annotations

import re
from typing import Any

MASK = "***"

# Whatever has such a name may be a secret, or hold one.
SECRET_NAME = re.compile(
    r"password|passwd|passphrase|secret|token|key|pem|jaas|oauth|credential|certificate", re.I
)


class Secret:
    """A password or the like: its text shows nothing, and on Spark it travels without a file.

    >>> password = Secret("swordfish")
    >>> password, str(password.value)
    (Secret(***), 'swordfish')
    """

    def __init__(self, value: Any) -> None:
        self.value = str(value)

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)
