"""Damaged bytes at every way in: read, or refused with an error of ours, and never a crash."""

import os
from pathlib import Path
from random import Random

import pytest
from tests.fuzz.mutation import mutated
from tests.fuzz.run import Summary, fuzz, keep
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.worker import case

import headrace

CASES = 150  # for each target in CI; they take some seconds
SOAK_SECONDS = 3600.0


@pytest.fixture(autouse=True)
def found_by_workers(monkeypatch):
    """Workers are processes of their own, and import these very modules."""
    places = [Path(__file__).parents[2], Path(headrace.__file__).parents[1]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, places)))


@pytest.mark.parametrize("target", TARGETS)
def test_damaged_bytes_are_read_or_refused(target):
    summary = fuzz(target, seed="ci", cases=CASES)
    assert summary.findings == []
    assert summary.cases == CASES and summary.read and summary.refused


@pytest.mark.soak
def test_damaged_bytes_for_an_hour(tmp_path):
    summaries = []
    for target in TARGETS:
        summary = fuzz(target, os.urandom(8).hex(), seconds=SOAK_SECONDS / len(TARGETS))
        print(summary.row())
        summaries.append(summary)
    assert [(each.target, each.findings) for each in summaries if each.findings] == []


# ---- the fuzzer itself ---------------------------------------------------------------------------


def test_cases_are_the_same_again():
    corpus = [b"some bytes " * 20, b"other bytes " * 20]
    made = [case("json", corpus, "seed", number) for number in range(200)]
    assert made == [case("json", corpus, "seed", number) for number in range(200)]
    assert made[:2] == corpus and len(set(made)) > 150
    assert made[5:] != [case("json", corpus, "other", number) for number in range(5, 200)]


def test_nothing_is_too_short_to_be_changed():
    random = Random(1)
    for content in (b"", b"x", b"ab"):
        for _ in range(500):
            assert isinstance(mutated(content, random), bytes)


PLANTED = {
    "dies": "os.kill(os.getpid(), 11)",
    "raises": "raise KeyError('no such thing')",
    "hangs": "time.sleep(600)",
}


@pytest.mark.parametrize("how", PLANTED)
def test_what_is_planted_is_found(tmp_path, monkeypatch, how):
    """A target that does it at the seventh case; the worker after it goes on with the eighth."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, time\n"
        "def plant():\n"
        "    from tests.fuzz import targets\n"
        "    calls = iter(range(1000))\n"
        "    def read(content):\n"
        "        if content.startswith(b'bad'):\n"
        f"            {PLANTED[how]}\n"
        "    def corpus():\n"
        "        return [b'good'] * 7 + [b'bad'] + [b'good'] * 7\n"
        "    targets.TARGETS['planted'] = targets.Target(corpus, read)\n"
        "import builtins\n"
        "builtins.plant = plant\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}")
    monkeypatch.setattr("tests.fuzz.run.HANG_SECONDS", 20.0)
    monkeypatch.setattr(
        "tests.fuzz.run.PROGRAM", "plant(); from tests.fuzz.worker import run; run()"
    )
    summary = fuzz("planted", seed="1", cases=15)
    ((number, what),) = summary.findings
    assert number == 7 and summary.cases == 15
    said = {"dies": "SIGSEGV", "raises": "KeyError: 'no such thing'", "hangs": "hangs"}
    assert said[how] in what
    assert summary.crashes == (how != "raises")
    monkeypatch.setitem(TARGETS, "planted", Target(lambda: [b"good"] * 7 + [b"bad"], None))
    keep(summary, "1", tmp_path / "kept")
    assert (tmp_path / "kept" / "planted-1-7").read_bytes() == b"bad"


def test_a_summary_is_a_row_of_a_table():
    made = Summary("json", read=1000, refused=2000, crashes=1, peak=200 << 20)
    made.findings += [(7, "dies: SIGSEGV"), (9, "KeyError: x")]
    assert made.row() == "| json | 3,002 | 1,000 | 2,000 | 1 | 1 | 200 MiB |"
