"""Files by URLs: read as local ones are, in every format; sinks and watches say why not."""

import sys
import uuid

import fsspec
import pyarrow as pa
import pytest
from tests.connect.data import read_all
from tests.connect.file_formats import KINDS

import headrace as hr
from headrace import col
from headrace.connect.paths import find_files
from headrace.plan.errors import DataError

FILES = ["a.csv", "b.csv", "deep/c.csv", "deep/er/d.csv", "_hidden/e.csv", ".f.csv", "g.txt"]


@pytest.fixture
def memory():
    """A folder of fsspec's memory, which is empty."""
    system, inside = fsspec.core.url_to_fs(f"memory://{uuid.uuid4().hex}")
    system.makedirs(inside, exist_ok=True)
    yield system, f"memory:/{inside}"
    system.rm(inside, recursive=True)


def copied(folder, memory):
    system, url = memory
    for path in folder.rglob("*"):
        if path.is_file():
            system.put_file(str(path), f"{url}/{path.relative_to(folder).as_posix()}")
    return url


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_files_elsewhere_are_read_as_those_here(tmp_path, memory, kind):
    here = kind.fill(tmp_path, [3, 1, 2], [5, 4])
    url = copied(tmp_path, memory)
    there = kind.source(url, schema=here.schema())
    rows, positions = read_all(here.open("files"), 2)
    assert read_all(there.open("files"), 2) == (rows, positions)
    assert there.latest() == here.latest()
    (middle, start), (_, stop) = positions[1], positions[-1]
    assert read_all(there.open("files", start, stop))[0] == rows[middle:]
    sizes = {name: size for name, (size, _) in there.files().items()}
    assert sizes == {name: size for name, (size, _) in here.files().items()}
    one = kind.source(f"{url}/{kind.file(1)}", schema=here.schema())
    assert [row["n"] for row in read_all(one.open("files"))[0]] == [5, 4]
    memory[0].rm(f"{url}/{kind.file(1)}")
    with pytest.raises(DataError, match=rf"{url}/part-1.* is gone"):
        there.open("files", start, stop)


def test_a_pipeline_over_a_url(tmp_path, memory):
    rows = pa.table({"n": range(100), "tags": [["x"]] * 100})
    hr.run(hr.read.memory(rows).write.parquet(f"file://{tmp_path}/a b"), engine="thread")
    assert any((tmp_path / "a b").glob("part-*.parquet"))
    url = copied(tmp_path / "a b", memory)
    for path in (url, f"{url}/*.parquet", f"file://{tmp_path}/a%20b"):
        stream = hr.read.parquet(path).filter(col("n") >= 98)
        assert stream.head(9)["n"].to_pylist() == [98, 99]
    assert str(hr.read.parquet(url).node.connector) == f"parquet {url}"


@pytest.mark.parametrize(
    "pattern", ["", "*.csv", "*/*.csv", "**/*.csv", "deep/**", "deep/*", "?.csv", "b.csv", "**/d.*"]
)
def test_globs_find_what_they_find_here(tmp_path, memory, pattern):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("n\n1\n")
    url = copied(tmp_path, memory)
    base, names = find_files(str(tmp_path / pattern), [".csv"])
    there, found = find_files(f"{url}/{pattern}".rstrip("/"), [".csv"])
    assert found == names and names
    assert str(there).removeprefix(url) == str(base).removeprefix(str(tmp_path))


def test_what_cannot_be_is_refused_with_the_reason(memory, monkeypatch):
    _, url = memory
    rows = hr.read.memory({"n": [1]})
    mistakes = {
        "an operator": (
            lambda: rows.write.parquet(f"{url}/out"),
            "rename, which object stores lack",
        ),
        "a watch": (lambda: hr.read.json(url, schema={"n": int}, watch=True), "without watch=True"),
        "a password": (lambda: hr.read.csv("s3://me:pw@bucket/x"), "s3://bucket/x: a URL with a"),
        "a scheme": (
            lambda: hr.read.parquet("nosuch://x"),
            "nosuch://x cannot be read: .*not known",
        ),
        "nothing": (lambda: hr.read.parquet("memory://nowhere/x"), "no file or folder memory://no"),
        "no files": (lambda: hr.read.parquet(url), f"no parquet files in {url}; give schema="),
        "a database": (
            lambda: rows.write.sqlite(f"{url}/x.db", "t"),
            "only local paths can be used\n",
        ),
    }
    for make, what in mistakes.values():
        with pytest.raises(hr.PipelineError, match=what) as caught:
            make()
        assert "pw" not in str(caught.value).splitlines()[0] and "test_remote.py" in str(
            caught.value
        )
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(hr.PipelineError, match=r"pip install 'headrace\[remote\]'"):
        hr.read.csv("memory://other/x.csv")
