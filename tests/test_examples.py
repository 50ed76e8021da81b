"""The examples of BigBench and of fraud find what plain loops find, on threads."""

from tests.example_answers import alerts, assert_bigbench_is_right, example, found_alerts

import headrace as hr

NODE = {"engine": "node", "workers": 3, "capacity": 128, "compiled": False}


def test_queries_of_bigbench():
    bigbench = example("bigbench")
    hr.run(bigbench.viewed, bigbench.falling, **NODE)
    assert_bigbench_is_right()


def test_alerts_come_in_the_order_of_the_calls():
    hr.run(example("fraud").alerts, **NODE)
    expected = alerts()
    assert len(expected) > 3 and found_alerts() == expected


def test_on_spark_the_alerts_of_each_telephone_are_promised_in_order():
    said = hr.explain(example("fraud").alerts, engine="spark")
    assert "in order on threads, in order for each caller on Spark" in said
