"""`headrace run FILE` and `headrace graph FILE`: the outputs that a Python file makes, run with the
command's options, or drawn."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from .asked import engine_named
from .job import explain
from .job import run as run_job
from .observe.progress import live
from .options import OPTIONS, loading
from .plan.errors import HeadraceError
from .spark.shipment import FILE_MODULE
from .write import Output


class NothingToRun(HeadraceError):
    """A file without outputs, with a mistake of Python, or that is not there."""


def outputs_in(path: Path) -> list[Output]:
    """The outputs among the variables of a file, in the order in which they were made."""
    if not path.is_file():
        raise NothingToRun(f"there is no file {path}")
    found: list[Output] = []
    for value in vars(_loaded(path)).values():
        several = value if isinstance(value, list | tuple) else [value]
        found.extend(each for each in several if isinstance(each, Output) and each not in found)
    if not found:
        raise NothingToRun(
            f"{path} has no outputs\n  fix: keep what is to run in a variable, outside of "
            '`if __name__ == "__main__"`, e.g. out = stream.write.parquet("out/")'
        )
    return found


def _loaded(path: Path) -> ModuleType:
    """The file as a module, whose functions travel to Spark's workers by value."""
    sys.path.insert(0, str(path.absolute().parent))  # as Python itself does
    spec = importlib.util.spec_from_file_location(FILE_MODULE, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[FILE_MODULE] = importlib.util.module_from_spec(spec)
    with suppress(ImportError):  # without PySpark nothing travels
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(module)
    try:
        with loading():
            spec.loader.exec_module(module)
    except HeadraceError:
        raise
    except Exception as error:
        raise NothingToRun(f"{path} fails\n{_said_in(path, error)}") from error
    return module


def _said_in(path: Path, error: Exception) -> str:
    """An error as Python shows it, from the lines of a file on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(path):
        trace = trace.tb_next
    return "".join(traceback.format_exception(error.with_traceback(trace))).rstrip()


def run(options: argparse.Namespace) -> int:
    """Run a file, with progress; a user's exception is raised as it is."""
    outputs = outputs_in(options.file)
    engine = engine_named(options.engine)
    if options.explain:
        print(explain(*outputs, engine=engine, shards=options.shards))
        return 0
    names = ("seconds", *(name for name in OPTIONS if hasattr(options, name)))
    given: dict[str, Any] = {name: getattr(options, name) for name in names}
    with live(options.file.stem) as watch:
        job = run_job(*outputs, engine=engine, watch=watch, **given)
    progress = job.progress()
    failed = f"{progress.failed_rows:,} failed, " if progress.failed_rows else ""
    print(
        f"{job.status}: {progress.rows_in:,} rows in, {progress.rows_out:,} out, "
        f"{progress.late_rows:,} late, {failed}{progress.seconds:.1f} s"
    )
    return 0


def graph(file: Path | None, svg: Path | None) -> int:
    """Draw the pipeline of a file, or of the jobs that run: Mermaid text, or into an SVG file."""
    from .observe.graph import Graph
    from .observe.notice import running
    from .observe.top import NOBODY

    if file is not None:
        drawn = [Graph.of([output.node for output in outputs_in(file)])]
    else:
        told = [each["graph"] for _, each in running() if "graph" in each]
        drawn = [Graph.told(each["labels"], each["edges"]) for each in told]
    if not drawn:
        print(f"{NOBODY}; headrace graph FILE draws a pipeline", file=sys.stderr)
        return 1
    if svg is None:
        print(*drawn, sep="\n\n")
    else:
        svg.write_text(drawn[0].svg, encoding="utf-8")
    return 0
