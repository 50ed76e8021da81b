"""Linear Road: accidents are found, and tolls are those of a reference in plain Python."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from tests import linear_road as reference
from tests.naive import rows_of
from tests.running import assert_same

import headrace as hr
from headrace.workloads import linear_road

pytestmark = pytest.mark.timeout(900)
ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("HEADRACE_DATA") or ROOT.parent / "shared" / "data")
PLACE = ("xway", "dir", "lane", "pos", "found")


def outputs(reports):
    """Accidents and tolls."""
    source = hr.read.memory(reports)
    made = linear_road.accidents(source), linear_road.tolls(source)
    return [each.write.collect() for each in made]


def agree(found, reports):
    """Are results those of the reference, and of NumPy?"""
    standing, paid = found
    rows = reports.to_pylist()
    assert {tuple(row[name] for name in PLACE) for row in rows_of(standing)} == (
        reference.accidents(rows)
    )
    assert_same(rows_of(paid), reference.tolls(rows), ordered=False)
    assert linear_road.same_rows(paid, linear_road.expected(reports))


def crowded():
    """Tolls in the middle of the road, some of which an accident sets to 0."""
    reports = linear_road.traffic(cars=6_000, seconds=420, crashes=40, seed=3)
    rows = reference.tolls(reports.to_pylist())
    would_pay = [row for row in rows if row["speed"] < 40 and row["reports"] > 50]
    assert any(row["toll"] > 0 for row in would_pay)
    assert any(row["toll"] == 0 for row in would_pay)
    return reports


@pytest.mark.compiled
def test_tolls_and_accidents_on_the_node_engine():
    reports = crowded()
    made = outputs(reports)
    hr.run(*made, engine="node", workers=2)
    agree([output.result() for output in made], reports)


def test_an_accident_ends_when_a_car_moves():
    """Four reports of two cars at one place; three are none, and one car is none."""
    rows = []

    def car(vid, pos, speeds, lane=2):
        for number, speed in enumerate(speeds):
            at = pos if speed == 0 else pos + 100 * number
            rows.append([0, 30 * number, vid, speed, 0, lane, 0, at])

    car(1, 50_000, [0, 0, 0, 0, 0, 9, 9, 9, 9])
    car(2, 50_000, [0, 0, 0, 0, 0, 0, 9, 9, 9])
    car(3, 90_000, [0, 0, 0, 9, 9, 9, 9, 9, 9])
    car(4, 90_000, [0, 0, 0, 9, 9, 9, 9, 9, 9])
    car(5, 99_000, [0] * 9)
    car(6, 120_000, [0] * 9, lane=4)
    car(7, 120_000, [0] * 9, lane=4)
    names = ("type", "time", "vid", "speed", "xway", "lane", "dir", "pos")
    rows.sort(key=lambda row: row[1])
    reports = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    made = outputs(reports)
    hr.run(*made, engine="thread", compiled=False)
    found = [output.result() for output in made]
    assert [(row["pos"], row["found"]) for row in rows_of(found[0])] == [
        (50_000, 120), (50_000, 150),
    ]  # fmt: skip
    agree(found, reports)
    free = {(row["seg"], row["until"]) for row in rows_of(found[1]) if row["found"] is not None}
    assert free == {(9, 120), (9, 180)}


def test_genuine_reports():
    """Cars that MITSIM moved."""
    path = DATA / "linear_road" / "lrb-data-small-ht.txt"
    if not path.exists():
        pytest.skip(f"there is no {path.name}")
    numbers = [[int(word) for word in line.split()] for line in path.read_text().splitlines()]
    numbers = sorted(numbers[:4096], key=lambda row: row[0])
    names = ("time", "vid", "speed", "xway", "lane", "dir", "pos")
    columns = dict(zip(names, map(list, zip(*numbers, strict=True)), strict=True))
    reports = pa.table({"type": [0] * len(numbers), **columns})
    made = outputs(reports)
    hr.run(*made, engine="thread", compiled=False)
    agree([output.result() for output in made], reports)
