"""The demo and the progress it shows."""

import builtins
import io
import threading
import time

import numpy as np
import pytest
from rich.console import Console

import headrace as hr
from headrace import demo
from headrace.observe import plots, progress


def console(terminal=False):
    return Console(file=io.StringIO(), width=120, force_terminal=terminal)


def run_demo(tmp_path, seconds=0.6, terminal=False):
    to = console(terminal)
    right = demo.run(seconds, tmp_path / "demo.png", to)
    return right, to.file.getvalue()


# ---------------------------------------------------------------- the demo


def test_the_demo_ends_by_itself_with_verified_numbers_and_a_picture(tmp_path):
    threads = threading.active_count()
    started = time.perf_counter()
    right, text = run_demo(tmp_path, seconds=1.2)
    assert right
    assert "verified" in text
    assert "all windows" in text
    assert "ad campaigns on one thread: stopped" in text
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert threading.active_count() == threads
    assert time.perf_counter() - started < 60


def test_on_a_terminal_the_progress_is_drawn_in_place(tmp_path):
    right, text = run_demo(tmp_path, terminal=True)
    assert right
    assert "\x1b[" in text
    assert "only views" in text  # the table of operators
    assert text.rstrip().endswith("demo.png") or "demo.png" in text


def test_a_demo_too_short_for_a_window_says_so(tmp_path):
    right, text = run_demo(tmp_path, seconds=0.01)
    assert right
    assert "No window was closed" in text
    assert not (tmp_path / "demo.png").exists()


def test_wrong_numbers_are_not_called_verified(tmp_path, monkeypatch):
    right_one = demo.reference

    def corrupted(rows):
        found = right_one(rows)
        found.late += 1
        return found

    monkeypatch.setattr(demo, "reference", corrupted)
    right, text = run_demo(tmp_path, seconds=0.05)
    assert not right
    assert "verified" not in text
    assert "WRONG" in text


def test_without_matplotlib_bars_are_drawn_with_characters(tmp_path, monkeypatch):
    found = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return found(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    right, text = run_demo(tmp_path)
    assert right
    assert "█" in text
    assert "pip install 'headrace[plot]'" in text
    assert not (tmp_path / "demo.png").exists()


def test_the_reference_makes_the_same_events_as_the_compiled_function():
    rows = 5000
    index = np.concatenate([np.arange(rows), demo.STRAGGLER * np.arange(1, 400) - 1])
    ad, kind, at = demo._events(index)
    plain = [demo.event(int(i)) for i in index]
    assert list(zip(ad.tolist(), kind.tolist(), at.tolist())) == plain


def test_the_reference_agrees_with_a_row_by_row_count():
    rows = 1_500_000  # 30 s of event time: two windows closed, and rows late for the first
    names = demo.campaigns()["campaign"].to_pylist()
    counts, late, watermark = {}, 0, -(1 << 62)
    for ad, kind, at in zip(*(part.tolist() for part in demo._events(np.arange(rows)))):
        start = at // demo.WINDOW * demo.WINDOW
        if kind == demo.VIEW:
            if start + demo.WINDOW <= watermark:
                late += 1
            else:
                counts[start, names[ad]] = counts.get((start, names[ad]), 0) + 1
        watermark = max(watermark, at - demo.BOUND)
    closed = {k: v for k, v in counts.items() if k[0] + demo.WINDOW <= watermark}
    found = demo.reference(rows, step=100_000)
    assert found.views == closed and len(closed) >= 20
    assert found.late == late > 0


# ---------------------------------------------------------------- progress


class Fake:
    """A job that is as far as it is told."""

    def __init__(self):
        self.asked = 0
        self.now = 0.0

    def progress(self):
        self.asked += 1
        operators = {
            "source": counters(rows_in=1000),
            "count": counters(
                rows_in=1000,
                operators=["filter", "count.on_time", "count"],
                state_keys=3,
                state_bytes=4096,
            ),
        }
        rows = int(1e6 * self.now)
        return Measured("running", self.now, rows, 10, 2, operators)


class Measured:
    def __init__(self, status, seconds, rows_in, rows_out, late_rows, operators):
        self.status, self.seconds, self.operators = status, seconds, operators
        self.rows_in, self.rows_out, self.late_rows = rows_in, rows_out, late_rows
        self.failed_rows = 0


def counters(**changes):
    return {"rows_in": 0, "rows_out": 0, "late_rows": 0, "blocks": 1, "seconds": 0.25, **changes}


@pytest.mark.parametrize(("terminal", "per_second"), [(True, 8), (False, 1)])
def test_drawing_is_throttled(terminal, per_second):
    job = Fake()
    with progress.Watcher("x", console(terminal), clock=lambda: job.now) as watch:
        for _ in range(3000):
            watch(job)
            job.now += 0.001
    # The first one, then so many a second, and one in the end.
    assert 3 * per_second <= job.asked <= 3 * per_second + 2


def test_the_rate_is_that_of_the_last_second():
    job, to = Fake(), console()
    with progress.Watcher("x", to, clock=lambda: job.now) as watch:
        for _ in range(50):
            watch(job)
            job.now += 0.1
    assert "(1.00 M/s)" in to.file.getvalue().splitlines()[-1]


def test_a_line_says_what_is_late():
    job = Fake()
    job.now = 2.0
    text = progress.line("clicks", job.progress(), 5e5)
    assert text == "clicks: running, 2.0 s, 2,000,000 rows in (500 k/s), 10 out, 2 late"


def test_the_table_has_the_operators():
    job = Fake()
    job.now = 1.0
    to = console()
    to.print(progress.picture("clicks", job.progress(), 1e6))
    text = to.file.getvalue()
    assert "filter" in text and "→ count " in text
    assert "on_time" not in text
    assert "25%" in text
    assert "3 keys, 4.10 kB" in text


def test_without_with_plain_lines_are_written_even_on_a_terminal():
    to = console(terminal=True)
    rows = hr.read.memory({"n": [1, 2, 3]})
    hr.run(rows.write.null(), watch=progress.live("rows", to))
    assert to.file.getvalue().startswith("rows: running")


def test_a_job_that_fails_leaves_the_terminal_in_order():
    to = console(terminal=True)

    def refuse(batch):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError), progress.live("rows", to) as watch:
        hr.run(hr.read.memory({"n": [1]}).write.callback(refuse), watch=watch)
    assert to.file.getvalue().endswith("\x1b[?25h")  # the cursor is back


def test_bars_of_nothing_are_nothing():
    assert plots.bars_as_text({}) == ""
