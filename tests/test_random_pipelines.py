"""Random pipelines against the naive reference: interpreted, compiled, cut anyhow, over shards.

Random cases run mostly interpreted, the same source as compiled. The compiled corpus follows from
seeds, so that its kernels are found in the cache when tests run again. How many there were is said
at the end of the run.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.choices import Choices, Seeded, choices
from tests.counts import count
from tests.naive import naive, rows_of
from tests.pipelines import Shape, build, random_pipeline
from tests.running import (
    CAPACITIES,
    ROW_ERRORS,
    assert_same,
    check,
    in_any_order,
    is_ordered,
    noted,
    order_matters,
    run_staged,
)

from headrace.testing.stages import run_stages

COMPILED_IN_CI = 30  # distinct pipelines
COMPILED_IN_SOAK = 300
INPUTS = 6  # of each compiled pipeline
SEEDS_PER_TEST = 10

pytestmark = pytest.mark.timeout(900)  # with a cold kernel cache


def options(choose: Choices) -> dict:
    """How a run cuts its blocks and its input, and which rewrites it uses."""
    return {
        "capacity": choose.pick(CAPACITIES),
        "cuts": choose,
        "fuse": choose.pick(["auto", "none"]),
        "prune": choose.chance(50),
    }


# ---- interpreted ---------------------------------------------------------------------------


@settings(max_examples=settings().max_examples * 5)
@given(choices())
def test_random_pipelines_agree_with_the_reference(choose):
    outputs = random_pipeline(choose, most_rows=25)
    count("random pipelines, interpreted", check(outputs, **options(choose)))


@pytest.mark.parametrize("part", range(5))
def test_seeded_pipelines_agree_with_the_reference(part):
    for seed in range(100 * part, 100 * part + 100):
        choose = Seeded(seed)
        outputs = random_pipeline(choose)
        with noted(f"seed {seed}"):
            count("random pipelines, interpreted", check(outputs, **options(choose)))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(5, 110))
def test_many_seeded_pipelines_agree_with_the_reference(part):
    test_seeded_pipelines_agree_with_the_reference(part)


@given(choices())
def test_cuts_fusion_and_pruning_change_nothing(choose):
    """However blocks and pushes are cut: the same rows, and the same order where there is one."""
    outputs = random_pipeline(choose, most_rows=25)
    ordered = [is_ordered(output.node) for output in outputs]
    try:
        whole = run_staged(outputs, capacity=8192)
        for _ in range(3):
            found = run_staged(outputs, **options(choose))
            for one, other, in_order in zip(found, whole, ordered, strict=True):
                assert_same(one, other, ordered=in_order)
    except ROW_ERRORS:
        count("pipelines cut in several ways", False)
        return
    count("pipelines cut in several ways")


@given(choices())
def test_channels_are_mixed_without_loss(choose):
    """Lateness is a matter of each channel, so even beyond the bound the result is one."""
    shape = Shape.of(choose)
    shape = Shape(shape.schema, (3,), disorder=20, bound=choose.pick([0, 5, 20]))
    outputs = build(choose, shape, shape.tables(choose, 15), steps=3)
    count("pipelines over three channels", check(outputs, **options(choose)))


@given(choices())
def test_shards_give_the_same_rows(choose):
    _check_shards(random_pipeline(choose, most_rows=25), choose)


@pytest.mark.parametrize("part", range(2))
def test_seeded_pipelines_over_shards(part):
    for seed in range(100 * part, 100 * part + 100):
        choose = Seeded(seed)
        outputs = random_pipeline(choose)
        with noted(f"seed {seed}"):
            _check_shards(outputs, choose)


def _check_shards(outputs: list, choose: Choices) -> None:
    expected = in_any_order(outputs)
    if expected is None:
        return
    found = run_stages(
        *outputs,
        shards=choose.pick([1, 3, 7]),
        capacity=choose.pick(CAPACITIES),
        fuse=choose.pick(["auto", "none"]),
        batch=choose.pick([1, 5, 1000]),
        seed=choose.number(0, 100),
    )
    for one, other in zip(found.values(), expected, strict=True):
        assert_same(rows_of(one), other, ordered=False)
    count("pipelines over shards")


# ---- compiled ------------------------------------------------------------------------------


@pytest.mark.compiled
@pytest.mark.parametrize("first", range(0, COMPILED_IN_CI, SEEDS_PER_TEST))
def test_compiled_pipelines_agree_with_the_reference(first):
    """Moderate pipelines, each over several inputs in several cuts."""
    for seed in range(first, first + SEEDS_PER_TEST):
        for number in range(INPUTS):
            with noted(f"seed {seed}, input {number}"):
                check_compiled(seed, number)
        count("random pipelines, compiled")


@pytest.mark.soak
@pytest.mark.compiled
@pytest.mark.parametrize("first", range(COMPILED_IN_CI, COMPILED_IN_SOAK, SEEDS_PER_TEST))
def test_many_compiled_pipelines_agree_with_the_reference(first):
    test_compiled_pipelines_agree_with_the_reference(first)


def check_compiled(seed: int, number: int) -> None:
    """One input of one pipeline of the corpus."""
    choose, rows = Seeded(seed), Seeded(1000 * seed + number)
    shape = Shape.of(choose)
    outputs = build(choose, shape, shape.tables(rows, 40), steps=4)
    check(outputs, compiled=True, capacity=rows.pick(CAPACITIES), cuts=rows)


@pytest.mark.compiled
def test_compiled_shards_give_the_same_rows():
    for seed in range(5):
        choose = Seeded(seed)
        shape = Shape.of(choose)
        outputs = build(choose, shape, shape.tables(choose, 40), steps=3)
        if any(order_matters(output.node) for output in outputs):
            continue
        found = run_stages(*outputs, shards=3, capacity=16, compiled=True, batch=7)
        for one, other in zip(found.values(), naive(outputs), strict=True):
            assert_same(rows_of(one), other, ordered=False)
        count("compiled pipelines over shards")
