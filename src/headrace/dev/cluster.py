"""A real Spark cluster on the loopback address: a standalone master and workers, from pip's Spark.

Each is a process of its own, with its log and its files in one folder. A worker starts executors
as children; what is left of them is ended with it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.spark.cluster_secret import SETTINGS, VARIABLE, forget_secret, make_secret
from headrace.spark.files import make_folder
from headrace.spark.java import NoJava, find_java, use_java

from . import places
from .errors import DevError, Unavailable
from .processes import HOST, death_follows, free_port, in_use, is_alive, last_line, until

PORT = 7077
START_SECONDS = 90.0
STOP_SECONDS = 15.0
DAEMON_MEMORY = "384m"
# Who comes must know the secret; nothing is taken, or ended, by a page in a browser.
CLOSED = {**SETTINGS, "spark.master.rest.enabled": "false", "spark.ui.killEnabled": "false"}
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


def folder() -> Path:
    """The folder of the cluster that the command line manages."""
    return places.folder() / "cluster"


@dataclass(frozen=True)
class Status:
    """What the master says of the cluster."""

    workers: int  # that are alive
    cores: int
    cores_used: int
    applications: tuple[str, ...]


class Cluster:
    """A master and workers whose state lies in one folder.

    With `dies_with_us` they are killed when the thread that starts them ends, in whatever way; so
    start them in the main thread.
    """

    def __init__(
        self, folder: Path, *, port: int | None = None, dies_with_us: bool = False
    ) -> None:
        self.folder = folder
        self._wanted = port
        self._dies_with_us = dies_with_us
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """What `hr.run` takes as `master`."""
        return f"spark://{HOST}:{self._state().get('port', self._wanted or PORT)}"

    @property
    def pids(self) -> dict[str, int]:
        """The processes that run, by name: master, worker 1, ..."""
        for child in self._children:
            child.poll()  # one that ended does not stay a zombie
        known = self._state().get("pids", {})
        return {name: pid for name, pid in known.items() if self._is_ours(pid)}

    def start(
        self, workers: int = 2, cores: int = 1, memory: str = "1g", timeout: float = START_SECONDS
    ) -> None:
        """Start it and wait until all workers are there; what does not come up is stopped."""
        make_folder(self.folder, lasting=False)
        with places.alone(self.folder / "lock"):
            if self.pids:
                raise DevError(f"a cluster runs at {self.url} already: headrace cluster down")
            port = self._wanted or PORT
            reason = in_use(port)
            if reason is not None:
                raise DevError(f"port {port} cannot be used ({reason}); choose another with --port")
            self._write({"port": port, "page": free_port(), "workers": workers, "pids": {}})
            program, environment = _spark_class(), self._environment()
            try:
                listening = ["--host", HOST, "--port", str(port)]
                page = ["--webui-port", str(self._state()["page"])]
                self._launch("master", [program, MASTER, *listening, *page], environment)
                self._wait(lambda: self.status() is not None, timeout, "the master")
                for number in range(1, workers + 1):
                    name = f"worker {number}"
                    given = ["--cores", str(cores), "--memory", memory, "--webui-port", "0"]
                    given += ["--work-dir", str(self.folder / name.replace(" ", "-"))]
                    command = [program, WORKER, "--host", HOST, *given, self.url]
                    self._launch(name, command, environment)
                self._wait(lambda: self._workers_up() == workers, timeout, "the workers")
            except BaseException:
                self.stop()
                raise

    def stop(self) -> bool:
        """Stop everything, by force where it does not end by itself; did anything run?"""
        pids = self.pids
        forget_secret(self.url)
        names = sorted(pids, reverse=True)  # workers before the master they would look for
        # Executors, and their Python workers: they end with their worker, unless they hang.
        children = [child for name in names for child in _descendants(pids[name])]
        for name in names:
            _signal(pids[name], signal.SIGTERM)
        if not until(lambda: not self.pids, STOP_SECONDS):
            for pid in self.pids.values():
                _signal(pid, signal.SIGKILL)
        if not until(lambda: not _alive(children), STOP_SECONDS):
            for child in _alive(children):
                child.kill()
        if not until(lambda: not self.pids, STOP_SECONDS):
            raise DevError(f"these processes do not end: {self.pids}")
        return bool(pids)

    def remove(self) -> bool:
        """Stop it and remove its folder; did anything run?"""
        ran = self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        return ran

    def status(self) -> Status | None:
        """What the master says; None if it does not answer."""
        page = self._state().get("page")
        if page is None:
            return None
        try:
            with urllib.request.urlopen(f"http://{HOST}:{page}/json/", timeout=5) as answer:
                said = json.load(answer)
        except (OSError, ValueError):
            return None
        applications = tuple(each["name"] for each in said["activeapps"])
        return Status(said["aliveworkers"], said["cores"], said["coresused"], applications)

    # ---- inside ------------------------------------------------------------------------------

    @property
    def wanted_workers(self) -> int:
        """How many workers it was started with."""
        return int(self._state().get("workers", 0))

    def _workers_up(self) -> int:
        found = self.status()
        return found.workers if found else 0

    def _state(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.folder / "cluster.json").read_text()))
        except (OSError, ValueError):
            return {}

    def _write(self, state: dict[str, Any]) -> None:
        waiting = self.folder / "cluster.part"
        waiting.write_text(json.dumps(state))
        os.replace(waiting, self.folder / "cluster.json")

    def _is_ours(self, pid: int) -> bool:
        """Is the process one of ours? Ids are used again, so its working folder is looked at."""
        try:
            return os.readlink(f"/proc/{pid}/cwd") == str(self.folder.resolve())
        except OSError:
            return False

    def _environment(self) -> dict[str, str]:
        try:
            use_java(find_java())
        except NoJava as error:
            raise Unavailable(f"Spark: {error}") from None
        ours = {"SPARK_DAEMON_MEMORY": DAEMON_MEMORY, "SPARK_LOCAL_IP": HOST}
        ours["SPARK_DAEMON_JAVA_OPTS"] = " ".join(f"-D{k}={v}" for k, v in CLOSED.items())
        ours[VARIABLE] = make_secret(self.url)
        return {**os.environ, **ours, "SPARK_LOCAL_DIRS": str(self.folder / "local")}

    def _launch(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        with open(self._log(name), "wb") as log:
            child = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is not meant for it
                preexec_fn=death_follows(os.getpid()) if self._dies_with_us else None,
            )
        self._children.append(child)
        state = self._state()
        state["pids"][name] = child.pid
        self._write(state)

    def _log(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '-')}.log"

    def _wait(self, holds: Any, timeout: float, what: str) -> None:
        """Wait until something holds; a process that ended, or the time, is a DevError."""
        dead: list[str] = []

        def over() -> bool:
            dead.extend(set(self._state()["pids"]) - set(self.pids))
            return bool(dead) or holds()

        came = until(over, timeout)
        if came and not dead:
            return
        names = dead[:1] or list(self._state()["pids"])[-1:]
        log = self._log(names[0])
        why = f"the {names[0]} ended" if dead else f"{what} did not answer within {timeout:g} s"
        raise DevError(f"{why}; its log, {log}, ends with: {_tail(log)}")


def _tail(log: Path) -> str:
    try:
        return last_line(log.read_text(errors="replace"))
    except OSError:
        return "(no log)"


def _spark_class() -> str:
    """The script of pip's Spark that starts its programs."""
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(place) / "bin" / "spark-class"
        if path.exists():
            return str(path)
    raise Unavailable("the cluster is that of PySpark, which is not installed: pip install pyspark")


def _descendants(pid: int) -> list[Any]:
    import psutil

    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.Error:
        return []


def _alive(processes: list[Any]) -> list[Any]:
    return [process for process in processes if is_alive(process)]


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):  # it has just ended
        os.kill(pid, number)
