"""Linear Road on Spark: the accidents and tolls of the reference, over several batches."""

from tests.test_linear_road import agree, outputs

import headrace as hr
from headrace.workloads import linear_road


def test_tolls_and_accidents(session):
    reports = linear_road.traffic(cars=400, seconds=330, seed=5)
    made = outputs(reports)
    hr.run(*made, engine="spark", session=session, compiled=False, batch_rows=2_000, shards=2)
    found = [output.result() for output in made]
    assert found[0].num_rows > 0
    agree(found, reports)
