"""The benchmark runs end to end on small sizes, and notices wrong results."""

import dataclasses
import io
import json
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

import headrace as hr
from headrace.bench import first_result, peers, report, stage
from headrace.bench.figure import Figure, Found, Skipped
from headrace.bench.harness import Duel, MissingPackage, Run, in_turns, timed
from headrace.bench.stage import FIGURES, Bench, Settings, StageProgram
from headrace.workloads import keyed, readme, ysb
from headrace.workloads.compare import same_rows

pytest.importorskip("polars")

ROOT = Path(__file__).resolve().parent.parent
SMALL = Settings(rows=20_000, repeat=2)
RATIOS = ("ysb_fused", "ysb_strings", "keyed_process")
PROMISED = {
    *("figure", "ratio", "ratio_best", "ratio_median", "sides", "correct", "must_reach", "reached"),
    *("rows", "source_row_bytes", "source_columns"),
}


def measure(name, settings=SMALL):
    (measured,) = (found for names, found in stage.SUITE.measures.items() if name in names)
    return measured(Bench(settings))[name].said(FIGURES[name])


# ---------------------------------------------------------------- workloads


@pytest.mark.parametrize("uuids", [(), ("ad_id",), ysb.UUIDS])
def test_the_yahoo_query_gives_what_plain_python_gives(uuids):
    data = ysb.make(3000, uuids=uuids)
    campaign_of = dict(
        zip(data.campaigns["ad_id"].to_pylist(), data.campaigns["campaign_id"].to_pylist())
    )
    counts = {}
    for row in data.events.to_pylist():
        if row["event_type"] == ysb.VIEW:
            start = row["event_time"] // ysb.WINDOW_MS * ysb.WINDOW_MS
            key = campaign_of[row["ad_id"]], start
            counts[key] = counts.get(key, 0) + 1
    expected = data.expected().to_pylist()
    found = {(row["campaign_id"], row["window_start"]): row["views"] for row in expected}
    assert found == counts
    output = ysb.pipeline(hr.read.memory(data.events), data.campaigns).write.collect()
    hr.run(output)
    assert same_rows(output.result(), data.expected())


def test_the_yahoo_rows_are_as_promised():
    data = ysb.make(30_000)
    assert len(data.events.schema) == 7
    assert set(data.events.schema.types) == {pa.int64()}
    times = data.events["event_time"].to_numpy()
    assert (np.diff(times) >= 0).all()
    assert len(np.unique(times // ysb.WINDOW_MS)) == 10
    views = np.mean(data.events["event_type"].to_numpy() == ysb.VIEW)
    assert 0.32 < views < 0.35
    assert data.events["ad_id"].to_numpy().max() > 1 << 60
    assert data.campaigns.num_rows == 1000
    assert len(data.campaigns["campaign_id"].unique()) == 100
    ids = ysb.make(10, uuids=["ad_id"]).campaigns["campaign_id"].unique().to_pylist()
    assert {len(text) for text in ids} == {36}


def test_only_the_named_ids_are_uuids():
    events = ysb.make(5000, uuids=["user_id", "page_id"]).events
    texts = [field.name for field in events.schema if field.type == pa.string()]
    assert texts == ["user_id", "page_id"]
    assert len(events["user_id"].unique()) == 100
    assert {len(text) for text in events["page_id"].to_pylist()} == {36}


def test_totals_of_keys_are_what_plain_python_gives():
    data = keyed.make(2000, keys=150)
    totals, lasts = {}, {}
    for row in data.rows.to_pylist():
        assert row["key"] not in lasts, "a row came behind the last one of its key"
        count, total = totals.get(row["key"], (0, 0))
        totals[row["key"]] = count + 1, total + row["value"]
        if row["last"]:
            lasts[row["key"]] = True
    assert set(lasts) == set(totals) and len(totals) == 150
    expected = {row["key"]: (row["count"], row["total"]) for row in data.expected().to_pylist()}
    assert expected == totals


ROUNDS = 3


@pytest.fixture(scope="module")
def sums():
    """Rows of keys, and by plain Python over some rounds: running totals, and those of windows."""
    data = keyed.make(500, keys=40)
    rows = data.replayed(ROUNDS).write.collect()
    hr.run(rows)
    running, given, windows = {}, [], {}
    for row in rows.result().to_pylist():
        count, total = running.get(row["key"], (0, 0))
        running[row["key"]] = count + 1, total + row["value"]
        if row["last"]:
            given.append((row["key"], *running[row["key"]]))
        window = row["key"], row["time"] // keyed.WINDOW_MS * keyed.WINDOW_MS
        count, total = windows.get(window, (0, 0))
        windows[window] = count + 1, total + row["value"]
    assert len(given) == len(windows) == ROUNDS * 40
    totals = pa.table(list(map(pa.array, zip(*given))), ["key", "count", "total"])
    ends = [(*window, *sums) for window, sums in windows.items()]
    names = ["key", "window_start", "count", "total"]
    return data, {"totals": totals, "windows": pa.table(list(map(pa.array, zip(*ends))), names)}


def is_right(data, kind, table, rounds=ROUNDS):
    return (data.are_totals if kind == "totals" else data.are_windows)(table, rounds)


@pytest.mark.parametrize("kind", ["totals", "windows"])
def test_sums_over_rounds_are_checked_as_plain_python_does(sums, kind):
    data, tables = sums
    assert is_right(data, kind, tables[kind])
    assert is_right(data, kind, tables[kind].take(np.arange(ROUNDS * 40)[::-1]))
    pipeline = keyed.pipeline if kind == "totals" else keyed.windowed
    output = pipeline(data.replayed(ROUNDS)).write.collect()
    hr.run(output)
    assert is_right(data, kind, output.result())
    assert same_rows(output.result(), tables[kind])


def one_more(name):
    def spoil(table):
        values = table[name].to_numpy().copy()
        values[7] += 1
        return table.set_column(table.schema.get_field_index(name), name, pa.array(values))

    return spoil


@pytest.mark.parametrize("kind", ["totals", "windows"])
@pytest.mark.parametrize(
    "spoil",
    [
        one_more("key"),
        one_more("count"),
        one_more("total"),
        lambda table: table.slice(1),
        lambda table: table.slice(0, 0),
        lambda table: pa.concat_tables([table, table.slice(3, 1)]),
        lambda table: pa.concat_tables([table.slice(1), table.slice(1, 1)]),
    ],
)
def test_wrong_sums_are_noticed(sums, kind, spoil):
    data, tables = sums
    assert not is_right(data, kind, spoil(tables[kind]))
    assert not is_right(data, kind, tables[kind], ROUNDS + 1)
    assert not is_right(data, kind, tables[kind], ROUNDS - 1)


def test_a_window_off_the_grid_is_noticed(sums):
    data, tables = sums
    assert not data.are_windows(one_more("window_start")(tables["windows"]), ROUNDS)


def test_the_readmes_pipeline_is_the_one_that_is_measured():
    program = (ROOT / "examples" / "ads.py").read_text(encoding="utf-8")
    names = {"__name__": "ads"}
    exec(compile(program, str(ROOT / "examples" / "ads.py"), "exec"), names)
    shown = names["views"].write.collect()
    rows = pa.table(list(zip(*map(names["event"], range(1000)))), ["ms", "ad", "kind"])
    measured = readme.pipeline(hr.read.memory(rows)).write.collect()
    hr.run(shown, measured)
    assert measured.result().equals(shown.result())


def test_the_readmes_pipeline_gives_what_plain_python_gives():
    data = readme.make(3000)
    windows = {}
    for number in range(2):
        for row in data.rows.to_pylist():
            if row["kind"] == readme.VIEW:
                ms = row["ms"] + number * readme.SPAN_MS
                window = readme.CAMPAIGNS[row["ad"]], ms // readme.WINDOW_MS * readme.WINDOW_MS
                views, last = windows.get(window, (0, 0))
                windows[window] = views + 1, max(last, ms)
    wanted = [
        (campaign, start * 1000, views, last * 1000)
        for (campaign, start), (views, last) in windows.items()
    ]
    found = data.expected(2)
    numbers = [found[name].cast(pa.int64()).to_pylist() for name in found.schema.names[1:]]
    assert sorted(zip(found["campaign"].to_pylist(), *numbers)) == sorted(wanted)
    assert not data.is_right(found.slice(1), 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ysb.make(0),
        lambda: ysb.make(5, uuids=["ip"]),
        lambda: keyed.make(5, keys=6),
    ],
)
def test_impossible_sizes_are_refused(make):
    with pytest.raises(ValueError, match="must be"):
        make()


@pytest.mark.parametrize(
    ("got", "same"),
    [
        ({"a": [2, 1], "b": ["y", "x"]}, True),
        ({"a": [1, 2], "b": ["y", "x"]}, False),
        ({"a": [1, 2, 2], "b": ["x", "y", "y"]}, False),
        ({"a": [1, 2]}, False),
        ({"a": [1, None], "b": ["x", "y"]}, False),
        ({"a": [1.5, 2.0], "b": ["x", "y"]}, False),
        ({"a": pa.array([1, 2], pa.uint32()), "b": pa.array(["x", "y"], pa.large_string())}, True),
    ],
)
def test_results_are_compared_as_rows(got, same):
    assert same_rows(pa.table(got), pa.table({"a": [1, 2], "b": ["x", "y"]})) is same


# ---------------------------------------------------------------- harness


def saying(said, name, correct=True):
    def side():
        said.append(name)
        return Run(1, 1.0, correct)

    return side


def test_sides_run_in_turns_and_the_warm_up_is_not_timed():
    said = []
    sides = {name: saying(said, name) for name in ("ours", "theirs")}
    found = in_turns(sides, 2)
    assert said == ["ours", "theirs"] * 3
    assert {name: len(runs) for name, runs in found.runs.items()} == {"ours": 2, "theirs": 2}
    said.clear()
    in_turns(sides, 2, warm_up=False)
    assert said == ["ours", "theirs"] * 2
    with pytest.raises(ValueError, match="at least 1"):
        in_turns(sides, 0)


@pytest.mark.parametrize("wrong_run", range(6))
def test_one_wrong_result_of_many_is_noticed(wrong_run):
    verdicts = [number != wrong_run for number in range(6)]
    sides = dict.fromkeys(("ours", "theirs"), lambda: timed(list, lambda _: verdicts.pop(0), 1))
    assert not in_turns(sides, 2).correct


def test_the_ratio_is_the_median_of_pairs():
    ours = [Run(10, seconds) for seconds in (1.0, 1.0, 10.0)]
    theirs = [Run(10, seconds) for seconds in (0.5, 0.6, 50.0)]
    found = Duel("ours", ours, "theirs", theirs)
    assert found.ratio == 0.6
    assert found.ratio_best == 0.5
    assert found.said()["sides"] == {
        "ours": {"best": 10, "median": 10},
        "theirs": {"best": 20, "median": 17},
    }


def test_the_best_part_of_a_run_counts_as_its_best():
    found = Duel("ours", [Run(10, 1.0)], "theirs", [Run(10, 1.0, most=40.0)])
    assert found.ratio == 1.0 and found.ratio_best == 0.25


def test_the_cores_that_a_program_used_are_measured():
    def spin():
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass

    busy = timed(spin, lambda _: True, 1)
    assert busy.cores > 0.1 > timed(lambda: time.sleep(0.05), lambda _: True, 1).cores


# ---------------------------------------------------------------- figures


@pytest.mark.parametrize("name", RATIOS)
def test_a_figure_is_right_and_complete(name):
    result = measure(name)
    assert set(result) >= PROMISED
    assert result["correct"] is True
    assert result["ratio"] > 0 and set(result["sides"]) == {"headrace", "Polars"}
    assert all(side["best"] >= side["median"] > 0 for side in result["sides"].values())
    assert result["rows"] == SMALL.rows
    assert result["reached"] is (result["ratio"] >= result["must_reach"])
    json.dumps(result)


def test_all_columns_are_copied():
    result = measure("ysb_fused")
    assert result["source_columns"] == list(ysb.make(1).events.schema.names)
    assert result["source_row_bytes"] == 7 * 8
    assert measure("ysb_strings")["source_row_bytes"] == 6 * 8 + 16


@pytest.mark.parametrize("name", RATIOS)
def test_a_wrong_result_is_not_called_correct(name, monkeypatch):
    kind = keyed.Keyed if name == "keyed_process" else ysb.Ysb
    right = kind.expected

    def corrupted(self):
        table = right(self)
        last = table.schema.names[-1]
        changed = table[last].to_numpy().copy()
        changed[len(changed) // 2] += 1
        return table.set_column(table.schema.get_field_index(last), last, pa.array(changed))

    monkeypatch.setattr(kind, "expected", corrupted)
    result = measure(name)
    assert result["correct"] is False
    assert result["reached"] is False


def test_a_stage_that_loses_a_row_is_not_called_correct(monkeypatch):
    prepare = StageProgram.prepare
    monkeypatch.setattr(StageProgram, "prepare", lambda self: lambda: prepare(self)().slice(1))
    assert measure("ysb_fused")["correct"] is False


def test_the_first_result_is_timed_in_a_process_of_its_own():
    bench = Bench(Settings(rows=2000, repeat=1))
    found = stage.SUITE.measures[first_result.NAMES](bench)
    said = {name: found[name].said(FIGURES[name]) for name in first_result.NAMES}
    assert all(each["correct"] is True and each["unit"] == "s" for each in said.values())
    assert 0 < said["start_warm"]["import_s"] < said["start_warm"]["value"]
    assert said["start_cold"]["must_reach"] == 4.0


def test_a_child_that_fails_is_reported(monkeypatch):
    monkeypatch.setattr(first_result, "_MODULE", "headrace.bench.not_there")
    with pytest.raises(RuntimeError, match="not_there"):
        first_result.measure(10, 1, "thread")


def test_without_polars_the_way_out_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingPackage, match=r"pip install 'headrace\[bench\]'"):
        peers.import_polars()


# ---------------------------------------------------------------- what is printed


SPEED = Figure("speed", "ours to theirs", 0.55)
SIDES = {"ours": {"best": 6e7, "median": 5e7}, "theirs": {"best": 1e8, "median": 1e8}}


def a_result(value=0.5, correct=True, **details):
    return Found(value, correct, {"sides": SIDES, **details}).said(SPEED)


def printed(results, width=80):
    console = Console(file=io.StringIO(), width=width)
    console.print(report.table("a title", results))
    return console.file.getvalue()


def test_the_table_fits_a_terminal_and_says_what_was_missed():
    copied = {"rows": 1000, "source_columns": ["a", "b"], "source_row_bytes": 16}
    start = Found(0.5, True).said(FIGURES["start_warm"])
    text = printed([a_result(**copied), start])
    assert "…" not in text
    assert "missed" in text and "reached" in text
    assert "50.0 M : 100 M" in text and "0.5 ×" in text and "≥ 0.55 ×" in text
    assert "0.5 s" in text and "≤ 1 s" in text
    assert "gives all 2 columns, 16 bytes" in text


def test_the_table_says_what_was_wrong():
    text = printed([a_result(correct=False, polars_threads=8, load_before=1.5)])
    assert "WRONG" in text
    assert "others kept up to 1.5 cores busy" in text
    assert "not the expected one" in text
    assert "8 threads, not 2" in text


@pytest.mark.parametrize("why", [Skipped("no such thing"), MissingPackage("no such package")])
def test_a_figure_that_cannot_be_measured_says_why(why, capsys):
    def measure(bench):
        raise why

    suite = report.Suite("a title", {"speed": SPEED}, {("speed",): measure})
    (result,) = report.run(suite, report.Bench(), as_json=True)
    assert json.loads(capsys.readouterr().out) == result
    assert result["skipped"] == str(why)
    assert result["value"] is result["correct"] is result["reached"] is None
    assert "skipped" in printed([result]) and f"speed: {why}" in printed([result])


def test_json_is_one_line_per_figure_and_nothing_else(capsys, tmp_path):
    names = ["ysb_fused", "keyed_process"]
    plot = tmp_path / "figures.png"
    stage.run(names, settings=SMALL, as_json=True, plot=plot)
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert [json.loads(line)["figure"] for line in lines] == names
    assert said.err == ""
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_progress_is_shown_in_plain_lines_without_a_terminal():
    console = Console(file=io.StringIO(), width=100)
    stage.run(["ysb_fused"], settings=dataclasses.replace(SMALL, repeat=1), console=console)
    text = console.file.getvalue()
    assert "ysb_fused: headrace, round 1 of 1" in text
    assert "must reach" in text
