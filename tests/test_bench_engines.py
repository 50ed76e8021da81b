"""The benchmarks of engines run end to end on small sizes, and notice wrong results."""

import io
import json

import pyarrow as pa
import pytest
from rich.console import Console

import headrace as hr
from headrace import cli
from headrace.bench import chain, first_result, queries, report, ysb_command
from headrace.bench.figure import Found, Skipped
from headrace.bench.latency import worst_of
from headrace.bench.node import beside
from headrace.bench.node.bench import Bench, Settings
from headrace.bench.node.suite import FIGURES, MEASURES
from headrace.bench.queries import BenchError, How, OwnThread, Queries, Results
from headrace.bench.ysb import Load, YsbBench
from headrace.node.histogram import Histogram, Latencies, note
from headrace.workloads import ysb

ROWS = 20_000
PROMISED = {
    *("workload", "engine", "workers", "queries", "fuse", "events", "seconds", "events_per_s"),
    *("latency_ms", "startup_s", "rss_mb", "data_bytes", "source_columns", "correct"),
}


@pytest.fixture(scope="module")
def bench():
    return YsbBench(ROWS)


# ---------------------------------------------------------------- what is right


@pytest.fixture(scope="module")
def replayed():
    """Events, the counts of two and a half rounds by plain Python, and the rows that these are."""
    data, rows = ysb.make(2000), 5000
    campaign_of = dict(
        zip(*(data.campaigns[name].to_pylist() for name in ("ad_id", "campaign_id")))
    )
    events = data.events.to_pylist()
    counts = {}
    for number in range(rows):
        event, rounds = events[number % len(events)], number // len(events)
        if event["event_type"] == ysb.VIEW:
            time = event["event_time"] + rounds * ysb.SPAN_MS
            key = campaign_of[event["ad_id"]], time // ysb.WINDOW_MS * ysb.WINDOW_MS
            counts[key] = counts.get(key, 0) + 1
    return data, counts, rows


def as_table(counts):
    keys = list(counts)
    columns = {"campaign_id": [k[0] for k in keys], "window_start": [k[1] for k in keys]}
    return pa.table({**columns, "views": list(counts.values())})


def closed(counts):
    last = max(start for _, start in counts)
    return {key: count for key, count in counts.items() if key[1] != last}


def test_rounds_are_counted_as_plain_python_does(replayed):
    data, counts, rows = replayed
    assert data.is_right(as_table(counts), rows, ended=True)
    assert not data.is_right(as_table(counts), rows)  # the last window is open
    assert data.is_right(as_table(closed(counts)), rows)
    assert not data.is_right(as_table(closed(counts)), rows, ended=True)


def a_count_off(table):
    views = table["views"].to_numpy().copy()
    views[len(views) // 2] += 1
    return table.set_column(2, "views", pa.array(views))


def another_window(table):
    starts = table["window_start"].to_numpy().copy()
    starts[-1] += ysb.WINDOW_MS
    return table.set_column(1, "window_start", pa.array(starts))


def off_the_grid(table):
    return table.set_column(1, "window_start", pa.array(table["window_start"].to_numpy() + 1))


def an_unknown_campaign(table):
    ids = table["campaign_id"].to_numpy().copy()
    ids[3] = 5
    return table.set_column(0, "campaign_id", pa.array(ids))


@pytest.mark.parametrize(
    "spoil",
    [
        a_count_off,
        another_window,
        off_the_grid,
        an_unknown_campaign,
        lambda table: table.slice(1),
        lambda table: table.slice(0, 0),
        lambda table: pa.concat_tables([table, table.slice(0, 1)]),
        lambda table: pa.concat_tables([table.slice(1), table.slice(1, 1)]),
    ],
)
def test_what_is_wrong_is_noticed(replayed, spoil):
    data, counts, rows = replayed
    assert not data.is_right(spoil(as_table(closed(counts))), rows)


def test_nothing_is_right_for_no_rows(replayed):
    data, _, _ = replayed
    empty = as_table({}).cast(ysb.make(1).expected().schema)
    assert data.is_right(empty, 0) and data.is_right(empty, 0, ended=True)


# ---------------------------------------------------------------- ysb


@pytest.mark.parametrize("engine", ["thread", "node"])
def test_a_run_is_right_and_complete(bench, engine):
    found = bench.run(How(engine), Load(ROWS, queries=2, seconds=0.2))
    assert set(found) >= PROMISED
    assert set(found["latency_ms"]) == {"p50", "p99", "max", "samples"}
    assert found["correct"] is True
    assert found["windows"] > 10 and found["events"] > 0 and found["startup_s"] > 0
    assert found["data_bytes"] == ROWS * 56 and found["source_row_bytes"] == 56
    assert found["source_columns"] == list(ysb.make(1).events.schema.names)
    assert found["events_per_s"] == pytest.approx(found["events"] / found["seconds"], rel=0.01)
    json.dumps(found)


def drop_a_row(self, batch):
    self.first = self.first or 1.0
    self.batches.append(batch.slice(1) if not self.batches else batch)


def change_a_count(self, batch):
    self.first = self.first or 1.0
    if not self.batches:
        views = batch["views"].to_numpy(zero_copy_only=False).copy()
        views[0] += 1
        batch = batch.set_column(2, batch.schema.field(2), pa.array(views))
    self.batches.append(batch)


@pytest.mark.parametrize("spoil", [drop_a_row, change_a_count])
def test_one_wrong_count_is_noticed(bench, monkeypatch, spoil):
    monkeypatch.setattr(Results, "take", spoil)
    assert bench.run(How("thread"), Load(ROWS, seconds=0.1))["correct"] is False


def test_half_is_half_of_the_maximum(bench):
    load = Load(ROWS, seconds=0.3)
    found = bench.measure(How("thread"), load, half=True)
    assert found["correct"] is True
    assert found["rate"] == pytest.approx(found["max_events_per_s"] / 2, abs=1)


def test_a_query_that_fails_is_reported(bench, monkeypatch):
    def refuse(self, batch):
        raise OSError("no room")

    monkeypatch.setattr(Results, "take", refuse)
    with pytest.raises(OSError, match="no room"):
        bench.run(How("thread"), Load(ROWS, seconds=0.1))


def test_rows_that_do_not_come_are_reported(monkeypatch):
    monkeypatch.setattr("headrace.bench.queries.START_SECONDS", 0.2)
    silent = hr.read.index(rate=0.001).write.null()
    with (
        Queries([silent], How("thread")) as queries,
        pytest.raises(BenchError, match="nothing came within"),
    ):
        queries.await_rows()
    assert queries.jobs[0].await_termination(10.0)


def test_a_run_that_is_over_at_once_is_no_hang():
    quick = OwnThread(hr.read.memory({"n": [1]}).write.null(), How("thread"))
    assert quick.await_termination(60.0)
    assert quick.status == "finished"


def latencies(*nanoseconds):
    histogram = Histogram.allocate()
    for each in nanoseconds:
        note(histogram, each)
    return {"block": Latencies.of(histogram)}


def test_of_several_queries_the_worst_latency_counts():
    found = worst_of([latencies(1_000_000), latencies(2_000_000, 4_000_000), {}], [{}] * 3)
    assert set(found) == {"block"}
    assert found["block"]["samples"] == 3 and found["block"]["max"] == 4.0
    assert found["block"]["p50"] == pytest.approx(2.0, rel=0.02)


def test_latencies_of_the_start_do_not_count():
    start, all_of_it = (10**9,) * 5, (10**9,) * 5 + (1_000_000,) * 3
    found = worst_of([latencies(*all_of_it)], [latencies(*start)])["block"]
    assert found["samples"] == 3
    assert found["max"] == pytest.approx(1.0, rel=0.02)
    assert found["p99"] == pytest.approx(1.0, rel=0.02)


# ---------------------------------------------------------------- the commands


def lines(capsys, *arguments):
    code = cli.main(["bench", *arguments])
    said = capsys.readouterr()
    assert said.err == ""
    return code, [json.loads(line) for line in said.out.splitlines()]


def test_ysb_prints_a_json_line_per_run(capsys):
    pytest.importorskip("polars")
    options = ["--engine", "thread", "--rows", "20_000", "--seconds", "0.2", "--runs", "2"]
    code, found = lines(capsys, "ysb", *options, "--prune", "--against", "polars", "--json")
    assert code == 0
    assert [each["run"] for each in found] == [1, 2]
    for each in found:
        assert each["correct"] is True and each["pruned"] is True
        assert each["source_columns"] == ["ad_id", "event_type", "event_time"]
        peer = each["against"]["polars"]
        assert peer["ratio"] == pytest.approx(each["events_per_s"] / peer["events_per_s"], abs=0.01)


def test_more_windows_than_rows_are_refused(capsys):
    assert cli.main(["bench", "ysb", "--engine", "thread", "--rows", "10", "--windows", "11"]) == 1
    assert "11 windows in a table of 10 rows" in capsys.readouterr().err


def test_a_wrong_count_is_a_failure_of_the_command(capsys, monkeypatch):
    monkeypatch.setattr(Results, "take", drop_a_row)
    options = ["--engine", "thread", "--rows", "20000", "--seconds", "0.1", "--json"]
    code, (found,) = lines(capsys, "ysb", *options)
    assert code == 1 and found["correct"] is False


def test_wrong_polars_results_are_noticed(bench, monkeypatch):
    pytest.importorskip("polars")
    monkeypatch.setattr("headrace.bench.peers.same_rows", lambda got, wanted: False)
    load = Load(ROWS, seconds=0.1)
    assert bench.measure(How("thread"), load, against_polars=True)["correct"] is False


def test_ysb_for_people():
    console = Console(file=io.StringIO(), width=80)
    ysb_command.run(How("thread"), Load(ROWS, seconds=0.1), runs=2, console=console)
    text = console.file.getvalue()
    assert "ysb: making 20,000 rows" in text
    assert "right" in text and "WRONG" not in text and "…" not in text
    assert "the source gives all 7 columns, 56 bytes a row" in text
    assert "slowest to fastest run" in text


def test_ysb_can_be_watched():
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    ysb_command.run(How("thread"), Load(ROWS, seconds=0.2), watch=True, console=console)
    assert "ns/row" in console.file.getvalue()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ysb", "--engine", "gpu"], "invalid choice"),
        (["ysb", "--rate", "0"], "0 is not a rate"),
        (["ysb", "--rate", "fast"], "invalid"),
        (["ysb", "--queries", "0"], "0 is not above zero"),
        (["chain", "--operators", "10,0"], "0 is not above zero"),
        (["node", "--figure", "speed"], "no figure 'speed'; there are: workers_2, "),
        (["node", "--only", "idle,speed"], "no figure 'speed'; there are: workers_2, "),
        (["node", "--json", "--markdown"], "not allowed with"),
        (["node", "--quick", "--seconds", "1"], "not allowed with"),
    ],
)
def test_wrong_arguments_are_explained(capsys, arguments, message):
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench", *arguments])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


# ---------------------------------------------------------------- chain


def test_chain_prints_the_cost_of_each_length(capsys):
    options = ["--operators", "4,2", "--rows", "100_000", "--repeat", "1", "--json"]
    code, (found,) = lines(capsys, "chain", *options)
    assert code == 0 and found["correct"] is True
    assert found["operators"] == [2, 4] and found["rows"] == {"2": 200_000, "4": 100_000}
    assert set(found["ns_per_row_and_operator"]) == {"2", "4"}
    assert found["ratio_with_source_and_sink"] > 0


def rows_are_lost(rows, operators):
    return right_chain(rows.filter(hr.col("index") != 0), operators)


def one_row_is_wrong(rows, operators):
    wrong = hr.when(hr.col("index") == 777).then(5).otherwise(hr.col("n"))
    return right_chain(rows.with_columns(n=wrong), operators)


right_chain = chain.chain


@pytest.mark.parametrize("spoiled", [rows_are_lost, one_row_is_wrong])
def test_a_chain_that_is_wrong_is_noticed(monkeypatch, spoiled):
    assert chain.run_chain(2, 5000, How("thread"), table_rows=1000).correct
    monkeypatch.setattr(chain, "chain", spoiled)
    assert not chain.run_chain(2, 5000, How("thread"), table_rows=1000).correct


def test_chain_for_people():
    console = Console(file=io.StringIO(), width=80)
    chain.run(How("thread", fuse="none"), lengths=[2, 3], rows=1000, repeat=1, console=console)
    text = console.file.getvalue()
    assert "right" in text and "longest to shortest" in text


# ---------------------------------------------------------------- all figures


def test_every_figure_is_measured_by_one_measure():
    measured = [name for names in MEASURES for name in names]
    assert sorted(measured) == sorted(FIGURES)


@pytest.mark.parametrize(
    ("name", "value", "reached"),
    [
        ("workers_2", 1.2, True),
        ("workers_2", 1.19, False),
        ("latency_p99", 0.9, True),
        ("latency_p99", 1.1, False),
        ("idle", 0.0, True),
        ("chain", None, False),
    ],
)
def test_limits_are_from_below_or_from_above(name, value, reached):
    assert Found(value, True).said(FIGURES[name])["reached"] is reached
    assert Found(value, False).said(FIGURES[name])["reached"] is False
    assert Found(value, True, counts=False).said(FIGURES[name])["reached"] is False


QUICK = Settings.quick()
LATENCIES = ("light_beside_heavy", "python_beside", "growing_state")


def fake_starts(rows, repeat, engine, say):
    assert engine == "node"
    return first_result.Starts(cold=3.0, warm=[0.5, 0.7], imported=[0.2, 0.2])


def check(name, found):
    """What every line has, and what it has by its kind."""
    if "skipped" in found:
        assert name == "bounded_runs" and found["reached"] is None
        return
    assert found["correct"] is True, name
    assert {"value", "must_reach", "reached", "title", "unit"} <= set(found)
    assert found["value"] is not None or name in ("latency_p99", "chain")
    if found["unit"] == "×":
        assert found["ratio"] == found["value"]
    for side in found.get("sides", {}).values():
        if name in LATENCIES:
            assert 0 <= side["p50"] <= side["p99"] <= side["max"] and side["samples"] > 0
        else:
            assert side["best"] >= side["median"] >= 0


@pytest.mark.parametrize("names", MEASURES, ids=lambda names: names[0])
def test_every_figure_runs_quickly_and_yields_its_line(capsys, monkeypatch, names):
    pytest.importorskip("polars")
    monkeypatch.setattr(first_result, "measure", fake_starts)
    code, found = lines(capsys, "node", "--quick", "--json", "--only", ",".join(names))
    assert code == 0
    assert {each["figure"] for each in found} == set(names)
    for each in found:
        check(each["figure"], each)
    if names == first_result.NAMES:
        assert [each["value"] for each in found] == [0.6, 3.0]


def test_figures_are_printed_and_drawn(capsys, monkeypatch, tmp_path):
    pytest.importorskip("polars")
    monkeypatch.setattr(first_result, "measure", fake_starts)
    options = ["--quick", "--figure", "start_warm", "--only", "idle", "--markdown"]
    assert cli.main(["bench", "node", *options, "--plot", str(tmp_path / "node.png")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "| figure | measured | must reach | |" and len(said) == 4
    assert (tmp_path / "node.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "names",
    [
        ("steady_fused",),
        ("strings_2", "strings_scaling"),
        ("process_scaling",),
        ("windows_many_keys", "windows_scaling"),
        ("readme_scaling",),
        *((name,) for name in LATENCIES),
    ],
)
def test_a_wrong_run_spoils_its_figures(monkeypatch, names):
    monkeypatch.setattr(Results, "take", drop_a_row)
    found = MEASURES[names](Bench(settings=QUICK))
    for name in names:
        assert found[name].correct is False
        assert found[name].said(FIGURES[name])["reached"] is False


def test_all_sides_get_the_same_rows(capsys):
    _, found = lines(capsys, "node", "--quick", "--json", "--only", "windows_scaling")
    (windows,) = found
    assert windows["rows"] == windows["table_rounds"] * 2 * QUICK.rows


def test_runs_are_bounded_on_one_side_only(monkeypatch):
    asked = []

    def engine(how):
        asked.append(how.bounded)
        return hr.Engine(workers=how.workers)

    monkeypatch.setattr(queries, "_engine", engine)
    found = MEASURES["bounded_runs",](Bench(settings=QUICK))["bounded_runs"]
    assert asked == [True, False] * 2  # fused, unfused
    assert found.correct is True
    ratios = found.details["ratio_fuse_auto"], found.details["ratio_fuse_none"]
    assert found.value == pytest.approx(min(ratios), abs=0.001)


def test_an_engine_that_cannot_bound_its_runs_skips_the_figure(capsys, monkeypatch):
    def engine(how):
        raise Skipped("not there")

    monkeypatch.setattr(queries, "_engine", engine)
    code, (found,) = lines(capsys, "node", "--quick", "--json", "--only", "bounded_runs")
    assert code == 0 and found["skipped"] == "not there"


# ---------------------------------------------------------------- light queries


def light_that_got(*came):
    """Batches of so many rows at moments: a light query that was given them."""
    light = beside.Light()
    for moment, rows in came:
        light._came.append(moment)
        light._rows.append(rows)
    return light


STEP = 2 / beside.RATE  # seconds from one row that passes to the next


def test_rows_on_time_took_no_time():
    light = light_that_got(*((100.0 + STEP * number, 1) for number in range(1000)))
    found = light.latencies(99.0, 101.0)
    assert found["samples"] == 1000
    assert found["max"] < 0.001


def test_all_rows_that_wait_behind_a_stall_count():
    """Half a second on time, then a stall of as long, behind which all rows come at once."""
    on_time = int(0.5 / STEP)
    came = [(100.0 + STEP * number, 1) for number in range(on_time)]
    found = light_that_got(*came, (101.0, on_time)).latencies(99.0, 101.0)
    assert found["samples"] == 2 * on_time
    assert found["p50"] < 1.0
    assert found["p99"] == pytest.approx(490, abs=5) and found["max"] == pytest.approx(500, abs=5)


def test_rows_that_were_not_due_do_not_count():
    came = [(100.0 + STEP * number, 1) for number in range(1000)]
    assert light_that_got(*came).latencies(100.1, 100.2)["samples"] == pytest.approx(200, abs=1)
    nothing = {"p50": None, "p99": None, "max": None, "samples": 0}
    assert light_that_got(*came).latencies(200.0, 201.0) == nothing
    assert light_that_got().latencies(0.0, 1.0) == nothing


def test_a_heavy_row_takes_its_time():
    turns = beside.turns_in(0.01)
    assert 10_000 < turns < 100_000_000


A_RESULT = Found(1.3, True, {"events_per_s": 5}).said(FIGURES["workers_2"])
MISSED = Found(2.5, True).said(FIGURES["chain"])
WRONG = Found(None, False).said(FIGURES["latency_p99"])


def test_the_table_for_the_documentation():
    assert report.as_markdown([A_RESULT, MISSED, WRONG]) == [
        "| figure | measured | must reach | |",
        "|---|---|---|---|",
        "| 2 workers, against Polars | **1.3 ×** | ≥ 1.2 × | reached |",
        "| 1,000 operators against 10: cost of each | **2.5 ×** | ≤ 1.5 × | missed |",
        "| p99 latency at half the maximum rate | **unknown** | ≤ 1 ms | WRONG |",
    ]


def test_the_table_for_people():
    console = Console(file=io.StringIO(), width=100)
    results = [{**each, "load_before": 1.7} for each in (A_RESULT, MISSED, WRONG)]
    console.print(report.table("headrace bench node", results))
    text = console.file.getvalue()
    for word in ("workers_2", "1.3 ×", "reached", "missed", "WRONG", "unknown"):
        assert word in text
    assert "others kept up to 1.7 cores busy" in text
