"""Threading models and schedulers of the simulator, one file each."""

from __future__ import annotations

from .assigned import Assigned
from .dedicated import Dedicated
from .free_list import FreeList
from .manual import Manual
from .priority import PriorityQueue
from .steered import Steered

__all__ = ["Manual", "Dedicated", "FreeList", "PriorityQueue", "Assigned", "Steered"]
