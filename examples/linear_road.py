"""Linear Road: what cars pay for the segments of an expressway, and where they stand in the way.

    python examples/linear_road.py                     # cars that are made up
    python examples/linear_road.py lrb-data-small.txt  # time, vid, speed, xway, lane, dir, pos
    headrace run examples/linear_road.py --engine node --workers 2

The query, its ten operators and where it differs from others: `headrace.workloads.linear_road`.
"""

import sys

import pyarrow as pa

import headrace as hr
from headrace import col
from headrace.workloads.linear_road import accidents, tolls, traffic


def read(path):
    """Position reports of a file, in order of time; the numbers of a line stand apart anyhow."""
    with open(path, encoding="ascii") as lines:
        rows = [[int(number) for number in line.split()] for line in lines]
    names = ("time", "vid", "speed", "xway", "lane", "dir", "pos")
    rows.sort(key=lambda row: row[0])
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return pa.table({"type": [0] * len(rows), **columns})


is_script = __name__ == "__main__"
made = read(sys.argv[1]) if is_script and sys.argv[1:] else traffic(cars=4_000, seconds=900)
reports = hr.read.memory(made)
standing = accidents(reports).write.console(limit=8)
paid = tolls(reports).filter(col("toll") > 0).write.console(limit=8)

if is_script:
    hr.run(standing, paid)
