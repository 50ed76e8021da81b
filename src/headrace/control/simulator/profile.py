"""What is simulated: operators with what they cost and give, from a measured run or by hand.

A profile is a JSON object, `{"format": 1, "operators": [...]}`; each operator is an object with the
fields of `Operator` (only `name` and `cost` are needed), `inputs` names the operators before it.
With `"measured": true` costs are those of a run, which hold what reading and writing queues takes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

from ..errors import ControlError
from ..graph import Graph

FORMAT = 1
ARRIVALS = ("endless", "steady", "poisson", "none")
SERVICES = ("fixed", "exponential")


@dataclass(frozen=True)
class Operator:
    """One operator; times are seconds.

    >>> Operator("filter", cost=1e-7, selectivity=0.5).capacity
    1024
    """

    name: str
    cost: float  # seconds per row taken
    selectivity: float = 1.0  # rows given per row taken, to each reader or (split) to all together
    inputs: tuple[str, ...] = ()
    query: int = 0
    capacity: int = 1024  # rows that its input queue holds
    split: bool = False  # rows go to the readers in turns; otherwise to each of them
    parallelism: int = 1  # runs at once: 1 stateful, partitions, or many (Ordered §6)
    hosted: bool = False  # it calls Python: the node engine has threads beside the workers for it
    row_bytes: int = 64
    state_bytes: int = 0
    user_priority: float = 0.0
    query_class: int = 0
    deadline: float | None = None  # seconds that a row may take
    service: str = "fixed"  # or "exponential": the cost of a row is random
    pending: int = 0  # rows that wait at the start
    # Of operators without inputs: "endless" as fast as they can, else rows come at `rate`.
    arrivals: str = "endless"
    rate: float = 0.0  # rows per second, while it is on
    on: float = 0.0  # seconds of each burst, and ...
    off: float = 0.0  # ... seconds of silence behind it; 0: no bursts

    def __post_init__(self) -> None:
        where = f"operator {self.name!r}"
        for name in ("cost", "selectivity", "rate", "on", "off"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0):
                raise ControlError(f"{where}: {name}={value}: must be a number from 0 on")
        for name in ("capacity", "parallelism", "row_bytes"):
            if getattr(self, name) < 1:
                raise ControlError(f"{where}: {name}={getattr(self, name)}: must be at least 1")
        for name, known in (("arrivals", ARRIVALS), ("service", SERVICES)):
            if getattr(self, name) not in known:
                raise ControlError(
                    f"{where}: {name}={getattr(self, name)!r}: must be one of {', '.join(known)}"
                )
        if self.arrivals in ("steady", "poisson") and not self.inputs and self.rate <= 0:
            raise ControlError(f"{where}: {self.arrivals} arrivals need a rate above zero")


@dataclass(frozen=True)
class Profile:
    """Operators of one or several queries.

    >>> profile = Profile.of([Operator("source", 1e-7), Operator("sink", 2e-7, inputs=("source",))])
    >>> Profile.from_json(profile.to_json()) == profile
    True
    >>> profile.graph.edges
    ((0, 1),)
    """

    operators: tuple[Operator, ...]
    measured: bool = False  # costs hold what moving rows between operators takes

    @classmethod
    def of(cls, operators: Iterable[Operator], *, measured: bool = False) -> Profile:
        """A profile, checked."""
        profile = cls(tuple(operators), measured)
        names = [operator.name for operator in profile.operators]
        if not names:
            raise ControlError("a profile needs at least one operator")
        twice = (
            {name for name in names if names.count(name) > 1}
            if len(set(names)) < len(names)
            else ()
        )
        for name in sorted(twice):
            raise ControlError(f"two operators are named {name!r}; names must differ")
        known = set(names)
        for operator in profile.operators:
            for name in operator.inputs:
                if name not in known:
                    raise ControlError(
                        f"operator {operator.name!r}: no operator {name!r} to read from"
                    )
        _ = profile.graph.order  # refuses cycles
        return profile

    @classmethod
    def together(cls, profiles: Sequence[Profile]) -> Profile:
        """Queries that run beside each other: their operators get numbers before their names.

        >>> one = Profile.of([Operator("rows", 1e-7)])
        >>> [(o.name, o.query) for o in Profile.together([one, one]).operators]
        [('0.rows', 0), ('1.rows', 1)]
        """
        made: list[Operator] = []
        measured = [profile.measured for profile in profiles]
        if any(measured) != all(measured):
            raise ControlError(
                "profiles of runs and profiles by hand cannot be put together: costs of the first\n"
                "  hold what moving rows takes, those of the others do not\n"
                '  fix: give "measured" the same value in all of them'
            )
        for profile in profiles:
            first = max((operator.query for operator in made), default=-1) + 1
            for operator in profile.operators:
                query = first + operator.query
                inputs = tuple(f"{first}.{name}" for name in operator.inputs)
                name = f"{first}.{operator.name}"
                made.append(replace(operator, name=name, inputs=inputs, query=query))
        return cls.of(made, measured=all(measured))

    def with_priorities(self, priorities: Sequence[float]) -> Profile:
        """The same with other priorities, one for each query.

        >>> Profile.of([Operator("rows", 1e-7)]).with_priorities([2]).operators[0].user_priority
        2
        """
        queries = sorted({operator.query for operator in self.operators})
        if len(queries) != len(priorities):
            raise ControlError(f"{len(queries)} queries, but {len(priorities)} priorities")
        given = dict(zip(queries, priorities, strict=True))
        operators = (
            replace(o, user_priority=given[o.query], query_class=int(given[o.query]))
            for o in self.operators
        )
        return replace(self, operators=tuple(operators))

    @property
    def graph(self) -> Graph:
        """The topology."""
        number = {operator.name: place for place, operator in enumerate(self.operators)}
        edges = [
            (number[name], place)
            for place, operator in enumerate(self.operators)
            for name in operator.inputs
        ]
        return Graph.of(list(number), edges, [operator.query for operator in self.operators])

    def to_json(self) -> str:
        """The profile as text; what has its default value is left out."""
        defaults = {field.name: field.default for field in fields(Operator)}
        listed = [
            {name: value for name, value in asdict(operator).items() if value != defaults[name]}
            for operator in self.operators
        ]
        measured = {"measured": True} if self.measured else {}
        return json.dumps({"format": FORMAT, **measured, "operators": listed}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Profile:
        """A profile from its text.

        >>> Profile.from_json('{"format": 1, "operators": [{"name": "a", "price": 1}]}')
        Traceback (most recent call last):
        headrace.control.errors.ControlError: operator 'a': unknown field 'price'
        """
        try:
            given = json.loads(text)
        except ValueError as error:
            raise ControlError(f"a profile is JSON: {error}") from None
        if not isinstance(given, dict) or given.get("format") != FORMAT:
            raise ControlError(f'a profile is a JSON object with "format": {FORMAT}')
        if not isinstance(given.get("operators"), list):
            raise ControlError('a profile has a list "operators"')
        measured = given.get("measured", False)
        if not isinstance(measured, bool):
            raise ControlError(f'"measured" of a profile is true or false, not {measured!r}')
        return cls.of((_operator(each) for each in given["operators"]), measured=measured)

    def save(self, path: str | Path) -> None:
        """Write it to a file, for `headrace simulate --profile`."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Profile:
        """A profile from a file."""
        return cls.from_json(path.read_text(encoding="utf-8"))


def _operator(given: Any) -> Operator:
    if not isinstance(given, Mapping):
        raise ControlError(f"an operator is a JSON object, not {given!r}")
    named = f"operator {given.get('name', '?')!r}"
    known = {field.name: field.type for field in fields(Operator)}
    for name, value in given.items():
        if name not in known:
            raise ControlError(f"{named}: unknown field {name!r}")
        kind = str(known[name])
        right = {
            "str": isinstance(value, str),
            "float": isinstance(value, int | float) and not isinstance(value, bool),
            "int": isinstance(value, int) and not isinstance(value, bool),
            "bool": isinstance(value, bool),
        }.get(kind, isinstance(value, list) and all(isinstance(each, str) for each in value))
        if not right:
            raise ControlError(f"{named}: {name}={value!r} is not of the type {kind}")
    missing = [name for name in ("name", "cost") if name not in given]
    if missing:
        raise ControlError(f"{named}: the field {missing[0]!r} is missing")
    return Operator(**{**given, "inputs": tuple(given.get("inputs", ()))})
