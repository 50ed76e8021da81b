"""Compiled functions and their interpreted twins."""

import os
import subprocess
import sys
from pathlib import Path

from headrace.stage.memory import modes
from headrace.stage.memory.modes import compiled, interpreted


@compiled
def countdown(n):
    return 0 if n == 0 else 1 + countdown(n - 1)


def test_interpreted_twins():
    def helper(x):
        return x + 1

    plus = compiled(helper)

    @compiled
    def outer(x):
        return plus(x) * 10

    assert interpreted(countdown)(5) == countdown(5) == 5
    assert interpreted(outer)(1) == outer(1) == 20  # a closure
    assert interpreted(countdown, countdown=lambda n: 7)(5) == 7  # a planted bug


LIBRARY = """
from headrace.stage.memory.records import compiled
@compiled
def answer(x):
    return x + 1
"""


def printed(program, folder):
    """What a program prints that finds its modules in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(Path(modes.__file__).parents[3])}
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_compiled_functions_are_cached_across_processes(tmp_path):
    (tmp_path / "library.py").write_text(LIBRARY)
    program = (
        "import library; library.answer(1); print(sum(library.answer.stats.cache_hits.values()))"
    )
    assert [printed(program, tmp_path) for _ in range(2)] == ["0", "1"]


SHARED = """
from headrace.stage.memory.records import compiled
@compiled
def shared(x):
    return x * 3
@compiled
def seldom(x):
    return shared(x) + 1
@compiled
def often(x):
    return shared(x) + 2
@compiled
def whole(x):
    y = often(x)
    if float(x) == 0.5:  # never, if x is an integer, as LLVM finds out
        y = seldom(x)
    return y
"""


def test_a_part_is_there_though_one_of_two_callers_is_not(tmp_path):
    """In a process of its own: code that is missing ends it."""
    (tmp_path / "library.py").write_text(SHARED)
    assert printed("import library; print(library.whole(5))", tmp_path) == "17"
