"""One Spark for all tests, on two cores; without PySpark or Java they are skipped."""

import pytest
from tests.broker import broker

__all__ = ["broker"]  # a fixture


def pytest_collection_modifyitems(items):
    reason = missing()
    if reason:
        for item in items:
            if "spark" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason=reason))


def missing() -> str:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "PySpark is not installed"
    from headrace.spark.errors import SparkError
    from headrace.spark.session import check_java

    try:
        check_java()
    except SparkError as error:
        return str(error).splitlines()[0]
    return ""


@pytest.fixture(scope="session")
def session():
    from headrace.spark.session import open_session

    made = open_session("local[2,3]", None)  # a task may fail twice
    yield made
    made.stop()
