"""Every program of the documentation runs, and prints what its page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*(ROOT / "docs").rglob("*.md")])
PROGRAM = re.compile(r"```python\n(.*?)```(?:\n\n?```\n(.*?)```)?", re.S)

# Runs the programs of a page one after the other, each in a module and a file of its own.
RUNNER = """
import pathlib, runpy, sys
for file in sys.argv[1:]:
    print(f"=== {file}", flush=True)
    runpy.run_path(file, run_name="__main__")
"""


def programs(page):
    return PROGRAM.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "page", [p for p in PAGES if programs(p)], ids=lambda p: p.relative_to(ROOT).as_posix()
)
def test_programs_print_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_ENGINE", "thread")
    files = []
    for number, (program, _) in enumerate(programs(page)):
        files.append(tmp_path / f"program_{number}.py")
        files[-1].write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUNNER, *map(str, files)],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    printed = re.split(r"^=== .*\n", done.stdout, flags=re.M)[1:]
    for (_, shown), found in zip(programs(page), printed, strict=True):
        if shown:
            assert _lines(found) == _lines(shown)


def _lines(text):
    return [line.rstrip() for line in text.strip().splitlines()]


def test_blocks_that_look_like_python_are_programs():
    for page in PAGES:
        blocks = re.findall(r"^```py\w*$", page.read_text(encoding="utf-8"), re.M)
        assert set(blocks) <= {"```python"}, page


def test_every_page_is_in_the_site():
    named = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES:
        assert page.relative_to(ROOT / "docs").as_posix() in named, page


def test_the_page_of_connectors_names_every_source_and_sink():
    from headrace import read, write

    page = (ROOT / "docs" / "guide" / "connectors.md").read_text(encoding="utf-8")
    sources = [n for n, made in vars(read).items() if callable(made) and n.islower()]
    sources = [n for n in sources if not n.startswith("_") and made_here(read, n)]
    sinks = [n for n in vars(write.Writer) if not n.startswith("_")]
    for name in {*sources, *sinks} - {"source", "to"}:
        assert f"`{name}`" in page, name


def made_here(module, name):
    return getattr(getattr(module, name), "__module__", "") == module.__name__


def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("mkdocstrings")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "reference.html").read_text(encoding="utf-8")
    for name in ("read.csv", "Writer.postgres", "Stream.map_async"):
        assert name in page
    start = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="https?://(?!github|squidfunk)', start)  # works offline
