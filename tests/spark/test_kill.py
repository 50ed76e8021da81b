"""kill -9 of the driver and everything below it, at random moments: nothing lost or twice."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.naive import rows_of
from tests.running import assert_same
from tests.spark import killed_job, pipelines

import headrace as hr

ROWS, BATCH_ROWS = 40_000, 4_000
KILLS = 2


def committed(folder: Path) -> int:
    return sum(path.name.isdigit() for path in (folder / "checkpoint/spark/commits").glob("*"))


def start(folder: Path) -> subprocess.Popen:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.spark.killed_job", str(folder), str(BATCH_ROWS)]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def kill_tree(process: subprocess.Popen) -> None:
    tree = [process.pid, *(p.pid for p in psutil.Process(process.pid).children(recursive=True))]
    for pid in tree:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


@pytest.mark.compiled
@pytest.mark.timeout(600)
def test_kill(tmp_path):
    (tmp_path / "in").mkdir()
    for number, table in enumerate(pipelines.tables(ROWS // 2, 2, disorder=20)):
        times = [at + number * pipelines.SPAN for at in table["at"].to_pylist()]
        moved = table.set_column(1, "at", pa.array(times))
        pq.write_table(moved, tmp_path / "in" / f"{number}.parquet", row_group_size=5000)
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(KILLS):
        process, before = start(tmp_path), committed(tmp_path)
        while process.poll() is None and committed(tmp_path) <= before:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 2.5))
        assert process.poll() is None, process.stdout.read().decode()[-2000:]
        kill_tree(process)
    said = start(tmp_path).communicate()[0].decode()
    assert said.startswith("finished"), said[-2000:]
    assert int(said.split()[1]) > 0
    check(tmp_path)
    once_more = start(tmp_path).communicate()[0].decode()  # after the end: nothing to do
    assert once_more.split() == ["finished", "0", "0"], once_more[-2000:]
    check(tmp_path)


def check(folder: Path) -> None:
    """Exactly the rows of a run on the thread."""
    source = hr.read.parquet(folder / "in")
    for output in killed_job.outputs(str(folder)):
        name = Path(str(output.connector).split()[-1]).name
        expected = getattr(pipelines, name)(source).write.collect()
        hr.run(expected)
        published = (folder / name).glob("part-*.parquet")
        found = pa.concat_tables([pq.read_table(path) for path in published])
        assert_same(rows_of(found), rows_of(expected.result()), ordered=False)
