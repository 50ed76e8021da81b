"""Errors in a row: the user's own exception, with operator, row values and the user's line.

A compiled kernel says only which row failed. The row is run again in the interpreter, from the
same source, which raises the real exception with a real traceback.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from headrace.plan.errors import IN_OPERATOR, HeadraceError
from headrace.plan.nodes import HIDDEN
from headrace.plan.site import masked

from .blocks.arrow import to_arrow
from .blocks.block import Block, gather
from .generate.context import node_can_fail

_PACKAGE = str(Path(__file__).resolve().parent.parent)
LONGEST = 60  # characters shown of a value
MOST_SITES = 3  # lines shown where several operators may be meant


def explain_failure(kernel: Any, error: Exception) -> None:
    """Raise the error of a kernel's row as the user should see it."""
    if kernel.is_firing:
        _explain_window(kernel, error)
    row = kernel.failed_row()
    single = _one_row(kernel.block, row)
    real = _run_again(kernel, single) if kernel.is_compiled else error
    real = real or error
    lines = _user_frames(real.__traceback__)
    for note in _notes(kernel, single, lines):
        real.add_note(note)
    raise real.with_traceback(_only_user(real.__traceback__)) from None


def _explain_window(kernel: Any, error: Exception) -> None:
    """The error of a window's result, which no single row is to blame for."""
    node = kernel.chain.windowed
    error.add_note(f"{IN_OPERATOR} {node.name}")
    error.add_note(f"  at {node.site!r}")
    error.add_note("  when the panes of a window were brought together")
    raise error.with_traceback(None) from None


def shortened(error: Exception) -> Exception:
    """An error with only the user's part of its traceback; one of ours says all in its message."""
    trace = _only_user(error.__traceback__)
    explained = any(note.startswith(IN_OPERATOR) for note in getattr(error, "__notes__", ()))
    if trace is None and not explained and not isinstance(error, HeadraceError):
        return error  # not the user's doing: whoever mends it needs the whole way
    return error.with_traceback(trace)


def _one_row(block: Block, row: int) -> Block:
    single = Block.allocate(block.layout, 1, borrows=True)
    gather(block, np.array([row], np.int32), single)
    return single


def _run_again(kernel: Any, single: Block) -> Exception | None:
    """The exception of the row when it is interpreted; the state stays as it is."""
    twin = kernel.interpreted_twin()
    try:
        twin.start(single)
        for _ in range(1000):  # a row that yields for ever would have been stopped before
            if twin.run() == 0:
                return None
            twin.take()
    except Exception as error:
        return error
    return None


def _notes(kernel: Any, single: Block, frames: list[traceback.FrameSummary]) -> list[str]:
    names = " -> ".join(node.name for node in kernel.chain.nodes)
    notes = [f"{IN_OPERATOR} {names}"]
    if frames:
        last = frames[-1]
        notes.append(f"  at {Path(last.filename).name}:{last.lineno}: {masked(last.line or '')}")
    else:  # in an expression: the lines of the operators that can fail
        sites = [node.site for node in kernel.chain.nodes if node_can_fail(node)]
        notes.extend(f"  at {site!r}" for site in dict.fromkeys(sites[:MOST_SITES]))
    values = to_arrow(single).to_pylist()[0]
    shown = ", ".join(f"{k}={_short(v)}" for k, v in values.items() if k not in HIDDEN)
    notes.append(f"  row: {shown}")
    return notes


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= LONGEST else said[: LONGEST - 3] + "..."


def _user_frames(trace: TracebackType | None) -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_tb(trace) if _is_users(frame.filename)]


def _is_users(file: str) -> bool:
    return not file.startswith(_PACKAGE) and not file.startswith("<headrace")


def _only_user(trace: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that lies in the user's code."""
    while trace is not None and not _is_users(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace
