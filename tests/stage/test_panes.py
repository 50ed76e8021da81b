"""Open windows: whoever opens and closes them, compiled code or the host, they agree."""

import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stage.both import mode

from headrace.plan.types import int64
from headrace.stage.generate.stores import StoreLayout
from headrace.stage.memory.modes import interpreted
from headrace.stage.memory.records import array, i64
from headrace.stage.panes import (
    LAST,
    MOST_SPARE,
    close_panes,
    closed_panes,
    empty_panes,
    find_pane,
    lacks_pane,
    note_window,
    open_pane,
    panes_with,
    pass_window,
)
from headrace.stage.room import grow_panes, trim_panes
from headrace.stage.store import Store
from headrace.stage.tables import store_functions
from headrace.stage.windows import OpenWindows

SIZE = 10
PANES = open_pane.py_func.__code__.co_filename
LAYOUT = StoreLayout("plain", (int64,), (("value", int64),))


class Windows:
    """Open windows as compiled code changes them, beside what a dict says."""

    def __init__(self, mode):
        entry = store_functions(LAYOUT, None, compiled=False).entry
        self.real = OpenWindows(entry, keeps_text=False)
        self.panes, self.records = self.real.panes, {}
        names = (find_pane, lacks_pane, open_pane, closed_panes)
        names += (panes_with, empty_panes, close_panes, grow_panes, trim_panes)
        names += (note_window, pass_window)
        self.do = {function.__name__: mode(function) for function in names}

    def open(self, start, records):
        if start not in self.records:
            if self.do["lacks_pane"](self.panes):
                self.do["grow_panes"](self.panes)
            self.do["open_pane"](self.panes, start, start + SIZE, start + SIZE)
            self.records[start] = 0
        store = Store(self.do["find_pane"](self.panes, start))
        store.count += records
        self.records[start] += records

    def noted(self, count):
        due = array(i64, address=self.panes.due)
        return [Store(due[k]).window for k in range(count)]

    def close_until(self, watermark):
        count = self.do["closed_panes"](self.panes, watermark)
        due = sorted(s for s in self.records if s + SIZE <= watermark)
        assert self.noted(count) == due
        self.do["close_panes"](self.panes, count)
        for start in due:
            del self.records[start]

    def give_until(self, watermark):
        """Window after window, as they end."""
        while True:
            count = self.do["note_window"](self.panes, watermark)
            due = sorted(s for s in self.records if s + SIZE <= watermark)[:1]
            assert self.noted(count) == due
            if not due:
                return
            self.do["pass_window"](self.panes, count)
            del self.records[due[0]]

    def flush(self):
        before = {start: store.header.serial for start, store in self.real.stores.items()}
        count = self.do["panes_with"](self.panes, True)
        filled = {start for start, records in self.records.items() if records}
        assert sorted(self.noted(count)) == sorted(filled)
        self.do["empty_panes"](self.panes, count)
        after = {start: store.header.serial for start, store in self.real.stores.items()}
        assert {start for start in after if after[start] > before[start]} == filled
        self.records = dict.fromkeys(self.records, 0)

    def close_empty(self):
        self.do["close_panes"](self.panes, self.do["panes_with"](self.panes, False))
        self.records = {start: records for start, records in self.records.items() if records}

    def close_by_host(self, start):
        if start in self.records:
            self.real.close([start])
            del self.records[start]

    def check(self):
        stores = self.real.stores
        assert {start: store.count for start, store in stores.items()} == self.records
        assert self.panes.count == len(self.records)
        assert self.real.next_end == min((s + SIZE for s in self.records), default=LAST)
        serials = [store.header.serial for store in stores.values()]
        assert len(set(serials)) == len(serials)
        assert all(self.do["find_pane"](self.panes, start) == 0 for start in (-SIZE, 1000 * SIZE))


starts = st.integers(0, 60).map(lambda n: n * SIZE)
steps = st.one_of(
    st.tuples(st.just("open"), starts, st.integers(0, 3)),
    st.tuples(st.just("close_until"), st.integers(0, 61 * SIZE)),
    st.tuples(st.just("give_until"), st.integers(0, 61 * SIZE)),
    st.tuples(st.just("close_by_host"), starts),
    st.sampled_from([("flush",), ("close_empty",)]),
)


@mode
@settings(max_examples=60)
@given(script=st.lists(steps, max_size=60))
def test_windows_are_those_that_were_opened_and_not_closed(mode, script):
    windows = Windows(mode)
    for name, *arguments in script:
        getattr(windows, name)(*arguments)
        windows.check()


def lines_of(windows):
    """How many lines run where so many windows are opened, in any order, and given out."""
    made, counted = Windows(interpreted), [0]

    def trace(frame, event, argument):
        counted[0] += event == "line"
        return trace

    starts = [number * SIZE for number in range(windows)]
    random.Random(1).shuffle(starts)
    before = sys.gettrace()
    sys.settrace(lambda frame, *given: trace if frame.f_code.co_filename == PANES else None)
    try:
        for start in starts:
            made.open(start, 1)
        for watermark in range(0, (windows + 1) * SIZE, 7 * SIZE):
            made.give_until(watermark)
        made.give_until(LAST)
    finally:
        sys.settrace(before)
    assert made.panes.count == 0
    return counted[0]


def test_many_windows_take_hardly_more_steps_each():
    """The next one is found by a heap: eight times as many take far less than 64 times as many."""
    assert lines_of(800) < 12 * lines_of(100)


@mode
def test_closed_windows_leave_little_memory_behind(mode):
    windows = Windows(mode)
    for number in range(100):
        windows.open(number * SIZE, 1)
    windows.close_until(LAST)
    assert windows.panes.spares == 100
    windows.do["trim_panes"](windows.panes)
    assert windows.panes.spares == MOST_SPARE
    windows.open(0, 1)
    windows.check()


@pytest.mark.parametrize("saved", [0, 1, 3])
def test_fresh_windows_are_those_opened_since_the_snapshot(saved):
    windows = Windows(lambda function: function)
    for number in range(3):
        if number == saved:
            windows.real.note_snapshot()
        windows.open(number * SIZE, 1)
    if saved == 3:
        windows.real.note_snapshot()
    assert windows.real.fresh() == [number * SIZE for number in range(saved, 3)]
