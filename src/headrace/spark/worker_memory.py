"""What stays in the memory of a Python worker, and need not be looked through after every task.

Spark's workers collect garbage behind each task. With Numba and the stages loaded there are more
than a hundred thousand objects to look at, which takes longer than a small task itself, and copies
the memory that workers share with their parent.
"""

from __future__ import annotations

import gc


def settle() -> None:
    """Leave everything that is there now out of all collections to come.

    >>> settle()
    >>> gc.get_freeze_count() > 0
    True
    >>> gc.unfreeze()
    """
    gc.collect()
    gc.freeze()
