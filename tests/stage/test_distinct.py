"""Sets of values against Python's, also large ones, in which values wait for their slots."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.stage.memory.records import compiled, interpreted
from headrace.stage.sketches.distinct import (
    AHEAD,
    Distinct,
    distinct_add,
    distinct_count,
    distinct_merge,
    distinct_merge_room,
    distinct_room,
    word_view,
)
from headrace.stage.strings.text import new_heap, words

SMALL = {"LARGE": 8}  # slots from which on values wait
VALUES = st.one_of(
    st.integers(-5, 40),
    st.sampled_from(["", "a", "short enough", "not short enough", "a text that is quite long"]),
)


class Kept:
    """A set, and the memory that it has taken."""

    def __init__(self, **settings):
        self.words, self._settings = (0, 0), settings
        self._heaps = []  # what is copied from old ones is read still

    def add(self, value):
        text = new_heap(1 << 10)
        is_text = isinstance(value, str)
        view = words(value, text) if is_text else word_view(value)
        long_bytes = len(value) if is_text else 0
        room = self._call(distinct_room, *self.words, 1, long_bytes)
        self.words = self._call(distinct_add, *self.words, *view, long_bytes, self._heap(room))

    def merge(self, other):
        room = self._call(distinct_merge_room, *self.words, *other.words)
        self.words = self._call(distinct_merge, *self.words, *other.words, self._heap(room))

    @property
    def count(self):
        return self._call(distinct_count, *self.words)

    def _call(self, function, *arguments):
        return interpreted(function, **self._settings)(*arguments)

    def _heap(self, room):
        self._heaps.append(new_heap(max(room, 1)))
        return self._heaps[-1]


@pytest.mark.parametrize("settings", [{}, SMALL], ids=["small", "large"])
@given(parts=st.lists(st.lists(VALUES, max_size=60), min_size=1, max_size=3))
def test_sets_agree_with_those_of_python(settings, parts):
    whole, expected = Kept(**settings), set()
    for part in parts:
        made = Kept(**settings)
        for value in part:
            made.add(value)
            expected.add(value)
        whole.merge(made)
        whole.merge(made)  # it is as it was
        assert made.count == len(set(part))
    assert whole.count == len(expected)
    assert whole.count == len(expected)


def test_values_wait_in_a_large_set():
    """Otherwise the test above would not see them."""
    made = Kept(**SMALL)
    for value in range(AHEAD):
        made.add(value)
    head = Distinct(made.words[1])
    assert head.came - head.went > 1 and head.count < AHEAD
    assert made.count == AHEAD


@compiled
def add_all(values, heap):
    head, tail = 0, 0
    for value in values:
        first, second = word_view(value)
        head, tail = distinct_add(head, tail, first, second, 0, heap)
    return distinct_count(head, tail)


@pytest.mark.compiled
@settings(max_examples=10)
@given(st.integers(1, 20_000), st.integers(0, 99))
def test_many_values_compiled(different, seed):
    values = np.random.default_rng(seed).integers(0, different, 30_000)
    assert add_all(values, new_heap(1 << 22)) == len(set(values.tolist()))
