"""The benchmark runs end to end on small sizes, and notices wrong results."""

import dataclasses
import io
import json
import sys
import time

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

import headrace as hr
from headrace.bench import first_result, peers, report, stage
from headrace.bench.figures import FIGURES, Settings, StageProgram
from headrace.bench.harness import Duel, MissingPackage, duel
from headrace.workloads import keyed, ysb
from headrace.workloads.compare import same_rows

pytest.importorskip("polars")

SMALL = Settings(rows=20_000, repeat=2)
RATIOS = ("ysb_fused", "ysb_strings", "keyed_process")
PROMISED = {
    *("figure", "ratio", "ratio_best", "events_per_s", "polars_events_per_s", "correct"),
    *("must_reach", "reached", "rows", "bytes_copied_per_row", "copied_columns"),
}


def measure(name, settings=SMALL):
    return FIGURES[name].measure(FIGURES[name], settings, lambda said: None)


# ---------------------------------------------------------------- workloads


@pytest.mark.parametrize("strings", [False, True])
def test_the_yahoo_query_gives_what_plain_python_gives(strings):
    data = ysb.make(3000, strings=strings)
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
    ids = ysb.make(10, strings=True).campaigns["campaign_id"].unique().to_pylist()
    assert {len(text) for text in ids} == {36}


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


@pytest.mark.parametrize("make", [lambda: ysb.make(0), lambda: keyed.make(5, keys=6)])
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


def test_programs_run_in_turns_and_the_warm_up_is_not_timed():
    said = []

    def prepare():
        said.append("prepare")
        return lambda: said.append("ours")

    found = duel(prepare, lambda: said.append("theirs"), lambda _: True, rows=1, repeat=2)
    assert said == ["prepare", "ours", "theirs"] * 3
    assert len(found.ours) == len(found.theirs) == 2


@pytest.mark.parametrize("wrong_run", range(6))
def test_one_wrong_result_of_many_is_noticed(wrong_run):
    verdicts = [number != wrong_run for number in range(6)]
    found = duel(lambda: list, list, lambda _: verdicts.pop(0), rows=1, repeat=2)
    assert not found.correct


def test_the_ratio_is_the_median_of_pairs():
    found = Duel(rows=10, ours=[1.0, 1.0, 10.0], theirs=[0.5, 0.6, 50.0])
    assert found.ratio == 0.6
    assert found.ratio_best == 0.5


def test_the_cores_that_a_program_used_are_measured():
    def spin():
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass

    found = duel(lambda: spin, lambda: time.sleep(0.05), lambda _: True, rows=1, repeat=1)
    assert found.our_cores[0] > 0.1 > found.their_cores[0]


# ---------------------------------------------------------------- figures


@pytest.mark.parametrize("name", RATIOS)
def test_a_figure_is_right_and_complete(name):
    result = measure(name)
    assert set(result) >= PROMISED
    assert result["correct"] is True
    assert result["ratio"] > 0 and result["events_per_s"] > 0
    assert result["rows"] == SMALL.rows
    assert result["reached"] is (result["ratio"] >= result["must_reach"])
    json.dumps(result)


def test_all_columns_are_copied():
    result = measure("ysb_fused")
    assert result["copied_columns"] == list(ysb.make(1).events.schema.names)
    assert result["bytes_copied_per_row"] == 7 * 8
    assert measure("ysb_strings")["bytes_copied_per_row"] == 6 * 8 + 16


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
    result = measure("first_result", Settings(rows=2000, repeat=1))
    assert result["correct"] is True
    assert 0 < result["import_s"] < result["warm_s"]
    assert result["must_reach"] == {"warm_s": 1.0, "cold_s": 4.0}
    assert result["ratio"] == result["warm_s"]


def test_a_child_that_fails_is_reported(monkeypatch):
    monkeypatch.setattr(first_result, "_MODULE", "headrace.bench.not_there")
    with pytest.raises(RuntimeError, match="not_there"):
        first_result.measure(10, 1)


def test_without_polars_the_way_out_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingPackage, match=r"pip install 'headrace\[bench\]'"):
        peers.import_polars()


# ---------------------------------------------------------------- what is printed


def a_result(**changes):
    return {
        "figure": "ysb_fused",
        "ratio": 0.5,
        "ratio_best": 0.4,
        "events_per_s_median": 5e7,
        "polars_events_per_s_median": 1e8,
        "correct": True,
        "must_reach": 0.55,
        "reached": False,
        "rows": 1000,
        "copied_columns": ["a", "b"],
        "bytes_copied_per_row": 16,
        "polars_threads": 2,
        **changes,
    }


A_START = {
    "figure": "first_result",
    "warm_s": 0.5,
    "cold_s": 5.0,
    "correct": True,
    "must_reach": {"warm_s": 1.0, "cold_s": 4.0},
    "reached": False,
    "rows": 10,
}


def printed(results):
    console = Console(file=io.StringIO(), width=80)
    report.show(results, console)
    return console.file.getvalue()


def test_the_table_fits_a_terminal_and_says_what_was_missed():
    text = printed([a_result(), A_START])
    assert "…" not in text
    assert "ysb_fused: missed what it must reach" in text
    assert "first_result, warm" in text and "reached" in text
    assert "first_result, cold" in text
    assert "copies all 2 columns, 16 bytes" in text


def test_the_table_says_what_was_wrong():
    text = printed([a_result(correct=False, polars_threads=8, load_before=1.5)])
    assert "WRONG" in text
    assert "others kept 1.5 cores busy" in text and "best against best: 0.40" in text
    assert "not the expected one" in text
    assert "8 threads, not 2" in text


def test_json_is_one_line_per_figure_and_nothing_else(capsys, tmp_path):
    names = ["ysb_fused", "keyed_process"]
    plot = tmp_path / "bars.png"
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
    assert "ysb_fused: round 1 of 1" in text
    assert "must reach" in text


def test_a_plot_of_starts_alone_works(tmp_path):
    report.plot([A_START], tmp_path / "starts.png")
    assert (tmp_path / "starts.png").stat().st_size > 1000
