"""Histograms of latencies, against NumPy."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.node.histogram import (
    BUCKETS,
    LARGEST,
    Histogram,
    Latencies,
    bucket_of,
    merge,
    note,
    reset,
)
from headrace.stage.memory.records import compiled, i64s, interpreted

HOUR = 3_600 * 10**9
ERROR = 0.02

# As often a few nanoseconds as hours.
latencies = st.integers(0, 43).flatmap(lambda bits: st.integers(0, (2 << bits) - 1))
samples = st.lists(latencies, min_size=1, max_size=200)


@compiled
def note_all(histogram, address, count):
    values = i64s(address)
    for i in range(count):
        note(histogram, values[i])


def histogram_of(values):
    made, given_values = Histogram.allocate(), np.array(values, np.int64)
    note_all(made, given_values.ctypes.data, len(given_values))
    return made


def test_buckets_follow_one_another_without_a_gap():
    edges = [0, *sorted({(64 + k) << shift for shift in range(38) for k in range(64)})]
    numbers = [bucket_of(ns) for ns in range(64)] + [bucket_of(edge) for edge in edges[1:]]
    assert numbers == list(range(BUCKETS))
    assert [bucket_of(edge - 1) for edge in edges[1:]] == list(range(63, BUCKETS - 1))
    assert LARGEST > HOUR and bucket_of(LARGEST) == BUCKETS - 1


@given(samples, st.one_of(st.sampled_from([0, 50, 99, 99.9, 100]), st.floats(0, 100)))
def test_percentiles_are_those_of_numpy(values, q):
    found = Latencies.of(histogram_of(values))
    wanted = np.percentile(values, q, method="inverted_cdf")
    got = found.percentile(q)
    assert abs(got - wanted) <= ERROR * wanted
    assert (found.count, found.max) == (len(values), max(values))
    assert math.isclose(found.mean, np.mean(values))


@given(samples)
def test_interpreted_and_compiled_are_one(values):
    made, plain = histogram_of(values), Histogram.allocate()
    for value in values:
        interpreted(note)(plain, value)
    for q in (0, 10, 50, 90, 100):
        assert Latencies.of(made).percentile(q) == Latencies.of(plain).percentile(q)
    assert (made.count, made.sum, made.max) == (plain.count, plain.sum, plain.max)


@given(samples, samples)
def test_merging_is_counting_together(one, other):
    both, merged = histogram_of(one + other), histogram_of(one)
    source = histogram_of(other)
    together = Latencies.of(merged, source)
    merge(merged, source)
    for found in (Latencies.of(merged), together):
        assert found.as_dict_ms() == Latencies.of(both).as_dict_ms()
        assert found.mean == Latencies.of(both).mean
    assert source.count == len(other)


def test_what_is_too_long_or_negative_is_counted():
    found = Latencies.of(histogram_of([-5, LARGEST + 10**6]))
    assert found.count == 2 and found.max == LARGEST + 10**6 == found.percentile(100)
    assert found.percentile(50) == 0


def test_no_samples_have_no_figures():
    histogram = histogram_of([1, 2])
    reset(histogram)
    for empty in (Latencies.of(histogram), Latencies.of()):
        assert empty.count == 0 and math.isnan(empty.p50) and math.isnan(empty.mean)
        said = {"p50": None, "p99": None, "max": None, "samples": 0}
        assert json.loads(json.dumps(empty.as_dict_ms())) == said
        assert repr(empty) == "Latencies(no samples)"


def test_a_summary_does_not_change_while_counting_goes_on():
    histogram = histogram_of([1_000_000])
    found = Latencies.of(histogram)
    note(histogram, 5_000_000)
    assert json.loads(json.dumps(found.as_dict_ms())) == {
        "p50": 1.0, "p99": 1.0, "max": 1.0, "samples": 1
    }  # fmt: skip
    assert repr(found) == "Latencies(1 samples: p50 1, p99 1, max 1 ms)"


def test_a_percentile_lies_between_0_and_100():
    with pytest.raises(ValueError, match="from 0 to 100, not 101"):
        Latencies.of(histogram_of([1])).percentile(101)
