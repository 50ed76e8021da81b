"""User functions: checked while a pipeline is built, then compiled into kernels or interpreted."""

from .checking import (
    check,
    compiled_function,
    fingerprint,
    numba_type,
    plain_function,
    quiet,
    state_record,
)

__all__ = [
    "check",
    "compiled_function",
    "fingerprint",
    "numba_type",
    "plain_function",
    "quiet",
    "state_record",
]
