"""Errors that end a program: a mistake in a pipeline is shown with the user's lines alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from .plan.errors import HeadraceError

_PACKAGE = str(Path(__file__).resolve().parent)


def show_only_users_lines() -> None:
    """From now on, where an error of ours ends the program, none of our lines is shown.

    What it says has the operator, the user's line and the way out. Who catches an error finds the
    whole way in its traceback.

    >>> import sys
    >>> sys.excepthook.__name__
    'show_shortened'
    """
    sys.excepthook = _shortened(sys.excepthook)


def _shortened(show: Callable[..., Any]) -> Callable[..., Any]:
    def show_shortened(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if isinstance(error, HeadraceError):
            trace = _without_ours(trace)
            error = error.with_traceback(trace)
        show(kind, error, trace)

    return show_shortened


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package."""
    if trace is None:
        return None
    rest = _without_ours(trace.tb_next)
    if trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        return rest
    return TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
