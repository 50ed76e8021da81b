"""Errors in a row: the user's own exception, with operator, row values and the user's line.

A compiled kernel says only which row failed. The row is run again in the interpreter, from the
same source, which raises the real exception with a real traceback.
"""

from __future__ import annotations

import traceback
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import numpy as np

from headrace.plan.errors import IN_OPERATOR, HeadraceError
from headrace.plan.fusion import node_can_fail
from headrace.plan.nodes import HIDDEN, Branches, Node
from headrace.plan.site import Site, masked

from .blocks.arrow import to_arrow
from .blocks.block import Block, gather
from .turns import Turn, has_turn

_PACKAGE = str(Path(__file__).resolve().parent.parent)
LONGEST = 60  # characters shown of a value
MOST_BLOCKS = 100_000  # of one row: one that yields for ever would have been stopped before


def explain_failure(kernel: Any, error: Exception) -> None:
    """Raise the error of a kernel's row as the user should see it."""
    if kernel.is_firing:
        if has_turn(kernel):
            _explain_turn(kernel, error)
        _explain_window(kernel, error)
    row = kernel.failed_row()
    single = one_row(kernel.block, row)
    real = _run_again(kernel, single) if kernel.is_compiled else error
    culprit = _culprit(kernel, single, real or error, compiled=kernel.is_compiled and real is None)
    _raise_explained(real or error, culprit, _shown(single))


def _raise_explained(error: Exception, node: Node, values: str, what: str = "row") -> NoReturn:
    """Raise an error with the operator, the user's line and the row."""
    for note in [*_where(node, error), f"  {what}: {values}"]:
        error.add_note(note)
    raise error.with_traceback(_only_user(error.__traceback__)) from None


def explain_call(node: Node, error: Exception) -> None:
    """Say of an error in a function that Python calls with a batch where it comes from."""
    if not _is_explained(error) and not isinstance(error, HeadraceError):
        for note in _where(node, error):
            error.add_note(note)


def _explain_window(kernel: Any, error: Exception) -> None:
    """The error of a window's result, which no single row is to blame for."""
    node = kernel.chain.windowed
    error.add_note(f"{IN_OPERATOR} {node.written}")
    error.add_note(f"  at {node.site!r}")
    error.add_note("  when the panes of a window were brought together")
    raise error.with_traceback(None) from None


def _explain_turn(kernel: Any, error: Exception) -> None:
    """The error of a row that has waited, or of a timer."""
    turn = Turn(kernel)
    real = turn.error() if kernel.is_compiled else error
    if type(real) is not type(error):
        real = error
    what = "timer" if turn.is_timer else "row"
    _raise_explained(real, turn.node, _shown_values(turn.row), what)


def shortened(error: Exception) -> Exception:
    """An error with only the user's part of its traceback; one of ours says all in its message."""
    trace = _only_user(error.__traceback__)
    if trace is None and not _is_explained(error) and not isinstance(error, HeadraceError):
        return error  # not the user's doing: whoever mends it needs the whole way
    return error.with_traceback(trace)


def _is_explained(error: Exception) -> bool:
    return any(note.startswith(IN_OPERATOR) for note in getattr(error, "__notes__", ()))


def one_row(block: Block, row: int) -> Block:
    """A row in a block of its own."""
    single = Block.allocate(block.layout, 1, borrows=True)
    gather(block, np.array([row], np.int32), single)
    return single


def real_error(kernel: Any, single: Block, error: Exception | None) -> Exception:
    """The error of a row as Python raises it; or as the kernel does, where only that fails."""
    if error is not None and not kernel.is_compiled:
        return error
    found = _run_again(kernel, single) or error or _run_again(kernel, single, compiled=True)
    return found or ArithmeticError("the row cannot be computed")


def _run_again(
    kernel: Any,
    single: Block,
    operators: int | None = None,
    compiled: bool = False,
    branch: Sequence[Node] = (),
) -> Exception | None:
    """The exception of the row when it is interpreted, by the first operators of the chain or by
    all of them; the state stays as it is. branch: see `Kernel.twin`."""
    twin = kernel.twin(operators, compiled, branch)
    try:
        twin.start(single)
        for _ in range(MOST_BLOCKS):
            if twin.run() == 0:
                return None
            twin.take()
    except Exception as error:
        return error
    return None


def _culprit(kernel: Any, single: Block, error: Exception, compiled: bool = False) -> Node:
    """The operator of a chain that fails on a row: the last one of the shortest part that does.
    compiled: only compiled code fails on it."""
    nodes = kernel.chain.nodes
    suspects = [k for k, node in enumerate(nodes) if node_can_fail(node)] or [len(nodes) - 1]

    def fails(place: int) -> bool:
        found = _run_again(kernel, single, suspects[place] + 1, compiled)
        return type(found) is type(error) and str(found) == str(error)

    # The last one is left if no other fails: only it may depend on what was there before.
    place = suspects[bisect_left(range(len(suspects) - 1), True, key=fails)]
    found = nodes[place]
    return _culprit_on(found, kernel, single, error) if isinstance(found, Branches) else found


def _culprit_on(branches: Branches, kernel: Any, single: Block, error: Exception) -> Node:
    """The operator of the first branch that fails on a row."""
    before = len(kernel.chain.nodes) - 1
    for way in branches.ways:
        for k, step in enumerate(way):
            found = _run_again(kernel, single, before, branch=way[: k + 1])
            if type(found) is type(error) and str(found) == str(error):
                return step
    return branches


def _where(node: Node, error: Exception) -> list[str]:
    """The operator, the user's line that failed, and that of the operator where it is another."""
    frames, lines = _user_frames(error.__traceback__), [node.site]
    if frames:
        last = frames[-1]
        lines.insert(0, Site(Path(last.filename).name, last.lineno or 0, masked(last.line or "")))
    shown = [f"  at {line!r}" for line in dict.fromkeys(lines) if line is not None]
    return [f"{IN_OPERATOR} {node.written}", *shown]


def _shown(single: Block) -> str:
    values = to_arrow(single).to_pylist()[0]
    return _shown_values({k: v for k, v in values.items() if k not in HIDDEN})


def _shown_values(values: Mapping[str, Any]) -> str:
    """The values of a row, for a message."""
    return ", ".join(f"{name}={_short(value)}" for name, value in values.items())


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
