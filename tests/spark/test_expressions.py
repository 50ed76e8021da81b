"""Functions of all families on Spark: the same rows as on the calling thread."""

from tests.test_expression_functions import rows_on


def test_functions_on_spark(session):
    assert rows_on("spark", session=session) == rows_on("thread", compiled=False)
