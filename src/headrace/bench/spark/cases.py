"""The cases of `headrace bench spark`: what each one compares, and what it must reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.bench.harness import MissingPackage

from .context import Context, Skipped
from .dataframe import dataframe
from .etl import etl_parquet
from .functions import python_chain, python_udf
from .kafka import kafka_json
from .keyed import keyed_python, large_state
from .startup import startup
from .ticks import tick
from .windows import keyed_aggregate, window_parquet


@dataclass(frozen=True)
class Case:
    """One case: its name, what it compares, and the ratio that it must reach, or not pass."""

    name: str
    title: str
    measure: Callable[[Context], dict[str, Any]]
    at_least: float | None = None
    at_most: float | None = None

    @property
    def target(self) -> str:
        """What must be reached, in signs.

        >>> Case("tick", "smallest batch", lambda context: {}, at_most=1.3).target
        '≤ 1.3'
        """
        return f"≥ {self.at_least:g}" if self.at_least is not None else f"≤ {self.at_most:g}"

    def run(self, context: Context) -> dict[str, Any]:
        """Measure; a case that cannot be run here says why."""
        try:
            found = self.measure(context)
        except (MissingPackage, Skipped) as skipped:
            nothing = {"ratio": None, "rows_per_s": None, "their_rows_per_s": None}
            found = {**nothing, "correct": None, "skipped": str(skipped)}
            return {"case": self.name, **found, "target": self.target, "reached": None}
        ratio = round(found.pop("ratio"), 3)
        within = ratio >= self.at_least if self.at_least is not None else ratio <= self.at_most
        reached = bool(found["correct"] and within)
        return {
            "case": self.name,
            "ratio": ratio,
            **{name: _rounded(value) for name, value in found.items()},
            "target": self.target,
            "reached": reached,
        }


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return round(value, 3) if isinstance(value, float) else value


CASES = {
    case.name: case
    for case in (
        Case("window_parquet", "Yahoo query over Parquet; DataFrames", window_parquet, 2.0),
        Case("etl_parquet", "Parquet to Parquet; DataFrames", etl_parquet, 2.0),
        Case("keyed_aggregate", "sums by 100,000 keys; DataFrames", keyed_aggregate, 1.2),
        Case("keyed_python", "a state for each key; Spark's per-key API", keyed_python, 20.0),
        Case("python_udf", "four functions; row-at-a-time UDFs", python_udf, 20.0),
        Case("python_chain", "four functions; mapInPandas", python_chain, 8.0),
        Case("kafka_json", "Yahoo query over Kafka; Spark's connector", kafka_json, 1.5),
        Case("large_state", "1 % of 5 million keys; all of them", large_state, at_most=0.4),
        Case("dataframe", "functions on a DataFrame; mapInPandas", dataframe, 1.0),
        Case("tick", "smallest keyed batch; DataFrames", tick, at_most=1.3),
        Case("startup", "seconds added to a bare session", startup, at_most=2.0),
    )
}
