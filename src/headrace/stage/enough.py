"""When a job has read enough: all limits have given their rows, and nothing else needs the sources.

Sources are then ended as if they had no more rows, so what is behind the limits gives its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.plan.enough import last_limits
from headrace.plan.nodes import Limit, Node

from .kernel import Kernel
from .keyed_store import by_host
from .store import entry_address


class Enough:
    """Looks at the limits of a plan; false where it has none that would end it."""

    def __init__(self, roots: Sequence[Node]) -> None:
        self._limits = {node.name: node for node in last_limits(roots)}
        self._kernels: dict[str, list[Kernel]] = {name: [] for name in self._limits}

    def __bool__(self) -> bool:
        return bool(self._limits)

    def watch(self, kernels: Iterable[Kernel]) -> None:
        """These run the operators of the plan."""
        for kernel in kernels:
            for node in kernel.chain.nodes:
                if node.name in self._limits:
                    self._kernels[node.name].append(kernel)

    def reached(self) -> bool:
        """Has every limit given its rows?"""
        return bool(self._limits) and all(
            limit.rows == 0 or any(map(_has_given_all, self._kernels[name]))
            for name, limit in self._limits.items()
        )


def _has_given_all(kernel: Kernel) -> bool:
    """Is nothing left of a limit? The kernel may be at work meanwhile."""
    store = kernel.store
    assert store is not None and isinstance(kernel.chain.emitter, Limit)
    if store.count == 0:
        return False
    entry = store.entry(by_host(entry_address)(store.header, 0, store.entry.size))
    return int(entry.state.left) == 0
