"""How many rows a block holds; apart from the stages, so that it can be had without them."""

from __future__ import annotations

DEFAULT_CAPACITY = 16_384  # seven 64-bit columns just fit a cache of 1 MB
