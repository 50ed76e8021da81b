"""What is shown of a running job: rates and costs of operators, latencies, JSON."""

import io
import json

import pytest
from rich.console import Console

import headrace as hr
from headrace.observe import progress
from headrace.observe.operators import Rates, operator_table


def counters(**changes):
    return {"rows_in": 0, "rows_out": 0, "late_rows": 0, "blocks": 1, "seconds": 0.0, **changes}


class Measured:
    def __init__(self, seconds, operators, status="running"):
        self.status, self.seconds, self.operators = status, seconds, operators
        self.rows_in, self.rows_out, self.late_rows, self.failed_rows = 1000, 10, 0, 0


class Latencies:
    """As an engine gives them."""

    def __init__(self, count):
        self.count = count

    def as_dict_ms(self):
        return {"p50": 0.25, "p99": 1.5, "max": 123.4, "samples": self.count}


class Fake:
    """A job of one operator that reads 100 rows and gives 25, each second."""

    now = 0.0
    status = "running"

    def progress(self):
        rows = int(100 * self.now)
        operators = {"views": counters(rows_in=rows, rows_out=rows // 4)}
        return Measured(self.now, operators, self.status)

    def latency(self):
        return {"block": Latencies(7), "window": Latencies(0)}


def shown(drawn):
    console = Console(file=io.StringIO(), width=140)
    console.print(drawn)
    return console.file.getvalue()


def cells(operators, seconds=2.0):
    """The table as a dict of dicts, by operator and heading."""
    rates = Rates()
    rates.add(seconds, operators)
    table = operator_table(operators, rates, seconds)
    columns = {str(column.header): list(column.cells) for column in table.columns}
    names = columns.pop("operator")
    return {name: {h: c[k] for h, c in columns.items() if c[k]} for k, name in enumerate(names)}


def test_rates_are_those_of_the_last_second():
    rates = Rates()
    for tenth in range(40):  # nothing for two seconds, then 500 rows a second
        rows = max(0, 50 * (tenth - 20))
        rates.add(tenth / 10, {"a": counters(rows_in=rows, rows_out=2 * rows)})
    assert rates.of("a") == (pytest.approx(500), pytest.approx(1000))


def test_an_operator_that_came_later_has_a_rate_too():
    rates = Rates()
    rates.add(1.0, {})
    rates.add(2.0, {"a": counters(rows_in=10)})
    assert rates.of("a") == (10, 0)


def test_the_first_look_gives_the_rate_of_the_whole_run():
    found = cells({"a": counters(rows_in=3000, rows_out=1000)})
    assert found["a"]["in/s"] == "1.50 k" and found["a"]["out/s"] == "500"


def test_selectivity_and_cost_are_worked_out_where_the_engine_does_not_tell():
    found = cells({"a": counters(rows_in=1000, rows_out=250, seconds=2e-6)})
    assert found["a"]["passed"] == "0.25" and found["a"]["ns/row"] == "2.00"
    told = counters(rows_in=1000, rows_out=250, seconds=2e-6, selectivity=0.3, ns_per_row=7.0)
    assert cells({"a": told})["a"]["passed"] == "0.3"
    assert cells({"a": told})["a"]["ns/row"] == "7.00"


def test_time_is_shared_between_busy_starved_and_blocked():
    times = {"seconds": 1.0, "starved": 2.5, "blocked": 0.5, "pending": 20_000}
    found = cells({"a": counters(**times, operators=["a"]), "b": counters()})
    assert found["a"]["busy"] == "25%"
    assert found["a"]["starved"] == "62%" and found["a"]["blocked"] == "12%"
    assert found["a"]["pending"] == "20.0 k"
    assert "busy" not in found["b"]


def test_how_rows_are_put_in_order_is_shown():
    ordering = {"reordered": 200, "reorder_seconds": 0.01, "reordering": 3, "reordering_room": 16}
    found = cells({"a": counters(**ordering, skew=1.5), "b": counters()})
    assert [found["a"][what] for what in ("in order", "waited", "skew")] == [
        "3 of 16", "50 µs", "1.50",
    ]  # fmt: skip
    assert not {"in order", "waited", "skew"} & set(found["b"])
    begun = counters(**{**ordering, "reordered": 0})
    assert "waited" not in cells({"a": begun})["a"]


def test_operators_inside_a_kernel_stand_under_it():
    def part(rows_in, rows_out, seconds):
        return {"rows_in": rows_in, "rows_out": rows_out, "seconds": seconds}

    inside = {
        "even": part(1000, 500, 2e-6),
        "views.on_time": part(500, 400, 1e-6),
        "views": part(400, 4, 3e-6),
    }
    unit = counters(rows_in=1000, rows_out=4, seconds=6e-6, starved=6e-6, blocked=0.0)
    found = cells({"views": {**unit, "operators": list(inside), "inside": inside}})
    assert list(found) == ["even … views", "· even", "· views"]
    assert found["even … views"]["busy"] == "50%"
    shown = ("rows in", "passed", "ns/row", "busy")
    assert [found["· even"][what] for what in shown] == ["1.00 k", "0.5", "2.00", "17%"]
    # what the planner added to an operator is counted with it
    assert [found["· views"][what] for what in shown] == ["500", "0.008", "8.00", "33%"]
    assert set(found["· views"]) == set(shown)
    before = cells({"views": {**unit, "operators": list(inside), "inside": {}}})
    assert list(before) == ["even\n→ views"]


def test_a_column_that_no_operator_has_is_left_out():
    text = shown(operator_table({}, Rates(), 0.0))
    assert "pending" not in text
    assert set(cells({"a": counters(rows_in=1)})["a"]) == {"in/s", "rows in"}


def test_latencies_are_shown_where_there_are_samples():
    job = Fake()
    latencies = progress.latencies_of(job)
    assert set(latencies) == {"block"}
    text = shown(progress.picture("x", job.progress(), 1.0, None, latencies))
    assert "block latency  p50 0.25, p99 1.5, max 123 ms" in text
    line = progress.line("x", job.progress(), 1.0, latencies)
    assert line.endswith("block latency p50 0.25, p99 1.5, max 123 ms")


def test_plain_lines_are_few_where_nothing_changes():
    job, console = Fake(), Console(file=io.StringIO(), width=140)
    with progress.Watcher("x", console, clock=lambda: job.now) as watch:
        for second in range(25):
            job.now = float(second)
            watch(job)
        job.status = "finished"
    lines = console.file.getvalue().splitlines()
    assert [line.split()[2] for line in lines] == ["0.0", "10.0", "20.0", "24.0"]
    assert "finished" in lines[-1]


def test_json_has_everything_in_one_line_each():
    job, console = Fake(), Console(file=io.StringIO(), force_terminal=True, width=20)
    with progress.Watcher("x", console, clock=lambda: job.now, json=True) as watch:
        for _ in range(30):
            watch(job)
            job.now += 0.1
    lines = [json.loads(line) for line in console.file.getvalue().splitlines()]
    assert len(lines) == 4  # one a second, and one in the end
    assert lines[-1]["operators"]["views"]["rows_in"] == 300
    assert lines[-1]["latency_ms"]["block"]["samples"] == 7
    assert lines[-1]["status"] == "running"


@pytest.mark.parametrize("engine", ["thread", "node"])
def test_a_job_is_watched_on_every_engine(engine):
    console = Console(file=io.StringIO())
    numbers = hr.read.index(50_000, rate=100_000)  # long enough to be looked at
    out = numbers.filter(hr.col("index") % 2 == 0, name="even").write.null()
    with progress.live("numbers", console, json=True) as watch:
        hr.run(out, engine=engine, watch=watch)
    last = json.loads(console.file.getvalue().splitlines()[-1])
    assert last["rows_in"] == 50_000 and last["rows_out"] == 25_000
    assert last["status"] == "finished"
    assert any("even" in name for name in last["operators"])
