"""Killed at every rename, sync and commit, and machines that crash: exact, or a clear error."""

import random
import shutil
import time

import pytest
from tests.counts import count
from tests.spark.crashes import Machine, kill_tree
from tests.spark.test_kill import Size, check, committed, write_input

SMALL = Size(800, 100, 0)
LARGE = Size(32_000, 4_000, 0)


def small(folder, crashes=False) -> Machine:
    """A job on the small Spark."""
    write_input(folder / "in", SMALL)
    return Machine("tests.spark.small_job", folder, (str(SMALL.batch_rows),), crashes)


def large(folder, crashes=False) -> Machine:
    """A job on Spark itself, in many processes."""
    write_input(folder / "in", LARGE)
    arguments = (str(LARGE.batch_rows), "disk")
    return Machine("tests.spark.killed_job", folder, arguments, crashes)


def finish(machine, folder, compiled=False) -> None:
    """To the end; all rows are there, once."""
    said = machine.run()
    assert said.startswith("finished"), said[-3000:]
    check(folder, "disk", compiled)


def traced(make, folder, crashes=False) -> tuple[Machine, list]:
    """A machine, and every call of a whole run at which it can be stopped, in random order."""
    for name in ("job", "traced"):
        (folder / name).mkdir()
    machine, other = make(folder / "job", crashes), make(folder / "traced", crashes)
    said = other.run(trace=True)
    assert said.startswith("finished"), said[-3000:]
    points = other.points()
    random.shuffle(points)
    return machine, points


def kill_at_points(machine, points, kills, *, crash=False, compiled=False) -> None:
    """One kill after another, each at the next point; what a job did not reach it has finished."""
    folder = machine.folder
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    done = 0
    for number in range(10 * kills):
        if done == kills:
            break
        point = points[number % len(points)]
        if machine.kill_at([*point, chance.randrange(3)]):
            done += 1
            print(f"{done} of {kills}: {point}", flush=True)
            count(f"kill -9 at a call, {machine.job.rpartition('.')[2]}")
            if crash:
                machine.crash(chance if done % 2 else None)
                count(f"machine crash, {machine.job.rpartition('.')[2]}")
        else:  # it was over, or never came there: all is there, and the next one begins anew
            check(folder, "disk", compiled)
            anew(machine, folder)
    finish(machine, folder, compiled)
    assert machine.run().split()[:2] == ["finished", "0"]
    check(folder, "disk", compiled)


def anew(machine, folder) -> None:
    """An empty disk, and no results."""
    for path in (machine.root, machine.kept, folder / "out.db", folder / "out.db-staging"):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    machine.__post_init__()


# ---- the small Spark ---------------------------------------------------------------------------


@pytest.mark.timeout(900)
def test_killed_at_calls(tmp_path):
    machine, points = traced(small, tmp_path)
    assert len(points) > 40
    kill_at_points(machine, points, 6)


@pytest.mark.timeout(900)
def test_machines_that_crash(tmp_path):
    machine, points = traced(small, tmp_path, crashes=True)
    kill_at_points(machine, points, 2, crash=True)


def test_a_slow_disk(tmp_path):
    """Nothing is given up because a rename or a sync takes its time."""
    machine = small(tmp_path)
    machine.slow = 0.01
    finish(machine, tmp_path)


def test_a_disk_that_forgets(tmp_path):
    """The simulation itself: only what was synced, file and folder, is there after a crash."""
    machine = Machine("tests.spark.forgetful_job", tmp_path, crashes=True)
    process = machine.start()
    assert process.stdout.readline() == b"written\n"
    kill_tree(process)
    machine.crash()
    found = {
        str(path.relative_to(machine.root)): path.read_bytes()
        for path in machine.root.rglob("*")
        if path.is_file()
    }
    assert found == {"folder/safe": b"safe", "folder/renamed": b"whole", "folder/torn": b""}


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_killed_at_every_call(tmp_path):
    """Before and after each rename, sync and commit, at least once each."""
    machine, points = traced(small, tmp_path)
    kill_at_points(machine, points, len(points))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_machines_that_crash_often(tmp_path):
    machine, points = traced(small, tmp_path, crashes=True)
    kill_at_points(machine, points, len(points), crash=True)


# ---- Spark itself ------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.compiled
@pytest.mark.timeout(3600)
def test_spark_killed_at_calls(tmp_path):
    """In drivers, planners and workers."""
    machine, points = traced(large, tmp_path)
    assert {point[0] for point in points} >= {"driver", "worker"}
    kill_at_points(machine, points, 30, compiled=True)


@pytest.mark.soak
@pytest.mark.compiled
@pytest.mark.timeout(3600)
def test_spark_killed_when_it_writes(tmp_path):
    """When Spark's own files of offsets and commits appear: Java cannot be stopped at a call."""
    machine = large(tmp_path)
    kills = 0
    while kills < 8:
        log = ("offsets", "commits")[kills % 2]
        before = committed(tmp_path / "disk")
        process = machine.start()
        path = machine.root / "checkpoint" / "spark" / log / str(before + 2)
        while process.poll() is None and not path.exists():
            time.sleep(0.001)
        if process.poll() is None:
            kill_tree(process)
            count("kill -9 when Spark writes")
            kills += 1
            continue
        said = process.communicate()[0]  # it was over: all is there, and the next one begins anew
        assert process.returncode == 0, said[-3000:]
        check(tmp_path, "disk", compiled=True)
        anew(machine, tmp_path)
    finish(machine, tmp_path, compiled=True)


@pytest.mark.soak
@pytest.mark.compiled
@pytest.mark.timeout(3600)
def test_spark_on_machines_that_crash(tmp_path):
    machine, points = traced(large, tmp_path, crashes=True)
    kill_at_points(machine, points, 4, crash=True, compiled=True)
