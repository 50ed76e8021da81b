"""How many random examples ran, by kind; `conftest.py` prints the sums over all workers."""

from __future__ import annotations

from collections import Counter

PREFIX = "examples: "
FAILING = ", stopped by an error of a row"

_seen: Counter[str] = Counter()


def count(kind: str, whole: bool = True) -> None:
    """One more example; `whole`: it ran to its end and was compared."""
    _seen[kind if whole else kind + FAILING] += 1


def taken() -> list[tuple[str, int]]:
    """What was counted since the last call, as properties of a test's report."""
    counted = [(PREFIX + kind, number) for kind, number in _seen.items()]
    _seen.clear()
    return counted


def summary(properties: list[tuple[str, object]]) -> list[str]:
    """Lines with the sums over all tests."""
    sums: Counter[str] = Counter()
    for name, value in properties:
        if name.startswith(PREFIX):
            sums[name.removeprefix(PREFIX)] += int(str(value))
    return [f"{number:6,}  {kind}" for kind, number in sorted(sums.items())]
