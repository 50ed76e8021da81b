"""Explorations, with how much was explored, and threads that must not stay."""

import os
import threading
import time
from collections import Counter

import pytest
from tests.node.explore import Exploration
from tests.node.schedulers import scheduled

# The weak model first: the other two rely on that no plain access races.
MODELS = ("weak", "tso", "sc")
PREFIX = "explored: "
THREAD_SECONDS = 20.0


@pytest.fixture(autouse=True)
def scheduler():
    """Every test under the scheduler that is named: `make soak` runs them all under others."""
    with scheduled(os.environ.get("HEADRACE_SCHEDULER", "near")):
        yield


@pytest.fixture
def no_thread_is_left():
    """Each thread of ours that a test has started ends with it. On a busy machine that may take
    longer than `close` waits."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + THREAD_SECONDS
    left = ours = [t for t in threading.enumerate() if t.name.startswith("headrace")]
    while left and time.monotonic() < deadline:
        left = [t for t in ours if t not in before and t.is_alive()]
        time.sleep(0.01 if left else 0)
    assert not [t for t in left if t not in before]


@pytest.fixture
def explored(record_property):
    """explored(what, bodies, check, models): all interleavings, without a failure."""

    def run(what, bodies, check=None, models=MODELS):
        exploration = Exploration(bodies, check)
        for model in models:
            report = exploration.run(model)
            print(f"{what}: {report}")
            assert not report.failure, report
            assert report.interleavings > 0
            found = (report.states, report.interleavings)
            record_property(f"{PREFIX}{model:5}", found)

    return run


@pytest.fixture
def found():
    """found(bodies, check): the models that find the planted bug, as {model: what was found}."""

    def run(bodies, check=None, models=MODELS):
        exploration = Exploration(bodies, check)
        reports = [exploration.run(model) for model in models]
        failures = {report.model: report.failure for report in reports if report.failure}
        print(failures)
        return failures

    return run


def pytest_terminal_summary(terminalreporter):
    """The sums over all tests, by model."""
    states, interleavings = Counter(), Counter()
    for report in terminalreporter.stats.get("passed", ()):
        for name, value in getattr(report, "user_properties", ()):
            if name.startswith(PREFIX):
                states[name.removeprefix(PREFIX)] += value[0]
                interleavings[name.removeprefix(PREFIX)] += value[1]
    if states:
        terminalreporter.write_sep("-", "explored")
    for model, number in sorted(states.items()):
        ways = interleavings[model]
        terminalreporter.write_line(f"{model}: {number:,} states, {ways:.3g} interleavings")
