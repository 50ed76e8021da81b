"""Processes that are killed at a call, and machines that crash: what is left, and going on."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
LAYER = Path(__file__).parent / "disk"
LONGEST = 900.0  # seconds that a run may take on a machine with much else to do


@dataclass
class Machine:
    """Runs a job, a module of the tests, on a disk of its own."""

    job: str
    folder: Path
    arguments: tuple[str, ...] = ()
    crashes: bool = False  # is the disk one that forgets?
    slow: float = 0.0  # seconds that each rename and sync takes longer
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root, self.kept = self.folder / "disk", self.folder / "kept"
        self.mark, self.trace = self.folder / "mark", self.folder / "trace"
        self.root.mkdir(exist_ok=True)
        if self.crashes:
            self.kept.mkdir(exist_ok=True)

    def start(self, aim=None, trace=False) -> subprocess.Popen:
        self.mark.unlink(missing_ok=True)
        given = {"root": str(self.root), "mark": str(self.mark), "aim": aim}
        given["slow"] = self.slow
        given |= {"kept": str(self.kept)} if self.crashes else {}
        given |= {"trace": str(self.trace)} if trace else {}
        known = os.environ.get("PYTHONPATH", "")
        path = os.pathsep.join(filter(None, [str(LAYER), str(ROOT), known]))
        return subprocess.Popen(
            [sys.executable, "-m", self.job, str(self.folder), *self.arguments],
            cwd=ROOT,
            env={
                **os.environ,
                **self.environment,
                "PYTHONPATH": path,
                "HEADRACE_DISK": json.dumps(given),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, **options) -> str:
        """To the end; gives what it said last."""
        process = self.start(**options)
        said = process.communicate(timeout=LONGEST)[0].decode()
        return said.strip().splitlines()[-1] if process.returncode == 0 else said

    def points(self) -> list[list[str]]:
        """All calls at which it can be stopped, after a run that was traced."""
        lines = set(self.trace.read_text().splitlines())
        return [json.loads(line) for line in sorted(lines)]

    def kill_at(self, aim) -> bool:
        """Kill it, and all below it, when it stands at a call; False if it never came there."""
        process = self.start(aim=aim)
        deadline = time.monotonic() + LONGEST
        while process.poll() is None and not self.mark.exists():
            assert time.monotonic() < deadline, f"neither ends nor comes to {aim}"
            time.sleep(0.01)
        if process.poll() is not None:
            said = process.stdout.read().decode()
            process.stdout.close()
            assert process.returncode == 0, said[-3000:]
            return False
        kill_tree(process)
        return True

    def kill_after(self, seconds: float) -> bool:
        """Kill it, and all below it, at any moment; False if it ended before."""
        process = self.start()
        try:
            process.communicate(timeout=seconds)
            return False
        except subprocess.TimeoutExpired:
            kill_tree(process)
            return True

    def crash(self, chance: random.Random | None = None) -> None:
        """Lose what was not synced; with `chance`, some of it is there all the same."""
        made = self.folder / "rebuilt"
        self._rebuild(self.root, self.root.stat().st_ino, made, chance)
        shutil.rmtree(self.root)
        made.rename(self.root)
        shutil.rmtree(self.kept)
        self.kept.mkdir()
        for path in [self.root, *self.root.rglob("*")]:  # what is there now is on the disk
            self._keep(path)

    def _keep(self, path: Path) -> None:
        number = path.stat().st_ino
        if path.is_dir():
            entries = {p.name: [p.stat().st_ino, p.is_dir()] for p in path.iterdir()}
            (self.kept / f"{number}.folder").write_text(json.dumps(entries))
        else:
            shutil.copyfile(path, self.kept / f"{number}.file")

    def _rebuild(self, live: Path | None, number: int, made: Path, chance) -> None:
        made.mkdir()
        known = self.kept / f"{number}.folder"
        entries = json.loads(known.read_text()) if known.exists() else {}
        there = {}
        if live is not None and live.is_dir():
            there = {p.name: [p.stat().st_ino, p.is_dir()] for p in live.iterdir()}
        if chance is not None:  # a change of a name may be on the disk before it is synced
            for name in set(entries) | set(there):
                if entries.get(name) != there.get(name) and chance.random() < 0.5:
                    entries.pop(name, None)
                    entries |= {name: there[name]} if name in there else {}
        for name, (inside, is_folder) in entries.items():
            same = there.get(name) == [inside, is_folder]
            if is_folder:
                self._rebuild(live / name if same else None, inside, made / name, chance)
                continue
            safe, pin = self.kept / f"{inside}.file", self.kept / f"{inside}.pin"
            content = safe.read_bytes() if safe.exists() else b""  # a name, and nothing behind it
            if chance is not None and chance.random() < 0.5:
                if same:
                    content = (live / name).read_bytes()
                elif pin.exists():
                    content = pin.read_bytes()
            (made / name).write_bytes(content)


def kill_tree(process: subprocess.Popen) -> None:
    below = psutil.Process(process.pid).children(recursive=True)
    for pid in [process.pid, *(each.pid for each in below)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.stdout.close()
    process.wait()
    psutil.wait_procs(below, 30)
