"""Errors of tasks: they travel as data and are raised again where the user waits.

An exception that Spark carries arrives as hundreds of lines of Java and Python. One that comes as
a message is the user's own exception, with its notes; the driver raises it inside the batch, so
that the batch is not committed. The planner, which has no messages, puts the same bytes into the
text of the exception that it raises.
"""

from __future__ import annotations

import base64
import json
import logging
import pickle
import re
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.plan.errors import IN_OPERATOR, DataError, HeadraceError, StateError, Unreachable

MOST_LINES = 12
# An error of ours in the text of another: up to an empty line, or to what Java says behind it.
OURS = r"^headrace\.\S*?(\w+): (.*?)(?=\n\s*\n|\n\s*at |\nSQLSTATE|\Z)"
PACKED = re.compile(r"headrace-error:([A-Za-z0-9+/=]+):")
BUSY = "Python worker failed to connect back"
STATE = r"\s*SQLSTATE: \w+"
CONDITION_NAME = r"^\[[A-Z][A-Z0-9_.]+\] "
CONDITION = r"\[([A-Z][A-Z0-9_.]+)\] ([^\n\[]+)"  # Spark's name for an error, and its words
WRAPPERS = ("STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR")  # they say that there is another


class SparkError(HeadraceError):
    """Spark could not run a pipeline: what it said, shortened, and what to do about it."""


class FromPlanner(Exception):
    """An exception of the planner, packed into a text that comes through Java as it is."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"headrace-error:{base64.b64encode(carry(error)).decode()}:")


def carry(error: BaseException) -> bytes:
    """An exception as bytes; what cannot be pickled keeps its text and its notes."""
    from pyspark import cloudpickle

    notes = list(getattr(error, "__notes__", ()))
    kind = type(error).__name__
    said: dict[str, Any] = {"type": kind, "message": str(error), "notes": notes, "trace": []}
    explained = any(note.startswith(IN_OPERATOR) for note in notes)
    if not explained and not isinstance(error, HeadraceError):
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        said["trace"] = [f"  at {f.filename}:{f.lineno} in {f.name}: {f.line}" for f in frames]
    try:
        pickled = cloudpickle.dumps(error)
        assert type(pickle.loads(pickled)).__name__ == kind
    except Exception:  # its class needs other arguments, or holds what cannot travel
        pickled = b""
    head = json.dumps(said).encode()
    return b"%08d" % len(head) + head + pickled


def carried(payload: bytes) -> Exception:
    """The exception that `carry` made into bytes.

    >>> carried(carry(ValueError("no good")))
    ValueError('no good')
    """
    length = int(payload[:8])
    said, pickled = json.loads(payload[8 : 8 + length]), payload[8 + length :]
    error: Exception | None = None
    if pickled:
        try:
            error = pickle.loads(pickled)
        except Exception:  # the class is not known here
            error = None
    if not isinstance(error, Exception):
        error = SparkError(f"{said['type']}: {said['message']}")
    for note in [*said["notes"], *said["trace"]]:
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    return error


def of_spark(error: BaseException) -> Exception:
    """What Spark raised, without the way it took through Java."""
    text = str(error)
    packed = PACKED.findall(text)
    if packed:
        return carried(base64.b64decode(packed[-1]))
    ours = re.findall(OURS, text, re.M | re.S)
    if ours:  # raised by a task before it could send messages
        name, said = ours[-1]
        kinds = {kind.__name__: kind for kind in (DataError, StateError, Unreachable)}
        return kinds.get(name, SparkError)("\n".join(said.splitlines()[:MOST_LINES]))
    if is_busy(error):
        return SparkError(
            "a Python process of Spark did not answer in time, again and again: this machine has "
            'too much to do\n  fix: leave a core to others with master="local[N]", run less '
            'beside it, or use engine="node"'
        )
    return SparkError("Spark: " + "\n  ".join(_reasons(text))[: 200 * MOST_LINES])


def _reasons(text: str) -> list[str]:
    """What Spark says went wrong, in its own words, without its names for it and how it got here.

    >>> _reasons("[STREAM_FAILED] Query [id = 1] terminated with exception: [DIVIDE_BY_ZERO] "
    ...          "Division by zero. SQLSTATE: 22012 SQLSTATE: XXKST")
    ['Division by zero.']
    """
    text = re.sub(STATE, "", text)
    said = [words for name, words in re.findall(CONDITION, text) if name not in WRAPPERS]
    causes = re.findall(r"^\s*Caused by: [\w.$]+: (.*)$", text, re.M)
    lost = re.findall(r"Lost task [^:\n]*: (.*)$", text, re.M)  # why a task failed for good
    # The last Python error in the text says what went wrong there.
    found = re.findall(r"^\s*((?:[\w.]+(?:Error|Exception|Interrupt|Exit))(?:: .*)?)$", text, re.M)
    first = [line.strip() for line in text.splitlines() if line.strip()][:2]
    python = [line for line in found if not line.startswith(("pyspark.", "py4j.", "java", "org."))]
    reasons = [*said[:1], *causes[-1:], *python[-1:]] or [*first, *lost[-1:], *found[-2:]]
    shown = (re.sub(CONDITION_NAME, "", reason).strip() for reason in reasons)
    return list(dict.fromkeys(reason for reason in shown if reason))


class _Silence(threading.local, logging.Filter):
    """Drops what a thread logs while it is on."""

    on = False

    def filter(self, record: logging.LogRecord) -> bool:
        return not self.on


_silence = _Silence()


@contextmanager
def unlogged() -> Iterator[None]:
    """PySpark's own loggers are silent about errors that somebody is told of in any case."""
    from pyspark.logger import PySparkLogger

    for kind in ("SQL", "DataFrame"):
        PySparkLogger.getLogger(f"{kind}QueryContextLogger").addFilter(_silence)
    _silence.on = True
    try:
        yield
    finally:
        _silence.on = False


def is_busy(error: BaseException) -> bool:
    """Did Spark give up a Python process that was slow to start? It has ten seconds for that."""
    return BUSY in str(error)
