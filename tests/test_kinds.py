"""A new kind of windows, of joins, and a new aggregate are one class each, and what runs them knows
none by name: here are toys, on every engine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import headrace as hr
from headrace.expr.aggregates import Agg
from headrace.plan import build_joins
from headrace.plan.aggregates import kinds
from headrace.plan.aggregates.base import Change, Result
from headrace.plan.aggregates.base import Kind as AggregateKind
from headrace.plan.expressions import Aggregate, Column
from headrace.plan.types import int64
from headrace.plan.windows.base import START, Window, Words
from headrace.plan.windows.interval import Interval
from headrace.time import Windows


@dataclass(frozen=True)
class Growing(Window):
    """Windows that end at the squares of whole numbers, and begin where the one before ended."""

    @classmethod
    def of(cls, time):
        return cls()

    def __str__(self) -> str:
        return "growing"

    def pane(self, words: Words, time: str) -> str:
        return f"int(float_sqrt(float({time})))"

    def first_end(self, words: Words, pane: str) -> str:
        return f"(({pane} + 1) * ({pane} + 1))"

    def results(self, words: Words, end: str, measures: Mapping[str, str]) -> dict[str, str]:
        root = f"int(float_sqrt(float({end}))) - 1"
        return {START: f"(({root}) * ({root}))"}


class Product(AggregateKind):
    """The product of whole numbers."""

    def type(self, of):
        return int64

    def fields(self, of):
        return (("product", int64),)

    def initial(self, of):
        return {"product": "1"}

    def add(self, kept, given, time, code):
        return [Change("product", (f"multiply({kept['product'].word}, {given.word})",))]

    def merge(self, kept, other, code):
        return self.add(kept, other["product"], None, code)

    def result(self, kept, code):
        return Result(kept["product"].words)


@dataclass(frozen=True)
class Even(Interval):
    """A kind of join: rows that are near, and an even number of units apart."""

    def are_partners(self, left: str, right: str) -> str:
        return f"{super().are_partners(left, right)} and ({right} - {left}) % 2 == 0"


RUNS = (("thread", {"compiled": False}), ("thread", {}), ("node", {}))


def test_toys_on_engines(monkeypatch):
    monkeypatch.setitem(kinds.KINDS, "product", Product)
    rows = {"t": [0, 1, 2, 3, 4, 8, 2, 9, 3], "k": [k % 2 for k in range(9)], "x": [2] * 9}
    stream = hr.read.memory(rows).with_watermark("t", 5).key_by("k")
    made = stream.window(Windows("growing", Growing.of, {})).agg(
        n=hr.count(), p=Agg(Aggregate("product", Column("x")))
    )
    expected = [
        (0, 0, 1, 2), (0, 1, 2, 4), (1, 1, 2, 4), (0, 4, 1, 2), (1, 4, 1, 2), (1, 9, 1, 2),
    ]  # fmt: skip
    for engine, options in RUNS:
        outputs = [made.write.collect(), made.late().write.collect()]
        hr.run(*outputs, engine=engine, **options)
        assert [tuple(row.values()) for row in outputs[0].result().to_pylist()] == expected
        assert [row["t"] for row in outputs[1].result().to_pylist()] == [3]


def test_a_toy_join_on_engines(monkeypatch):
    monkeypatch.setattr(build_joins, "Interval", Even)
    left = hr.read.memory({"k": [1, 1, 2], "t": [0, 3, 4]}).with_watermark("t", 0)
    right = hr.read.memory({"k": [1, 1, 2], "u": [2, 3, 9]}).with_watermark("u", 0)
    made = left.interval_join(right, "k", before=3, after=6)
    for engine, options in RUNS:
        output = made.write.collect()
        hr.run(output, engine=engine, **options)
        found = [(row["t"], row["u"]) for row in output.result().to_pylist()]
        assert sorted(found) == [(0, 2), (3, 3)]


def test_nobody_knows_kinds_of_windows_and_aggregates_by_name():
    """Outside of their own modules and of the checks of what users write: so a new one is a file,
    and its name in a list or in the API."""
    folder = Path(kinds.__file__).parents[2]
    names = [kind.__name__ for kind in {*kinds.KINDS.values()}]
    names += ["Tumbling", "Sliding", "Session", "Calendar", "Repeated", "Everything"]
    said = re.compile(rf"\bimport .*\b({'|'.join(names)})\b")
    found = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if said.search(path.read_text()) and path.parent.name not in ("windows", "aggregates")
    }
    assert found == {"time.py", "stream.py", "plan/build_joins.py"}


@pytest.mark.parametrize("name", sorted(kinds.KINDS))
def test_every_kind_is_found_by_its_name(name):
    assert kinds.kind_of(Aggregate(name, argument=1)).argument == 1
