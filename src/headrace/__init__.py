"""headrace: streams of events, written once in Python, compiled, run on every core."""

from typing import Any

from . import read
from .connect.avro import Avro
from .expr import (
    Expr,
    aggregate,
    approx_count_distinct,
    coalesce,
    col,
    collect,
    concat,
    count,
    count_distinct,
    first,
    from_millis,
    from_seconds,
    greatest,
    last,
    least,
    lit,
    mean,
    quantile,
    stddev,
    top_k,
    udf,
    variance,
    when,
)
from .expr import hash_ as hash
from .expr import max_ as max
from .expr import min_ as min
from .expr import sum_ as sum
from .gate import Gate
from .handle import Job
from .job import Engine, explain, run, start
from .partition import by_function, by_range
from .plan.errors import (
    DataError,
    HeadraceError,
    MemoryBudgetError,
    PipelineError,
    StateError,
)
from .plan.schema import Schema
from .plan.state_spec import bounded_list
from .plan.types import (
    binary,
    bool_,
    date,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    optional,
    string,
    timestamp,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .recording import record, replay
from .stage.asides import aside
from .stream import Stream
from .table import table
from .time import counting, duration, session, sliding, tumbling
from .uncaught import show_only_users_lines

show_only_users_lines()

__all__ = [
    "Avro",
    "DataError",
    "Expr",
    "Gate",
    "HeadraceError",
    "Engine",
    "Job",
    "MemoryBudgetError",
    "PipelineError",
    "Schema",
    "StateError",
    "Stream",
    "aggregate",
    "approx_count_distinct",
    "aside",
    "binary",
    "bool_",
    "bounded_list",
    "by_function",
    "by_range",
    "coalesce",
    "col",
    "collect",
    "concat",
    "count",
    "count_distinct",
    "counting",
    "date",
    "duration",
    "explain",
    "first",
    "float32",
    "float64",
    "from_millis",
    "from_seconds",
    "greatest",
    "hash",
    "int16",
    "int32",
    "int64",
    "int8",
    "last",
    "least",
    "lit",
    "max",
    "mean",
    "min",
    "optional",
    "quantile",
    "read",
    "record",
    "replay",
    "run",
    "session",
    "sliding",
    "start",
    "stddev",
    "string",
    "sum",
    "table",
    "timestamp",
    "top_k",
    "tumbling",
    "udf",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "variance",
    "when",
]


def __getattr__(name: str) -> Any:
    if name in ("dates", "wrapping"):  # they need what compiled code needs
        from importlib import import_module

        return import_module(f".{name}", __name__)
    from .habits import PACKAGE, unknown

    raise unknown("headrace", name, PACKAGE, __all__)
