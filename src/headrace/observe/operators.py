"""The operators of a running job as a table: rates, selectivity, cost, and how they spend time.

Engines measure different things; a column that none of the operators has is left out. Under a
kernel stand the operators inside it, as soon as samples tell of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from rich.table import Table

from .numbers import short

RATE_SECONDS = 1.0  # the current rate is that of the last second
Operators = Mapping[str, Mapping[str, Any]]
WAITING = ("starved", "blocked")
HEADINGS = {
    "in": "in/s",
    "out": "out/s",
    "rows": "rows in",
    "passed": "passed",
    "cost": "ns/row",
    "pending": "pending",
    "busy": "busy",
    "starved": "starved",
    "blocked": "blocked",
    "late": "late",
    "failed": "failed",
    "state": "state",
    "reordering": "in order",
    "waited": "waited",
    "skew": "skew",
}


class Rates:
    """Rows per second of every operator, in and out: those of the last second.

    >>> rates = Rates()
    >>> rates.add(0.0, {"filter": {"rows_in": 0, "rows_out": 0}})
    >>> rates.add(0.5, {"filter": {"rows_in": 100, "rows_out": 30}})
    >>> rates.of("filter")
    (200.0, 60.0)
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, dict[str, tuple[int, int]]]] = deque()

    def add(self, seconds: float, operators: Operators) -> None:
        """What the operators have done after so many seconds of the job."""
        rows = {name: (each["rows_in"], each["rows_out"]) for name, each in operators.items()}
        self._samples.append((seconds, rows))
        while len(self._samples) > 2 and self._samples[1][0] <= seconds - RATE_SECONDS:
            self._samples.popleft()

    def of(self, name: str) -> tuple[float, float]:
        """Rows in and rows out per second; over the whole run, if it was looked at only once."""
        (first, before), (last, after) = self._samples[0], self._samples[-1]
        if last <= first:
            first, before = 0.0, {}
        rows_in, rows_out = after.get(name, (0, 0))
        in_before, out_before = before.get(name, (0, 0))
        passed = max(last - first, 1e-9)
        return (rows_in - in_before) / passed, (rows_out - out_before) / passed


def operator_table(operators: Operators, rates: Rates, seconds: float) -> Table:
    """The operators after so many seconds."""
    rows = []
    for name, each in operators.items():
        inside = _users_own(each.get("inside", {}))
        several = len(inside) > 1
        names = f"{next(iter(inside))} … {name}" if several else _names(name, each)
        rows.append((names, _cells(each, rates.of(name), seconds)))
        if several:
            whole = _watched(each, seconds)
            rows += [(f"· {own}", _part_cells(part, whole)) for own, part in inside.items()]
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    made.add_column("operator")
    shown = [column for column in HEADINGS if any(column in cells for _, cells in rows)]
    for column in shown:
        made.add_column(HEADINGS[column], justify="right", no_wrap=True)
    for names, cells in rows:
        made.add_row(names, *(cells.get(column, "") for column in shown))
    return made


def _users_own(inside: Operators) -> dict[str, dict[str, Any]]:
    """The operators inside a kernel; what the planner added to one is counted with it."""
    found: dict[str, dict[str, Any]] = {}
    added: list[Mapping[str, Any]] = []  # they stand before the operator that they belong to
    for name, each in inside.items():
        if name.rpartition(".")[0] in inside:
            added.append(each)
            continue
        parts, added = [*added, each], []
        rows_in, rows_out = parts[0]["rows_in"], each["rows_out"]
        seconds = sum(part["seconds"] for part in parts)
        found[name] = {**each, "rows_in": rows_in, "rows_out": rows_out, "seconds": seconds}
    return found


def _names(name: str, measured: Mapping[str, Any]) -> str:
    inside = measured.get("operators", [])
    # What the planner added to an operator is named after it and is not the user's.
    users = [each for each in inside if each.rpartition(".")[0] not in inside]
    return "\n→ ".join(users) if users else name


def _cells(
    measured: Mapping[str, Any], rates: tuple[float, float], seconds: float
) -> dict[str, str]:
    """What is to be said of an operator, by column."""
    rows_in, rows_out, spent = measured["rows_in"], measured["rows_out"], measured["seconds"]
    computes = "operators" in measured or rows_out > 0
    cells = {"in": short(rates[0]), "rows": short(rows_in)}
    if computes:
        selectivity = measured.get("selectivity")
        if selectivity is None and rows_in:
            selectivity = rows_out / rows_in
        cells["out"] = short(rates[1])
        cells |= {} if selectivity is None else {"passed": f"{selectivity:.3g}"}
    cost = measured.get("ns_per_row")
    if cost is None and rows_in and spent:
        cost = spent / rows_in * 1e9
    cells |= {} if cost is None else {"cost": f"{cost:.2f}"}
    cells |= {"pending": short(measured["pending"])} if "pending" in measured else {}
    cells |= _shares(measured, computes, seconds)
    if measured.get("late_rows"):
        cells["late"] = short(measured["late_rows"])
    if measured.get("failed_rows"):
        cells["failed"] = short(measured["failed_rows"])
    if measured.get("state_keys"):
        cells["state"] = f"{measured['state_keys']:,} keys, {short(measured['state_bytes'])}B"
    return cells | _ordering(measured)


def _ordering(measured: Mapping[str, Any]) -> dict[str, str]:
    """Of an operator that several workers run: how full its reorder buffer is, and how long a slice
    that is done lies there; how uneven the rows of its key groups are.

    >>> _ordering({"reordered": 4, "reorder_seconds": 2e-4, "reordering": 3, "reordering_room": 16})
    {'reordering': '3 of 16', 'waited': '50 µs'}
    """
    cells = {}
    if "reordering" in measured:
        cells["reordering"] = f"{measured['reordering']} of {measured['reordering_room']}"
    if measured.get("reordered"):
        cells["waited"] = f"{measured['reorder_seconds'] / measured['reordered'] * 1e6:.0f} µs"
    if "skew" in measured:
        cells["skew"] = f"{measured['skew']:.2f}"
    return cells


def _part_cells(measured: Mapping[str, Any], whole: float) -> dict[str, str]:
    """What is to be said of an operator inside a kernel that was watched for `whole` seconds."""
    rows_in, spent = measured["rows_in"], measured["seconds"]
    cells = {"rows": short(rows_in), "busy": f"{spent / whole:.0%}"}
    if rows_in:
        cells["passed"] = f"{measured['rows_out'] / rows_in:.3g}"
        cells["cost"] = f"{spent / rows_in * 1e9:.2f}"
    return cells


def _watched(measured: Mapping[str, Any], seconds: float) -> float:
    """How long an operator was watched: busy, starved and blocked; or the run's time."""
    times = [measured[kind] for kind in WAITING if kind in measured]
    return max(sum(times, measured["seconds"]) if times else seconds, 1e-9)


def _shares(measured: Mapping[str, Any], computes: bool, seconds: float) -> dict[str, str]:
    """How an operator spends its time: of all that it was watched, or of the run's."""
    times = {kind: measured[kind] for kind in WAITING if kind in measured}
    if times:
        times, whole = {"busy": measured["seconds"], **times}, _watched(measured, seconds)
        return {kind: f"{part / whole:.0%}" for kind, part in times.items()}
    if computes and seconds > 0:
        return {"busy": f"{measured['seconds'] / seconds:.0%}"}
    return {}
