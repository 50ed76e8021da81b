"""How long a new process takes to its first result row.

`measure` starts this module as a process of its own, first with an empty cache folder (cold), then
again with the same folder (warm). It runs the Yahoo query and writes down, on a clock that all
processes of a machine share, when the first row came.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from statistics import median

from .figure import Figure, Found
from .saying import Said, say_nothing

ROWS = 100_000
FIGURES = (
    Figure("start_warm", "start to first result, warm cache", 1.0, True, "s"),
    Figure("start_cold", "start to first result, cold cache", 4.0, True, "s"),
)
NAMES = tuple(figure.name for figure in FIGURES)
_MODULE = "headrace.bench.first_result"


@dataclass
class Starts:
    """Seconds from the start of a process to its first result row."""

    cold: float = 0.0
    warm: list[float] = field(default_factory=list)
    imported: list[float] = field(default_factory=list)  # of the warm ones: until headrace is there
    correct: bool = True


def found(rows: int, repeat: int, engine: str, say: Said = say_nothing) -> dict[str, Found]:
    """Both figures of an engine."""
    starts = measure(rows, repeat, engine, say)
    details = {
        "starts": [round(seconds, 3) for seconds in starts.warm],
        "import_s": round(median(starts.imported), 3),
        "rows": rows,
    }
    return {
        "start_warm": Found(median(starts.warm), starts.correct, details),
        "start_cold": Found(starts.cold, starts.correct, {"rows": rows}),
    }


def measure(rows: int, repeat: int, engine: str, say: Said = say_nothing) -> Starts:
    """Start a process with a cold cache, then `repeat` with a warm one."""
    found = Starts()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        # Numba keeps machine code of the package's own functions beside the package, unless told
        # otherwise; on a new machine that is cold as well.
        environment = {
            **os.environ,
            "HEADRACE_CACHE": os.path.join(folder, "headrace"),
            "NUMBA_CACHE_DIR": os.path.join(folder, "numba"),
        }
        for number in range(repeat + 1):
            say(f"warm start {number} of {repeat}" if number else "cold start")
            first, imported, correct = _start(rows, engine, environment)
            found.correct &= correct
            if number:
                found.warm.append(first)
                found.imported.append(imported)
            else:
                found.cold = first
    return found


def _start(rows: int, engine: str, environment: dict[str, str]) -> tuple[float, float, bool]:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", _MODULE, str(rows), engine],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the process that was to be measured failed:\n{done.stderr}")
    said = json.loads(done.stdout)
    return said["first"] - started, said["imported"] - started, said["correct"]


def _main(rows: int, engine: str) -> None:
    import pyarrow as pa

    import headrace as hr
    from headrace.workloads import ysb

    imported = time.monotonic()
    came: list[float] = []
    batches: list[pa.RecordBatch] = []

    def take(batch: pa.RecordBatch) -> None:
        came.append(time.monotonic())
        batches.append(batch)

    data = ysb.make(rows)
    output = ysb.pipeline(hr.read.memory(data.events), data.campaigns).write.callback(take)
    hr.run(output, engine=engine)
    correct = ysb.same_rows(pa.Table.from_batches(batches), data.expected())
    print(json.dumps({"first": came[0], "imported": imported, "correct": correct}))


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2])
