"""Every operator and random pipelines: the same rows on Spark, on a node, and in the reference.

Many pipelines are packed into one query. Their channels are cut into several micro-batches; rows
out of order beyond the bound are among them, so every row is in its window or late, once. Where
the result depends on the order of rows, they come from one channel over one exchange.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import count as numbers

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.choices import Choices, Seeded, choices
from tests.counts import count
from tests.naive import Row, rows_of
from tests.pipelines import OPERATORS, Builder, Shape, random_pipeline
from tests.running import assert_same, in_any_order

import headrace as hr
from headrace.asked import planned
from headrace.plan.build import PlainPythonWarning
from headrace.plan.explain import explain_plan
from headrace.write import Output

DISTINCT = list(dict.fromkeys(OPERATORS))
IN_CI = 24
IN_SOAK = 200
PACKED = 24  # pipelines in a query, at most
BATCH = 7  # rows that a channel gives to a micro-batch

Case = tuple[list[Output], list[list[Row]]]  # a pipeline, and what it should give


@pytest.fixture(autouse=True)
def plain_python():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PlainPythonWarning)
        yield


# ---- pipelines -----------------------------------------------------------------------------


def checked(outputs: list[Output]) -> Case | None:
    """A pipeline whose rows can be compared: none fails, and their order does not matter."""
    expected = in_any_order(outputs)
    return None if expected is None else (outputs, expected)


def of_every_operator(name: str) -> Iterator[Case]:
    """One operator behind a source with one channel, for each."""
    for operator in DISTINCT:
        for seed in numbers():
            made = checked(_with(operator, Seeded(seed), f"{name}_{operator.__name__}_"))
            if made is not None and any(made[1]):
                yield made
                break


def _with(operator: Callable, choose: Choices, name: str) -> list[Output]:
    shape = Shape.of(choose, channels=1)
    (rows,) = Shape(shape.schema, (1,), shape.disorder, shape.bound).tables(choose, 30)
    builder = Builder(choose, [hr.read.memory(rows, schema=shape.schema, name=name)], shape.bound)
    made = operator(builder, builder.streams[0])
    return [stream.write.collect() for stream in (made, *builder.streams[:1])]


def seeded(number: int, first: int) -> list[Case]:
    """So many random pipelines with an exchange, from seeds."""
    found: list[Case] = []
    for seed in numbers(first):
        _add(found, Seeded(seed), f"seed_{seed}_")
        if len(found) == number:
            return found
    raise AssertionError


def drawn(number: int) -> list[Case]:
    """So many random pipelines with an exchange, drawn by hypothesis."""
    found: list[Case] = []

    @settings(
        max_examples=15 * number,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(choices())
    def draw(choose):
        _add(found, choose, f"drawn_{len(found)}_")

    draw()
    assert len(found) >= number
    return found[-number:]  # the first ones are small


def _add(found: list[Case], choose: Choices, name: str) -> None:
    made = checked(random_pipeline(choose, most_rows=30, name=name))
    if made is not None and any(made[1]) and len(planned(made[0]).stages()) > 1:
        found.append(made)


# ---- running -------------------------------------------------------------------------------


def check(cases: list[Case], session, shards: int) -> None:
    """All of them in one query on Spark, and together on a node."""
    outputs = [output for case in cases for output in case[0]]
    sources = {n.name: n for s in planned(outputs).stages() for n in s.inputs if n.kind == "source"}
    channels = sum(len(node.connector.channels()) for node in sources.values())
    job = hr.run(
        *outputs,
        engine="spark",
        session=session,
        compiled=False,
        shards=shards,
        batch_rows=BATCH * channels,
    )
    assert job.status == "finished"
    assert job.progress().batches > 2
    compare(cases, "Spark")
    hr.run(*outputs, engine="node", workers=2, compiled=False)
    compare(cases, "a node")


def compare(cases: list[Case], where: str) -> None:
    for outputs, expected in cases:
        try:
            for output, rows in zip(outputs, expected, strict=True):
                assert_same(rows_of(output.result()), rows, ordered=False)
        except AssertionError as error:
            error.add_note(f"on {where}\n{explain_plan(planned(outputs))}")
            raise
        count(f"pipelines compared on {where}")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("shards", [1, 7])
def test_pipelines(session, shards):
    half = IN_CI // 2
    cases = [*seeded(half, 100 * shards), *drawn(half)]
    if shards == 1:
        cases += of_every_operator("every")
    check(cases, session, shards)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shards", [1, 7])
@pytest.mark.parametrize("part", range(IN_SOAK // PACKED + 1))
def test_many_pipelines(session, part, shards):
    half = PACKED // 2
    cases = [*seeded(half, 1000 * (part + 1)), *drawn(half)]
    if part == 0:
        cases += of_every_operator("every")
    check(cases, session, shards)
