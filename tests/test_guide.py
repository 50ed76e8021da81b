"""Every program of the documentation runs, and prints what its page says."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headrace as hr
from headrace import time
from headrace.expr import Lists, Strings, Structs, Times, aggregates
from headrace.windowed import WindowedStream
from headrace.write import Writer

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


def test_the_page_of_windows_names_every_kind_and_aggregate():
    page = (ROOT / "docs" / "guide" / "windows.md").read_text(encoding="utf-8")
    for name in hr.__all__:
        made = getattr(hr, name)
        if callable(made) and made_here(time, name) and name != "duration":
            assert f"`hr.{name}(" in page, name
        if getattr(made, "__module__", "") == aggregates.__name__:
            assert re.search(rf"`(hr\.)?{name}\b", page), name


STREAMS = hr.Stream, WindowedStream, Writer
EXPRESSIONS = hr.Expr, Strings, Times, Structs, Lists
DOCUMENTED = (*STREAMS, *EXPRESSIONS, hr.Job, hr.Engine, hr.Gate)
FOR_OUR_MODULES = ("node", "of", "run", "start")


def public_names():
    """(name, what it is, whose method it is or None) of all that users are told of."""
    for name in hr.__all__:
        yield name, getattr(hr, name), None
    for name, made in vars(hr.read).items():
        if name.islower() and not name.startswith("_") and callable(made):
            if made_here(hr.read, name):
                yield f"read.{name}", made, None
    for of in DOCUMENTED:
        for name in dir(of):
            if not name.startswith("_") and name not in FOR_OUR_MODULES:
                yield f"{of.__name__}.{name}", inspect.getattr_static(of, name), of


def test_every_public_name_has_an_example():
    """In its docstring, or in that of its class."""
    bare = []
    for name, made, of in public_names():
        said = inspect.getdoc(made) or ""
        examples = re.findall(r"(?:>>>|\.\.\.) .*", inspect.getdoc(of) or "") if of else []
        used = re.compile(rf"\.{name.rpartition('.')[2]}\b")
        if ">>>" not in said and not any(map(used.search, examples)):
            bare.append(name)
    assert not bare


def test_every_public_name_has_a_page():
    """Of the package itself; methods come with their classes."""
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^::: headrace(?:\.\w+)*\.|`hr\.)(\w+)", page, re.M))
    assert {*hr.__all__, *(of.__name__ for of in DOCUMENTED)} <= named


def made_here(module, name):
    return getattr(getattr(module, name, None), "__module__", "") == module.__name__


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
    for name in ("read.csv", "Writer.postgres", "Stream.map_async", "Stream.asof_join"):
        assert f"headrace.{name.replace('Writer', 'write.Writer')}" in page
    assert "&gt;&gt;&gt;" in page and "<blockquote>" not in page  # examples are shown as code
    start = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="https?://(?!github|squidfunk)', start)  # works offline
