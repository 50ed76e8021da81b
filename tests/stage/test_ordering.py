"""Pairs sorted by their prefixes, against Python's sort; compiled and interpreted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stage.both import mode

from headrace.stage.ordering import COUNTERS, FEW, sort_by_prefix


@mode
@settings(max_examples=40)
@given(prefixes=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), max_size=60))
def test_pairs_are_sorted_and_equal_ones_keep_their_order(mode, prefixes):
    assert_sorted(mode, prefixes)


@mode
@pytest.mark.parametrize("bits", [0, 1, 10, 11, 20, 21, 63, 64])
def test_many_pairs_are_sorted_by_wider_digits(mode, bits):
    chance = np.random.default_rng(bits)
    prefixes = chance.integers(-(2**63), 2**63, FEW + 1) >> (64 - bits if bits else 63)
    assert_sorted(mode, (prefixes if bits else prefixes * 0).tolist())


def assert_sorted(mode, prefixes):
    """Sort pairs of prefixes and their places, against Python's sort."""
    count = len(prefixes)
    pairs, counters = np.zeros(4 * count + 1, np.int64), np.zeros(COUNTERS, np.int64)
    pairs[0 : 2 * count : 2], pairs[1 : 2 * count : 2] = prefixes, range(count)
    at = mode(sort_by_prefix)(pairs.ctypes.data, count, counters.ctypes.data)
    found = pairs[2 * at : 2 * (at + count)].reshape(-1, 2).tolist()
    assert found == sorted([[prefix, k] for k, prefix in enumerate(prefixes)])


@mode
def test_nothing_is_sorted_without_memory(mode):
    assert mode(sort_by_prefix)(0, 0, 0) == 0
