"""The cases of `headrace bench spark`: what each one compares, and what it must reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.bench.figure import Figure, Found, by_name
from headrace.bench.report import Suite

from .bounded import (
    bounded_etl,
    bounded_keyed,
    bounded_window,
    rival_etl,
    rival_keyed,
    rival_window,
)
from .context import Context
from .dataframe import dataframe
from .etl import etl_parquet
from .functions import python_chain, python_udf
from .kafka import kafka_json
from .keyed import keyed_python, large_state
from .startup import startup
from .ticks import tick
from .windows import keyed_aggregate, window_parquet

CASES = by_name(
    Figure("window_parquet", "Yahoo query over Parquet; DataFrames", 2.0),
    Figure("etl_parquet", "Parquet to Parquet; DataFrames", 2.0),
    Figure("keyed_aggregate", "sums by 100,000 keys; DataFrames", 1.2),
    Figure("keyed_python", "a state for each key; Spark's per-key API", 20.0),
    Figure("python_udf", "four functions; row-at-a-time UDFs", 20.0),
    Figure("python_chain", "four functions; mapInPandas", 8.0),
    Figure("kafka_json", "Yahoo query over Kafka; Spark's connector", 1.5),
    Figure("large_state", "1 % of 5 million keys; all of them", 0.4, True),
    Figure("dataframe", "functions on a DataFrame; mapInPandas", 1.0),
    Figure("tick", "smallest keyed batch; DataFrames", 1.3, True),
    Figure("startup", "seconds added to a bare session", 2.0, True, "s"),
    Figure("bounded_window", "a whole run of the Yahoo query; the node engine", 0.8),
    Figure("bounded_keyed", "a whole run by 100,000 keys; the node engine", 0.8),
    Figure("bounded_etl", "a whole run, Parquet to Parquet; the node engine", 0.8),
    Figure("rival_window", "Yahoo query, node engine; Sail", 1.0),
    Figure("rival_keyed", "100,000 keys, node engine; Sail", 1.0),
    Figure("rival_etl", "Parquet to Parquet, node engine; Sail", 1.0),
)


def found_by(measure: Callable[[Context], dict[str, Any]], context: Context) -> Found:
    """What a case says that it has found."""
    said = measure(context)
    ratio, correct = said.pop("ratio"), said.pop("correct")
    return Found(ratio, correct, {name: _rounded(value) for name, value in said.items()})


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return round(value, 3) if isinstance(value, float) else value


def _case(measure: Callable[[Context], dict[str, Any]]) -> Callable[[Context], dict[str, Found]]:
    return lambda context: {measure.__name__: found_by(measure, context)}


MEASURED_BY = (
    *(window_parquet, etl_parquet, keyed_aggregate, keyed_python, python_udf, python_chain),
    *(kafka_json, large_state, dataframe, tick, startup),
    *(bounded_window, bounded_keyed, bounded_etl, rival_window, rival_keyed, rival_etl),
)
SUITE = Suite(
    "headrace bench spark: the same work on the same two cores",
    CASES,
    {(measure.__name__,): _case(measure) for measure in MEASURED_BY},
)
