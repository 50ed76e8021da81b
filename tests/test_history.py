"""Progress over time: few points, in order, to the end of a job."""

import pytest

import headrace as hr
from headrace.observe import history
from headrace.observe.history import History


class At:
    late_rows = 0

    def __init__(self, seconds, rows):
        self.seconds, self.rows_in, self.rows_out = seconds, rows, rows // 2


def test_rates_are_those_between_points():
    made = History()
    for seconds, rows in [(1.0, 100), (3.0, 100), (4.0, 350)]:
        made.add(At(seconds, rows))
    assert made.table()["rows_per_second"].to_pylist() == [100.0, 0.0, 250.0]
    assert made.table()["rows_out"].to_pylist() == [50, 50, 175]
    assert History().table().num_rows == 0


def test_there_are_never_many_points():
    made = History()
    for n in range(20_000):
        made.add(At(float(n), n))
    seconds = made.table()["seconds"].to_pylist()
    assert len(seconds) <= history.MOST and seconds == sorted(seconds)
    assert (seconds[0], seconds[-1]) == (0.0, 19_999.0)


@pytest.mark.parametrize("engine", ["thread", "node"])
def test_a_job_tells_its_history(engine):
    job = hr.run(hr.read.index(1_000).write.null(), engine=engine, compiled=False)
    frame = job.dataframe()
    assert list(frame["rows_in"])[-1] == 1_000 and list(frame["rows_out"])[-1] == 1_000
