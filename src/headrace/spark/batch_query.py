"""A batch query that is watched like a streaming one: one batch, in a thread of its own."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STOP_SECONDS = 60.0


class BatchQuery:
    """Runs `commit(frame, 0)`; answers as far as jobs ask Spark's streaming queries."""

    def __init__(self, frame: DataFrame, commit: Callable[[Any, int], None]) -> None:
        from pyspark import InheritableThread

        self._frame, self._commit = frame, commit
        self._error: BaseException | None = None
        self._tag = f"headrace-{uuid.uuid4().hex}"
        self._done = threading.Event()
        self._thread = InheritableThread(target=self._run, name="headrace batch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._frame.sparkSession.sparkContext.addJobTag(self._tag)
            self._commit(self._frame, 0)
        except BaseException as error:  # it is raised where the job is awaited
            self._error = error
        finally:
            self._done.set()

    @property
    def isActive(self) -> bool:
        """Is it still running?"""
        return not self._done.is_set()

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Wait until it is over (True) or so many seconds have passed; raises its error."""
        over = self._done.wait(timeout)
        if over and self._error is not None:
            raise self._error
        return over

    def processAllAvailable(self) -> None:
        """Wait until it is over."""
        self.awaitTermination()

    def stop(self) -> None:
        """Cancel it, if it runs, and wait until it is over."""
        if self.isActive:
            self._frame.sparkSession.sparkContext.cancelJobsWithTag(self._tag)
            self._done.wait(STOP_SECONDS)
