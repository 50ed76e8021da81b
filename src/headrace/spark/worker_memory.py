"""What stays in the memory of a Python worker, and need not be looked through after every task.

Spark's workers collect garbage behind each task. With Numba and the stages loaded there are more
than a hundred thousand objects to look at, which takes longer than a small task itself, and copies
the memory that workers share with their parent.
"""

from __future__ import annotations

import gc

from pyspark import TaskContext

_settled = False


def settle() -> None:
    """Leave what is loaded by now out of all collections to come. Workers inherit it."""
    global _settled
    gc.collect()
    gc.freeze()
    _settled = True


def settle_worker() -> None:
    """The same in the first task of a worker whose parent did not: in a user's own session.

    It comes before anything is made that is to be collected one day.
    """
    if not _settled and TaskContext.get() is not None:
        settle()
