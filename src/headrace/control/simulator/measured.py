"""A profile from what a run has counted, so that the simulator can say what would have been."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..errors import ControlError
from .profile import Operator, Profile

MANY = 1 << 10  # runs at once of what any number of workers can share
LATE = " (late)"


@dataclass(frozen=True)
class Measured:
    """An operator of a run: where it stands, and what was counted of it; times are seconds.

    late: the rows that came too late, which another output gives. late_inputs: the operators
    whose late rows it reads. lasted, waited: of a source, for how long rows could come, and for how
    much of it there was none.
    """

    name: str
    inputs: tuple[str, ...]
    rows_in: int
    rows_out: int
    seconds: float
    parallelism: int = 1
    hosted: bool = False
    capacity: int = Operator.capacity
    state_bytes: int = 0
    late: int = 0
    late_inputs: tuple[str, ...] = ()
    lasted: float = 0.0
    waited: float = 0.0


def profile_of(operators: Iterable[Measured], priority: float = 0.0) -> Profile:
    """The profile of a query.

    A source that waited for rows for more than half of its time gave them at the rate at which they
    came; any other one gives them as fast as they are taken.

    >>> rows = Measured("rows", (), 1000, 1000, 0.1, lasted=10.0, waited=9.0)
    >>> few = Measured("few", ("rows",), 1000, 10, 0.5)
    >>> sink = Measured("sink", ("few",), 10, 10, 0.1)
    >>> rows, few, sink = profile_of([rows, few, sink]).operators
    >>> rows.arrivals, rows.rate, few.cost, few.selectivity
    ('steady', 100.0, 0.0005, 0.01)
    """
    given = list(operators)
    if not any(each.rows_in for each in given):
        raise ControlError("nothing was read yet, so there is nothing to tell of")
    read = {name for each in given for name in each.inputs}
    made = []
    for each in given:
        rows = max(each.rows_in, 1)
        late = tuple(f"{name}{LATE}" for name in each.late_inputs)
        operator = Operator(
            each.name,
            cost=each.seconds / rows,
            selectivity=each.rows_out / rows if each.name in read else 1.0,  # they leave
            inputs=each.inputs + late,
            capacity=each.capacity,
            parallelism=each.parallelism,
            hosted=each.hosted,
            state_bytes=each.state_bytes,
            user_priority=priority,
            query_class=int(priority),
        )
        if not operator.inputs and each.rows_in and each.waited > each.lasted / 2:
            operator = replace(operator, arrivals="steady", rate=each.rows_in / each.lasted)
        elif not operator.inputs and not each.rows_in:
            operator = replace(operator, arrivals="none")
        made.append(operator)
        if any(each.name in other.late_inputs for other in given):
            # an operator of the simulator gives all readers the same: late rows go beside it
            part = each.late / rows
            late_rows = replace(operator, name=f"{each.name}{LATE}", cost=0.0, selectivity=part)
            made.append(late_rows)
    return Profile.of(made, measured=True)
