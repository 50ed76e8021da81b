"""What tests of pipelines need: a source that follows a script, a clock that tests set, and rows
to compare.

    >>> from headrace.testing import PAUSE, TestSource, VirtualClock, assert_same_rows
    >>> clock = VirtualClock()
    >>> source = TestSource([{"n": 1}, PAUSE, {"n": 2}], clock=clock)
    >>> reader = source.open("0")
    >>> reader.poll(max_rows=10, timeout=0.0).rows.to_pylist()
    [{'n': 1}]
    >>> reader.poll(max_rows=10, timeout=0.0).rows is None
    True
    >>> clock.advance(1.0)
    >>> reader.poll(max_rows=10, timeout=0.0).rows.to_pylist()
    [{'n': 2}]
"""

from .clock import VirtualClock
from .rows import assert_same_rows, rows_of
from .source import ABORT, END, PAUSE, Abort, Aborted, Pause, TestSource
from .stages import run_stages

__all__ = [
    "ABORT",
    "END",
    "PAUSE",
    "Abort",
    "Aborted",
    "Pause",
    "TestSource",
    "VirtualClock",
    "assert_same_rows",
    "rows_of",
    "run_stages",
]
