"""The examples of BigBench and of fraud find what plain loops find, on Spark."""

from tests.example_answers import alerts, assert_bigbench_is_right, example, found_alerts

import headrace as hr


def test_examples(session):
    bigbench, fraud = example("bigbench"), example("fraud")
    outputs = bigbench.viewed, bigbench.falling, fraud.alerts
    hr.run(*outputs, engine="spark", session=session, compiled=False, shards=3)
    assert_bigbench_is_right()
    assert sorted(found_alerts(), key=_caller) == sorted(alerts(), key=_caller)


def _caller(alert):
    return alert[0]  # sorting is stable: the alerts of each telephone stay as they came
