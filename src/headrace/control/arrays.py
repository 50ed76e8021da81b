"""Names for the arrays that come in and go out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Answer = Any  # of a policy: whatever NumPy takes for an array; `asking` checks it
LEAST_COST = 1e-12  # seconds: no operator is free, and nothing is divided by zero


def floats(values: Answer) -> Floats:
    """An array of its own, of floating-point numbers.

    >>> floats([1, 2])
    array([1., 2.])
    """
    return np.array(values, dtype=np.float64)
