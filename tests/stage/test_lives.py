"""Compiled functions and their interpreted twins."""

import os
import subprocess
import sys
from pathlib import Path

from headrace.stage.memory import lives
from headrace.stage.memory.lives import compiled, interpreted


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


def test_compiled_functions_are_cached_across_processes(tmp_path):
    (tmp_path / "library.py").write_text(LIBRARY)
    program = (
        "import library; library.answer(1); print(sum(library.answer.stats.cache_hits.values()))"
    )
    source = str(Path(lives.__file__).parents[2])

    def hits():
        command = [sys.executable, "-c", program]
        environment = {**os.environ, "PYTHONPATH": source}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    assert [hits(), hits()] == [0, 1]
