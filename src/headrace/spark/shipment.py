"""A pipeline on its way to the tasks: one file that every process reads once.

Planning happens in a process of its own, and tasks in many: none of them sees objects of the
driver. So the stages, their connectors and the user's functions are pickled (functions of the
main program by value) into a file in the checkpoint folder, which all machines must see anyhow.
Large tables lie in Arrow files beside it (`mapped.py`).
"""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from headrace.connect.spark_frame import SparkFrame
from headrace.plan.graph import transform
from headrace.plan.nodes import Exchange, Node, Received, Sink, Source
from headrace.plan.planner import StagePlan

from .errors import SparkError
from .files import check_owner, make_folder, write_file
from .mapped import dumps, loads
from .unsendable import unsendable
from .wire import DRIVER, shard_labels


@dataclass(frozen=True)
class Shipment:
    """What tasks need to know of a job."""

    stages: tuple[StagePlan, ...]
    staged: dict[str, bytes]  # sinks that tasks write through, pickled when they were open
    channels: dict[str, tuple[str, ...]]  # of each source
    shards: int
    checkpoint: str  # its lasting id, part of the names of batches
    batch_rows: int  # of the first batch
    tasks: int  # that may run at the same time
    stop_file: str  # if it is there, nothing more is read
    times: str  # the folder with the event times that tasks have reported
    state: str  # the folder with the state of the shards
    capacity: int
    compiled: bool
    most_rows: int = 0  # of the largest, if they may grow
    lasting: bool = False  # what is written outlives a machine that crashes
    streaming: bool = True  # batch follows batch; False: there is but one
    attempts: int = 1  # that Spark gives a task before it gives up
    shared: bool = False  # it is a DataFrame, which users run as they like: no job of ours
    idle: float | None = None  # seconds after which a silent channel holds no windows back
    moving: str = ""  # the folder into which shards leave their state; nothing is read
    moved: str = ""  # the folder with the state of the generation before
    start: dict[str, Any] | None = None  # the offset to begin with, if not at the beginning
    cores: int = 1  # of each task (spark.task.cpus)
    gate: str = ""  # where the planner asks before each batch; empty: nowhere
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    @cached_property
    def labels(self) -> list[int]:
        """The label of each shard."""
        return shard_labels(self.shards)

    @cached_property
    def receivers(self) -> dict[str, int]:
        """The stage behind each exchange."""
        return {
            node.name: stage.number
            for stage in self.stages
            for node in stage.inputs
            if isinstance(node, Received)
        }

    @cached_property
    def sources(self) -> dict[str, tuple[StagePlan, Source]]:
        """Each source and the stage that reads it."""
        return {
            node.name: (stage, node)
            for stage in self.stages
            for node in stage.inputs
            if isinstance(node, Source)
        }

    @cached_property
    def planned(self) -> dict[str, tuple[str, ...]]:
        """The channels of the sources that our planner plans: Spark plans those of DataFrames."""
        return {name: found for name, found in self.channels.items() if name not in self.frames}

    @cached_property
    def frames(self) -> frozenset[str]:
        """The sources that are DataFrames."""
        found = self.sources.items()
        return frozenset(n for n, (_, node) in found if isinstance(node.connector, SparkFrame))

    @cached_property
    def levels(self) -> list[list[StagePlan]]:
        """The stages behind exchanges, by how many exchanges lie before them."""
        depth: dict[int, int] = {}
        for stage in self.stages:  # senders come first
            senders = self.sending_stages(stage)
            depth[stage.number] = 1 + max(depth[s.number] for s in senders) if senders else 0
        made: list[list[StagePlan]] = [[] for _ in range(max(depth.values()))]
        for stage in self.stages:
            if depth[stage.number]:
                made[depth[stage.number] - 1].append(stage)
        return made

    @cached_property
    def keyed_shards(self) -> frozenset[str]:
        """All shards of the stages behind exchanges, by their names as senders."""
        stages = [stage for level in self.levels for stage in level]
        return frozenset(sender_of_shard(s, n) for s in stages for n in range(self.shards))

    def sending_stages(self, stage: StagePlan) -> list[StagePlan]:
        """The stages whose rows a stage receives."""
        names = {node.name for node in stage.inputs if isinstance(node, Received)}
        return [s for s in self.stages if any(root.name in names for root in s.roots)]

    def sender(self, exchange: str) -> StagePlan:
        """The stage whose rows an exchange brings."""
        (stage,) = [s for s in self.stages if any(r.name == exchange for r in s.roots)]
        return stage

    def sends_in_shards(self, exchange: str) -> bool:
        """Does an exchange bring rows from shards, and not from channels of sources?"""
        return self.sender(exchange).number in self.receivers.values()

    def senders(self, exchange: str) -> list[str]:
        """All channels of an exchange: windows behind it wait for every one of them."""
        stage = self.sender(exchange)
        if self.sends_in_shards(exchange):
            return [sender_of_shard(stage, shard) for shard in range(self.shards)]
        return [
            sender_of_channel(node.name, channel)
            for node in stage.inputs
            for channel in self.channels[node.name]
        ]

    def target(self, root: Node) -> int:
        """Where the rows of an output go."""
        return self.receivers[root.name] if isinstance(root, Exchange) else DRIVER

    def batch_name(self, batch: int) -> str:
        """The name of a micro-batch for sinks: the same whenever it is run again."""
        return f"{self.checkpoint}-{batch:08}"


def sender_of_channel(source: str, channel: str) -> str:
    """The name of a channel of a source among the senders of an exchange."""
    return f"{source}/{channel}"


def sender_of_shard(stage: StagePlan, shard: int) -> str:
    """The name of a shard of a stage among the senders of an exchange."""
    return f"{stage.number}/{shard:06}"


def is_staged(connector: object) -> bool:
    """Can tasks write through a sink while the driver commits?

    A connector says so with an attribute `distributed`. Others live on the driver: rows come to it.
    """
    return bool(getattr(connector, "distributed", False))


def without_sinks(stages: Sequence[StagePlan]) -> tuple[StagePlan, ...]:
    """The stages with sinks that hold no connector: those of the driver cannot travel."""

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        made = node.with_inputs(*inputs)
        return replace(made, connector=None) if isinstance(made, Sink) else made

    return tuple(replace(s, roots=tuple(transform(s.roots, change))) for s in stages)


@dataclass(frozen=True)
class Address:
    """Where tasks find a shipment: the driver hands it over, through Spark.

    digest: of the file. A pickle that is anything else would run whatever another has put there.
    secrets: passwords and the like, which are never written.
    """

    path: str
    digest: str
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def options(self) -> dict[str, str]:
        """As options of a data source. Spark shows no option whose name has "secret" in it."""
        made = {"plan": self.path, "digest": self.digest}
        return {**made, "secret": json.dumps(self.secrets)} if self.secrets else made

    @classmethod
    def from_options(cls, given: Mapping[str, str]) -> Address:
        """What `options` gave."""
        secrets = tuple(json.loads(given.get("secret", "[]")))
        return cls(given["plan"], given["digest"], secrets)


def send(shipment: Shipment, folder: Path) -> Address:
    """Write the file of a job into a folder, in one step; those of earlier runs go."""
    forget(folder)
    make_folder(folder, lasting=False)
    path = folder / f"plan-{shipment.token}.pickle"
    try:
        packed, secrets = dumps(shipment, folder, path.stem)
    except Exception as error:
        forget(folder)
        raise unsendable((r for s in shipment.stages for r in s.roots), error) from None
    content = pickle.dumps((list(sys.path), packed))
    write_file(path, content, lasting=False)
    return Address(str(path), hashlib.sha256(content).hexdigest(), secrets)


def forget(folder: Path) -> None:
    """Remove what `send` wrote."""
    for old in folder.glob("plan-*"):
        old.unlink(missing_ok=True)


FILE_MODULE = "__headrace_file__"  # the module of a file that `headrace run` runs
MOST_KEPT = 16  # jobs that a process keeps in memory: those of a session run in turns
_received: dict[str, Shipment] = {}


def receive(address: Address) -> Shipment:
    """The shipment at an address; read once in each process."""
    known = _received.pop(address.path, None)
    if known is None:
        folders, content = pickle.loads(_checked(address))
        # user modules are found where the driver found them
        sys.path.extend(folder for folder in folders if folder not in sys.path)
        # Numba asks for the module of a function when it loads machine code.
        sys.modules.setdefault(FILE_MODULE, ModuleType(FILE_MODULE))
        known = loads(content, Path(address.path).parent, address.secrets)
    _received[address.path] = known  # the last one used stands last
    while len(_received) > MOST_KEPT:
        del _received[next(iter(_received))]
    return known


def _checked(address: Address) -> bytes:
    """What the driver wrote; anything else is not even looked into."""
    path = Path(address.path)
    try:
        check_owner(path)
        content = path.read_bytes()
    except FileNotFoundError:
        raise SparkError(
            f"a task does not find the pipeline at {path}\n  fix: give checkpoint= a folder "
            "that all machines of the cluster see under the same path"
        ) from None
    if hashlib.sha256(content).hexdigest() != address.digest:
        raise SparkError(
            f"the pipeline at {path} is not the one that the driver wrote: it was changed\n"
            "  fix: find out by whom; docs/security.md says who can write there"
        )
    return content
