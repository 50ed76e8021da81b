"""What all tests share: random-test profiles, the kernel cache, and which tests run at all."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("soak", deadline=None, max_examples=2000, print_blob=True)
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


def pytest_collection_modifyitems(config, items):
    """Leave soak tests out, unless the -m expression speaks of them."""
    if "soak" in config.option.markexpr:
        return
    soak = [item for item in items if item.get_closest_marker("soak")]
    if soak:
        config.hook.pytest_deselected(items=soak)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
