"""kill -9 of the driver and everything below it, at random moments: nothing lost or twice."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.counts import count
from tests.naive import rows_of
from tests.running import assert_same
from tests.spark import killed_job, pipelines

import headrace as hr


@dataclass(frozen=True)
class Size:
    """How many rows, in how large batches, and how often it is killed."""

    rows: int
    batch_rows: int
    kills: int


IN_CI = Size(16_000, 4_000, 1)
IN_SOAK = Size(400_000, 4_000, 20)


def committed(folder: Path) -> int:
    numbers = (folder / "checkpoint/spark/commits").glob("*")
    return max((int(path.name) for path in numbers if path.name.isdigit()), default=-1)


def without(*names: str, folder: Path) -> dict[str, str]:
    """Our environment, for a job that finds none of these packages, nor do its workers."""
    for name in names:
        package = folder / name
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text(f"raise ImportError('{name} is not for this job')\n")
    given = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [given])])}


def start(folder: Path, size: Size) -> subprocess.Popen:
    """Start the job, with no more packages than headrace requires."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.spark.killed_job", str(folder), str(size.batch_rows)]
    environment = without("pandas", "google", folder=folder / "absent")  # google.protobuf, that is
    return subprocess.Popen(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def kill_tree(process: subprocess.Popen) -> None:
    tree = [process.pid, *(p.pid for p in psutil.Process(process.pid).children(recursive=True))]
    for pid in tree:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


@pytest.fixture
def postgres(monkeypatch):
    """A server that the job writes to as well, where there is one for this machine."""
    try:
        import pgserver
    except ImportError:
        yield ""
        return
    folder = tempfile.mkdtemp(prefix="postgres")
    os.chmod(folder, 0o755)  # where we are root, the server is somebody else
    server = pgserver.get_server(folder, cleanup_mode="delete")
    monkeypatch.setenv(killed_job.POSTGRES, server.get_uri())
    yield server.get_uri()
    server.cleanup()


@pytest.mark.compiled
@pytest.mark.timeout(600)
def test_kill(tmp_path):
    check_kills(tmp_path, IN_CI)


@pytest.mark.soak
@pytest.mark.compiled
@pytest.mark.timeout(1800)
def test_kill_with_postgres(tmp_path, postgres):
    check_kills(tmp_path, IN_CI, postgres)


@pytest.mark.soak
@pytest.mark.compiled
@pytest.mark.timeout(3600)
def test_kill_often(tmp_path):
    check_kills(tmp_path, IN_SOAK)


def check_kills(folder: Path, size: Size, postgres: str = "") -> None:
    write_input(folder / "in", size)
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(size.kills):
        process, before = start(folder, size), committed(folder)
        while process.poll() is None and committed(folder) <= before:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 1.5))
        assert process.poll() is None, process.stdout.read().decode()[-2000:]
        kill_tree(process)
        count("kill -9 of a driver and all below it")
    said = start(folder, size).communicate()[0].decode()
    assert said.startswith("finished"), said[-2000:]
    assert int(said.split()[1]) > 0
    check(folder, postgres=postgres)
    once_more = start(folder, size).communicate()[0].decode()  # after the end: nothing to do
    assert once_more.split() == ["finished", "0", "0"], once_more[-2000:]
    check(folder, postgres=postgres)


def write_input(folder: Path, size: Size) -> None:
    folder.mkdir()
    for number, table in enumerate(pipelines.tables(size.rows // 2, 2, disorder=20)):
        times = [at + number * pipelines.SPAN for at in table["at"].to_pylist()]
        moved = table.set_column(1, "at", pa.array(times))
        pq.write_table(moved, folder / f"{number}.parquet", row_group_size=5000)


def check(folder: Path, inside: str = ".", compiled: bool = True, postgres: str = "") -> None:
    """Exactly the rows of a run on the thread, in files (below `inside`) and in tables."""
    source = hr.read.parquet(folder / "in")
    expected = [getattr(pipelines, kind)(source).write.collect() for kind in killed_job.KINDS]
    hr.run(*expected, engine="thread", compiled=compiled)
    for kind, output in zip(killed_job.KINDS, expected, strict=True):
        rows = rows_of(output.result())
        published = (folder / inside / kind).glob("part-*.parquet")
        found = pa.concat_tables([pq.read_table(path) for path in published])
        assert_same(rows_of(found), rows, ordered=False)
        assert not list((folder / inside / kind).glob("_staging/*"))
        with closing(sqlite3.connect(folder / "out.db")) as database:
            database.row_factory = sqlite3.Row
            inserted = [dict(row) for row in database.execute(f"SELECT * FROM {kind}")]
        assert_same(inserted, rows, ordered=False)
        if postgres:
            assert_same(in_postgres(postgres, kind, list(rows[0])), rows, ordered=False)


def in_postgres(url: str, table: str, names: list[str]) -> list[dict]:
    import adbc_driver_postgresql.dbapi as driver

    with driver.connect(url) as connection, connection.cursor() as cursor:
        columns = ", ".join(f'"{name}"' for name in names)
        cursor.execute(f"SELECT {columns} FROM {table}")
        return [dict(zip(names, values)) for values in cursor.fetchall()]
