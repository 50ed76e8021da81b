"""Hashes: the same in both modes, for ever, and well spread."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stage.both import mode

from headrace.stage.memory.records import compiled, interpreted
from headrace.stage.strings.hashing import combine, hash_float, hash_int, hash_words, mix
from headrace.stage.strings.heap import new_heap
from headrace.stage.strings.text import words

many = settings(max_examples=150, deadline=None)


@many
@given(value=st.integers(-(2**63), 2**63 - 1), other=st.integers(-(2**63), 2**63 - 1))
def test_integer_hashes_agree(value, other):
    for function, arguments in [(hash_int, (value,)), (combine, (value, other))]:
        assert function(*arguments) == interpreted(function)(*arguments)
    assert mixed(value, other) == mix(value, other)


@compiled
def mixed(a, b):
    return mix(a, b)


@many
@given(value=st.floats())
def test_float_hashes_agree(value):
    assert hash_float(value) == interpreted(hash_float)(value)
    assert hash_float(-0.0) == hash_float(0.0)
    assert hash_float(math.nan) == hash_float(-math.nan)


@mode
def test_hashes_never_change(mode):
    """Key groups in saved states depend on these numbers."""
    heap = new_heap(1000)
    found = [mode(hash_words)(*words(s, heap)) for s in ("", "key", "x" * 13, "y" * 40)]
    found += [mode(hash_int)(1), mode(hash_float)(1.5), mode(combine)(1, 2)]
    assert found == GOLDEN


GOLDEN = [
    -3559812226017314060,
    5740903986358978901,
    -6536505114290403680,
    -2069768447243280216,
    -4413055106099677979,
    8898143094191192857,
    3246891210449051841,
]


def test_integers_spread():
    for step in (1, 8, 1 << 20, 1 << 32):
        for shift in (0, 57):
            groups = [0] * 128
            for k in range(12_800):
                groups[hash_int(k * step) >> shift & 127] += 1
            assert 50 < min(groups) and max(groups) < 160
