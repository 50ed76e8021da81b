"""Elasticity against synthetic curves: it settles within one level of the best, and stays."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.control import Elasticity

DOUBLING = (1, 2, 4, 8, 16, 32, 64, 128, 176)


def peak(best, slope=0.2):
    return lambda level: 1000 * (level if level <= best else max(best * (1 - slope), 1))


def plateau(best):
    return lambda level: 1000 * min(level, best)


def follow(elasticity, curve, periods, noise=0.0, seed=0):
    """The levels that it takes, period by period."""
    random_numbers = random.Random(seed)
    taken = []
    for _ in range(periods):
        taken.append(elasticity.level)
        throughput = curve(elasticity.level) * max(random_numbers.gauss(1, noise), 0.01)
        elasticity.update(throughput)
    return taken


def near(elasticity, levels, best):
    place = elasticity.levels.index(best)
    return all(abs(elasticity.levels.index(level) - place) <= 1 for level in levels)


@pytest.mark.parametrize("remember", [False, True])
@given(best=st.integers(1, 16), shape=st.sampled_from([peak, plateau]))
def test_it_settles_on_a_curve_without_noise(remember, best, shape):
    elasticity = Elasticity(16, remember=remember)
    levels = follow(elasticity, shape(best), 200)
    assert near(elasticity, levels[-50:], best)
    assert len(set(levels[-50:])) == 1


@given(best=st.sampled_from(DOUBLING), shape=st.sampled_from([peak, plateau]))
def test_levels_need_not_be_neighbours(best, shape):
    elasticity = Elasticity(176, levels=DOUBLING)
    levels = follow(elasticity, shape(best), 100)
    assert near(elasticity, levels[-30:], best) and len(set(levels[-30:])) == 1


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1])
@given(seed=st.integers(0, 1000), best=st.sampled_from([1, 3, 6]))
def test_it_stays_when_throughput_is_noisy(noise, seed, best):
    elasticity = Elasticity(8)
    levels = follow(elasticity, peak(best, slope=0.3), 1500, noise, seed)
    settled = levels[-700:]
    assert near(elasticity, settled, best)
    moves = sum(a != b for a, b in pairwise(settled))
    assert moves <= 2


def test_without_memory_noise_makes_it_oscillate():
    """The paper's open problem (§5.4), and that memory is what solves it."""
    moves = {}
    for remember in (False, True):
        levels = follow(Elasticity(8, remember=remember), plateau(6), 1500, 0.08, seed=1)[-700:]
        moves[remember] = sum(a != b for a, b in pairwise(levels))
    assert moves[False] > 100 and moves[True] == 0


@pytest.mark.parametrize("remember", [False, True])
@given(first=st.integers(1, 12), second=st.integers(1, 12))
def test_it_follows_a_workload_that_shifts(remember, first, second):
    elasticity = Elasticity(12, remember=remember)
    follow(elasticity, peak(first), 150)
    # twice the work per row, and another best level: seen wherever it stands
    levels = follow(elasticity, lambda level: peak(second)(level) / 2.7, 200)
    assert near(elasticity, levels[-50:], second) and len(set(levels[-50:])) == 1


def test_it_follows_a_shift_through_noise():
    elasticity = Elasticity(8)
    follow(elasticity, plateau(2), 400, 0.05, seed=3)
    levels = follow(elasticity, lambda level: plateau(6)(level) / 2, 800, 0.05, seed=4)
    assert near(elasticity, levels[-200:], 6)


def test_the_rules_step_by_step():
    """Fig. 8 by hand: levels 1, 2, 3 give 100, 200, 200."""
    elasticity = Elasticity(4, remember=False)
    assert elasticity.update(100) == 2  # rule 3: level 1, nothing known above
    assert elasticity.update(200) == 3  # rule 1: better than below, nothing known above
    assert elasticity.update(200) == 2  # rule 5: no better than below
    assert elasticity.update(200) == 2  # rule 6: better than below, not worse than above
    assert elasticity.update(300) == 1  # another load: nothing is trusted, rule 4
    assert elasticity.update(150) == 2  # rule 2: level 2 was better


def test_a_busy_machine_gets_no_more_threads():
    elasticity = Elasticity(8, remember=False)
    for _ in range(20):
        elasticity.update(elasticity.level * 100, cpu=0.81)
    assert elasticity.level == 1
    assert elasticity.update(100, cpu=0.8) == 2


def test_a_difference_of_five_percent_is_none():
    elasticity = Elasticity(4, remember=False)
    elasticity.update(100)
    assert elasticity.update(105) == 1  # not more than 5 %
    elasticity = Elasticity(4, remember=False)
    elasticity.update(100)
    assert elasticity.update(105.1) == 3


def test_threads_that_cannot_be_suspended_put_decisions_off():
    elasticity = Elasticity(4, remember=False)
    assert elasticity.update(100, running=2) == 1  # one thread too many did not stop
    assert elasticity.postponed == 1
    assert elasticity.update(100, running=1) == 2


def test_the_least_level_is_kept():
    elasticity = Elasticity.for_ports(8, input_ports=2)
    levels = follow(elasticity, lambda level: 1000 / level, 50)
    assert min(levels) == 3


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="must rise"):
        Elasticity(4, least=5)
    with pytest.raises(ValueError, match="must rise"):
        Elasticity(4, levels=[1, 3, 2])
    with pytest.raises(ValueError, match="throughput=nan"):
        Elasticity(4).update(float("nan"))
