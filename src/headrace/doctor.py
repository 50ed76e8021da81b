"""`headrace doctor`: what is installed, where the cache is, and whether a pipeline runs."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

import headrace as hr
from headrace.asked import engine_named
from headrace.observe.numbers import short
from headrace.stage import cache

NEEDED = ("headrace", "numba", "llvmlite", "numpy", "pyarrow", "pyspark", "rich")
OPTIONAL = {"matplotlib": "plots", "polars": "bench"}


def run(console: Console | None = None) -> int:
    """Print what is found; 0 if a small pipeline gives the right result."""
    console = console or Console()
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for facts in (_versions(), _machine(), _java(), _compiler(), _cache()):
        for name, value in facts:
            table.add_row(name, Text(value))
    right, said = _trial()
    table.add_row("small pipeline", Text(said, "green" if right else "red"))
    console.print(table)
    return 0 if right else 1


def _versions() -> Iterator[tuple[str, str]]:
    yield "Python", f"{platform.python_version()} ({platform.python_implementation()})"
    for name in NEEDED:
        yield name, _installed(name) or "missing"
    for name, use in OPTIONAL.items():
        found = _installed(name)
        extra = "plot" if use == "plots" else use
        yield name, found or f"missing, needed for {use}: pip install 'headrace[{extra}]'"


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _machine() -> Iterator[tuple[str, str]]:
    yield "system", f"{platform.system()} {platform.release()}, {platform.machine()}"
    there = os.cpu_count() or 1
    ours = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else there
    yield "CPUs", f"{ours} of {there}" if ours != there else str(there)


def _java() -> Iterator[tuple[str, str]]:
    """Spark is the default engine, and needs it."""
    from headrace.spark.java import NoJava, find_java

    try:
        found = find_java()
    except NoJava as error:
        yield "Java", str(error)
        yield "", 'without it: hr.run(..., engine="node")'
    else:
        yield "Java", f"{found.version} ({found.path})"
    yield "default engine", engine_named(None)


def _compiler() -> Iterator[tuple[str, str]]:
    from llvmlite import binding

    from headrace.stage.memory.numba_internals import config as numba_config

    config: Any = numba_config  # whose settings no type checker knows

    yield "compiles for", binding.get_host_cpu_name()
    off = config.DISABLE_JIT
    yield "Numba", "compiling is OFF (NUMBA_DISABLE_JIT)" if off else "compiling is on"
    yield (
        "Numba threads",
        (
            f"{config.NUMBA_NUM_THREADS}, layer {config.THREADING_LAYER!r} "
            "(not used: a stage runs on the thread that calls it)"
        ),
    )


def _cache() -> Iterator[tuple[str, str]]:
    folder = cache.folder()
    kernels = sum(1 for _ in folder.glob("*.py"))
    machine_code = sum(1 for _ in folder.rglob("*.nbc"))
    state = f"warm: {kernels} kernels, {machine_code} compiled" if machine_code else "cold"
    yield "cache", str(folder)
    yield "", f"{state}, {short(_size(folder))}B"
    others = [f for f in folder.parent.iterdir() if (f / "facts").is_dir() and f != folder]
    if others:
        size = sum(map(_size, others))
        yield "", f"{len(others)} of other versions, {short(size)}B: may be deleted"
    if "HEADRACE_CACHE" in os.environ:
        yield "", "set by HEADRACE_CACHE"


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:
            continue  # removed meanwhile
    return total


def _trial() -> tuple[bool, str]:
    """Compile and run a small pipeline."""
    started = time.perf_counter()
    numbers = hr.read.index(1000).with_watermark("index", 0).window(hr.tumbling(500))
    output = numbers.agg(total=hr.sum("index")).write.collect()
    try:
        hr.run(output, engine="thread")
    except Exception as error:  # whatever it is, it is what the doctor is asked for
        return False, f"failed: {error}"
    seconds = time.perf_counter() - started
    if output.result()["total"].to_pylist() != [sum(range(500)), sum(range(500, 1000))]:
        return False, f"gave a wrong result: {output.result().to_pylist()}"
    return True, f"compiled and right, in {seconds:.2f} s"
