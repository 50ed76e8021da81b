"""What all tests share: random-test profiles, the kernel cache, and which tests run at all."""

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests import counts, crashes

patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine
settings.register_profile("ci", patient, derandomize=True, max_examples=40)
settings.register_profile("soak", patient, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HEADRACE_PROFILE", "ci"))


@pytest.fixture(scope="session", autouse=True)
def kernel_cache():
    """Keep one kernel cache for the whole run, so that repeated runs are warm.

    Unset, HEADRACE_CACHE stays unset: headrace's own default is a stable folder under the user's
    cache folder. Set, it is made absolute, so that subprocesses started elsewhere share it.
    """
    chosen = os.environ.get("HEADRACE_CACHE")
    if chosen:
        folder = Path(chosen).expanduser().resolve()
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["HEADRACE_CACHE"] = str(folder)


@pytest.fixture(scope="session", autouse=True)
def interrupts():
    """Ctrl-C works, also where a shell has started the tests in the background and ignores it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def module_path(monkeypatch):
    """Forget what a test added to the module path: `headrace run` puts its file's folder first."""
    monkeypatch.setattr(sys, "path", list(sys.path))


def pytest_collection_modifyitems(config, items):
    """Leave soak tests out, unless the -m expression speaks of them."""
    if "soak" in config.option.markexpr:
        return
    soak = [item for item in items if item.get_closest_marker("soak")]
    if soak:
        config.hook.pytest_deselected(items=soak)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    """Let each process of a run note where it crashes; behind pytest, which does it, too."""
    given = getattr(config, "workerinput", None)
    if given is None:
        config.crashes = crashes.new_folder()
    else:
        config.noted = crashes.note_in(given[crashes.FOLDER], given["workerid"])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """A process of a run is about to start."""
    node.workerinput[crashes.FOLDER] = node.config.crashes


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Let each report carry what its test has counted: reports come from all workers."""
    report = yield
    if report.when == "call":
        report.user_properties += counts.taken()
    return report


def pytest_terminal_summary(terminalreporter, config):
    """Say how many random examples there were, and where processes crashed."""
    noted = list(crashes.summary(config.crashes))
    if noted:
        terminalreporter.write_sep("-", "crashes")
    for line in noted:
        terminalreporter.write_line(line)
    reports = [report for many in terminalreporter.stats.values() for report in many]
    found = [each for report in reports for each in getattr(report, "user_properties", ())]
    lines = counts.summary(found)
    if lines:
        terminalreporter.write_sep("-", "random examples")
        for line in lines:
            terminalreporter.write_line(line)
