"""What tests of connectors share."""

import pytest
from tests.broker import broker

from headrace.connect import files

__all__ = ["broker"]  # a fixture, once for all modules


@pytest.fixture(scope="session", autouse=True)
def time_to_gather():
    """Small files are read together as far as they fit, however busy the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "GATHER_SECONDS", 60.0)
        yield
