"""Values that must not be shown, and not be written anywhere."""

from __future__ import annotations

import re
from typing import Any

MASK = "***"

# Whatever has such a name may be a secret, or hold one.
SECRET_NAME = re.compile(
    r"password|passwd|passphrase|secret|token|key|pem|jaas|oauth|credential|certificate", re.I
)
_ASSIGNED = re.compile(
    r"""(\b[\w.]*(?:password|passwd|passphrase|secret|token|api_?key|private_?key|jaas|credential)"""
    r"""[\w.]*["']?\s*[=:]\s*)([rbuf]*)("[^"]*"?|'[^']*'?)""",
    re.I,
)
_IN_URL = re.compile(r"(://[^/:@\s]*:)[^/@\s]+(?=@)")


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


def masked(line: str) -> str:
    """A line of code as it may be shown: what looks like a password is left out.

    >>> masked('read.kafka("h:9", "t", sasl_password="swordfish", n=1)')
    'read.kafka("h:9", "t", sasl_password=***, n=1)'
    >>> masked('{"sasl.password": "x", "u": "s3://me:pass@bucket"}')
    '{"sasl.password": ***, "u": "s3://me:***@bucket"}'
    >>> masked('rows.key_by("user").filter(col("token") == "x")')
    'rows.key_by("user").filter(col("token") == "x")'
    """
    return _IN_URL.sub(rf"\1{MASK}", _ASSIGNED.sub(rf"\1{MASK}", line))
