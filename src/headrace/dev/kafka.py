"""A real Kafka broker (KRaft: no ZooKeeper) on the loopback address, for tests and first steps."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import uuid
from pathlib import Path
from typing import Any

from . import places
from .errors import DevError
from .jars import KAFKA, fetch
from .java import java
from .processes import HOST, death_follows, free_port, in_use, last_line, until

PORT = 9092
START_SECONDS = 60.0
STOP_SECONDS = 15.0
OPTIONS = ("-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")

# The session is short, since a broker that was killed comes back only after its session has ended.
# Nothing is removed by its age: messages may carry the times of events long past.
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.hours=-1
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
"""


def folder() -> Path:
    """The folder of the broker that the command line manages."""
    return places.folder() / "kafka"


class Broker:
    """A broker whose data, log and process id lie in one folder.

    start() and stop() keep the data; remove() leaves nothing behind. With `dies_with_us` the broker
    is killed when the thread that starts it ends, in whatever way; so start it in the main thread.
    """

    def __init__(
        self, folder: Path, *, port: int | None = None, dies_with_us: bool = False
    ) -> None:
        self.folder = folder
        self._wanted = port
        self._dies_with_us = dies_with_us
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """Where it listens: as it did before, as asked for, or at 9092."""
        return int(self._state().get("port", self._wanted or PORT))

    @property
    def servers(self) -> str:
        """What clients call `bootstrap.servers`."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id, if it runs."""
        if self._child is not None:
            self._child.poll()  # one that ended does not stay a zombie
        pid = self._state().get("pid")
        return pid if pid is not None and self._is_ours(pid) else None

    def answers(self) -> bool:
        """Does something at the port speak Kafka's protocol?"""
        return _answers(HOST, self.port)

    def start(self, timeout: float = START_SECONDS) -> None:
        """Start it and wait until it answers; nothing if it runs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with places.alone(self.folder / "lock"):
            running = self.pid
            if running is not None:
                if self._wanted not in (None, self.port):
                    raise DevError(f"a broker runs at {self.servers} (pid {running}) already")
                return
            port = self._wanted or self.port
            reason = in_use(port)
            if reason is not None:
                raise DevError(f"port {port} cannot be used ({reason}); choose another with --port")
            jars = fetch(KAFKA)
            program = [java(KAFKA.java, str(KAFKA)), *OPTIONS, "-cp", f"{jars}/*"]
            self._format(program, port)
            self._launch(program, port)
            self._wait(timeout)

    def stop(self) -> bool:
        """Stop it, by force where it does not end by itself; was it running?"""
        pid = self.pid
        if pid is None:
            return False
        os.kill(pid, signal.SIGTERM)
        if not self._ends():
            self.kill()
        return True

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        pid = self.pid
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            if not self._ends():
                raise DevError(f"the broker (pid {pid}) does not end")

    def remove(self) -> bool:
        """Stop it and remove its folder with all data; was it running?"""
        ran = self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        return ran

    # ---- inside ------------------------------------------------------------------------------

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _log(self) -> Path:
        return self.folder / "broker.log"

    def _state(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.folder / "broker.pid").read_text()))
        except (OSError, ValueError):
            return {}

    def _is_ours(self, pid: int) -> bool:
        """Is the process our broker? Ids are used again, so its command line is looked at."""
        try:
            return os.fsencode(self._properties) in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    def _ends(self) -> bool:
        """Wait until it is gone: the last of its threads gives the port back."""
        return until(lambda: self.pid is None and in_use(self.port) is None, STOP_SECONDS)

    def _format(self, program: list[str], port: int) -> None:
        """Write the settings, and prepare the data folder where there is none yet."""
        data = self.folder / "data"
        self._properties.write_text(
            _PROPERTIES.format(host=HOST, port=port, controller=free_port(), data=data)
        )
        if (data / "meta.properties").exists():
            return
        cluster = cluster_id(uuid.uuid4().bytes)
        tool = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties)]
        done = subprocess.run([*program, *tool], capture_output=True, text=True)
        if done.returncode:
            raise DevError(f"the broker's folder cannot be prepared: {last_line(done.stderr)}")

    def _launch(self, program: list[str], port: int) -> None:
        before = death_follows(os.getpid()) if self._dies_with_us else None
        with open(self._log, "wb") as log:
            self._child = subprocess.Popen(
                [*program, "kafka.Kafka", str(self._properties)],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is not meant for it
                preexec_fn=before,
            )
        state = {"pid": self._child.pid, "port": port}
        (self.folder / "broker.pid").write_text(json.dumps(state))

    def _wait(self, timeout: float) -> None:
        """Wait until it answers; what does not is stopped."""
        assert self._child is not None
        child = self._child
        if until(lambda: child.poll() is not None or self.answers(), timeout):
            if child.poll() is None:
                return
            what = f"the broker ended with exit code {child.returncode}"
        else:
            what = f"the broker did not answer within {timeout:g} s"
            self.kill()
        raise DevError(f"{what}; its log, {self._log}, ends with: {self._last_words()}")

    def _last_words(self) -> str:
        try:
            return last_line(self._log.read_text(errors="replace"))
        except OSError:
            return "(no log)"


def _answers(host: str, port: int) -> bool:
    """Ask for the versions of the protocol, which every broker answers."""
    api_versions, version, correlation, no_client = 18, 0, 7, -1
    body = struct.pack(">hhih", api_versions, version, correlation, no_client)
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            head = connection.recv(8, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(head) == 8 and struct.unpack(">ii", head)[1] == correlation


def cluster_id(random: bytes) -> str:
    """A name for a cluster: base64, but nothing that looks like an option of the tool.

    >>> cluster_id(b"\\xf8" + bytes(15))
    'zAAAAAAAAAAAAAAAAAAAAA'
    """
    made = base64.urlsafe_b64encode(random).decode().rstrip("=")
    return "z" + made[1:] if made.startswith("-") else made
