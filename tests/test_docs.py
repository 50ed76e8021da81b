"""The programs of docs/expressions.md print what the page says; it names every function."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.expr import Strings, Times

PAGE = (Path(__file__).parent.parent / "docs" / "expressions.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n?```\n(.*?)```", PAGE, re.S)


def test_there_are_programs():
    assert len(PROGRAMS) == PAGE.count("```python") == 2


@pytest.mark.parametrize(("program", "shown"), PROGRAMS, ids=["expressions", "functions"])
def test_programs_print_what_the_page_says(tmp_path, program, shown):
    file = tmp_path / "program.py"
    file.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout.strip() == shown.strip()


@pytest.mark.parametrize("of", [Strings, Times])
def test_the_page_names_every_function(of):
    for name in vars(of):
        if not name.startswith("_") and name != "of" and not name.startswith("total_"):
            assert f"`{name}`" in PAGE, name
