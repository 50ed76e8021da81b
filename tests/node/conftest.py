"""Say how much was explored."""

import pytest
from tests import counts
from tests.node.explore import Exploration

MODELS = ("sc", "tso", "weak")


@pytest.fixture
def explored(record_property):
    """explored(what, bodies, check, models): all interleavings, without a failure."""

    def run(what, bodies, check=None, models=MODELS):
        exploration = Exploration(bodies, check)
        for model in models:
            report = exploration.run(model)
            print(f"{what}: {report}")
            record_property(f"{counts.PREFIX}states of {what} ({model})", report.states)
            assert not report.failure, report
            assert report.interleavings > 0

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
