"""A job's checkpoint folder: Spark's own files, and ours beside them.

headrace.json    what the pipeline was: it must still fit the saved state
sources.json     which files its sources had, where these are folders that are not watched
ends.json        where its last batches ended (`ends.py`)
headrace.lock    held by the job that runs here
headrace.finished  there is nothing more to do, after a batch query
headrace/        the plan on its way to the tasks
frames/          batch DataFrames that are read beside streams
spark/           offsets and commits, as Spark keeps them; spark-1, spark-2, ... behind a
                 change of the number of shards
moved-1/, ...    the state with which such a generation begins, until it has saved its own
state/           the state of the shards (`states.py`); state-1, ... as above
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headrace.connect.paths import is_url, without_credentials
from headrace.plan.by_time import InTurn
from headrace.plan.dedup import DedupWithin
from headrace.plan.errors import StateError
from headrace.plan.graph import walk
from headrace.plan.nodes import Received, Running, Source, Stateful, Windowed, WindowJoin
from headrace.plan.planner import StagePlan
from headrace.plan.timed import TimedProcess

from .ends import HEAD, Ends, Synced, drop_torn, end_of
from .files import (
    check_file_system,
    check_owner,
    damaged,
    make_folder,
    read_sealed,
    unfit,
    write_file,
    write_sealed,
)
from .planning import has_ended
from .source_files import check_files, keep_files
from .temporary import locked, new_folder

FORMAT = 3
MOST_BATCHES = 10**9  # of a generation: those of the next one are counted behind them


class Checkpoint:
    """A checkpoint folder, locked; without a path it is a temporary one."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.is_temporary = path is None
        self.folder = new_folder("headrace-checkpoint-") if path is None else _local(path)
        try:
            make_folder(self.folder)
        except OSError as error:
            raise StateError(
                f"the checkpoint {self.folder} cannot be made: {error.strerror}\n"
                "  fix: give a folder that can be written"
            ) from None
        check_owner(self.folder)
        self._agreed: dict[str, Any] = {}
        try:
            held = locked(self.folder)
        except OSError as error:
            raise unfit(self.folder, f"it has no locks ({error.strerror})") from None
        if held is None:
            raise StateError(
                f"another job runs on the checkpoint {self.folder}\n"
                "  fix: stop it, or give this job a checkpoint of its own"
            )
        self._lock = held
        self._ends = Ends(self.folder / "ends.json")
        self._synced: Synced | None = None
        try:
            if not self.is_temporary:
                check_file_system(self.folder)
        except BaseException:
            held.close()
            raise

    @property
    def lasting(self) -> bool:
        """Must it outlive a machine that crashes?"""
        return not self.is_temporary

    @property
    def spark(self) -> Path:
        """What Spark keeps."""
        return self._of_generation("spark")

    @property
    def state(self) -> Path:
        """What the shards keep."""
        return self._of_generation("state")

    def _of_generation(self, name: str) -> Path:
        number = self._generation
        return self.folder / (f"{name}-{number}" if number else name)

    @property
    def _generation(self) -> int:
        return int(self._agreed.get("generation", 0))

    @property
    def start(self) -> dict[str, Any] | None:
        """The offset with which the generation begins; None for the first one."""
        found: dict[str, Any] | None = self._agreed.get("start")
        return found

    @property
    def moved(self) -> str:
        """Where the state lies with which the generation begins; empty for the first one."""
        return str(self._moved(self._generation)) if self._generation else ""

    @property
    def moving(self) -> str:
        """Where the state goes with which the next generation will begin."""
        return str(self._moved(self._generation + 1))

    def _moved(self, generation: int) -> Path:
        return self.folder / f"moved-{generation}"

    @property
    def plans(self) -> Path:
        """Where the plan lies for the tasks."""
        return self.folder / "headrace"

    @property
    def times(self) -> Path:
        """Where the event times lie that tasks have reported."""
        return self.folder / "times"

    @property
    def _files(self) -> Path:
        return self.folder / "sources.json"

    @property
    def frames(self) -> Path:
        """Where batch DataFrames lie as files."""
        return self.folder / "frames"

    def close(self) -> None:
        """Let others run here; a temporary folder goes."""
        self._lock.close()
        if self.is_temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- what the pipeline was -----------------------------------------------------------------

    def agree(
        self, stages: Sequence[StagePlan], shards: int | None, default: Callable[[], int]
    ) -> tuple[str, int]:
        """(id, shards) of the job; a pipeline that does not fit what was saved is a StateError.

        Where rows have been read already, the shards are those of before: see `change_shards`.
        """
        path = self.folder / "headrace.json"
        now = describe(stages)
        if not path.exists():
            identity, shards = uuid.uuid4().hex[:12], shards or default()
            keep_files(self._files, stages, lasting=self.lasting)
            self._agree({"format": FORMAT, "id": identity, "shards": shards, "pipeline": now})
            return identity, shards
        saved = self._saved(path)
        self._agreed = saved
        drop_torn(self.spark)
        _compare(self.folder, saved["pipeline"], now)
        check_files(self._files, stages)
        self._agree({**saved, "pipeline": now})
        if shards is not None and _last(self.spark / "offsets") is None and not self.moved:
            self._agree({**self._agreed, "shards": shards})
        return saved["id"], self._agreed["shards"]

    def _saved(self, path: Path) -> dict[str, Any]:
        try:
            other = json.loads(path.read_bytes()).get("format", FORMAT)  # sealed, it is inside
        except (ValueError, AttributeError, RecursionError):
            other = FORMAT
        saved: dict[str, Any] = read_sealed(path) if other == FORMAT else {"format": other}
        if saved["format"] != FORMAT:
            raise StateError(
                f"the checkpoint {self.folder} has format {saved['format']}, this version reads "
                f"{FORMAT}\n  fix: begin with a new checkpoint"
            )
        return saved

    def _agree(self, agreed: dict[str, Any]) -> None:
        write_sealed(self.folder / "headrace.json", agreed)
        self._agreed = agreed

    def change_shards(self, shards: int) -> None:
        """Begin the next generation: all shards have left their state in `moving`."""
        before, generation = (self.spark, self.state), self._generation
        start = self._last_offset()
        assert start is not None and start.get("moved") == self.moving, "the state was not moved"
        start.pop("moved")  # it begins with an empty batch, if there is nothing to read yet
        agreed = {**self._agreed, "generation": generation + 1, "shards": shards, "start": start}
        self._agree(agreed)
        for folder in (*before, self._moved(generation)):
            shutil.rmtree(folder, ignore_errors=True)

    def forget_moved(self, batch: int) -> None:
        """Remove what the generation began with, if the batch behind which it is not needed any
        more is committed."""
        if self.moved and (self.spark / "commits" / str(batch)).exists():
            shutil.rmtree(self.moved, ignore_errors=True)

    def finish(self) -> None:
        """A batch query is over, and committed."""
        write_file(self.folder / "headrace.finished", b"", lasting=self.lasting)

    def has_finished(self) -> bool:
        """Were all sources read to their ends, and the last batch committed?"""
        if (self.folder / "headrace.finished").exists():
            return True
        last = self._last_offset()
        return last is not None and has_ended(last)

    def _last_offset(self) -> dict[str, Any] | None:
        """Where the query stands; None if it has not begun, or the last batch is not committed."""
        last = _last(self.spark / "commits")
        if last is None or last != _last(self.spark / "offsets"):
            return None
        path = self.spark / "offsets" / str(last)
        try:
            found: dict[str, Any] = json.loads(path.read_text().splitlines()[HEAD])
        except (ValueError, IndexError, RecursionError):
            raise damaged(path, "it is not what Spark wrote") from None
        return found

    def end_of(self, batch_id: int) -> str:
        """What stands for the end of a batch; empty for that of a batch query, which has none.

        When it returns, what was planned is safe on the disk. A batch that was published with
        another end is a StateError.
        """
        path = self.spark / "offsets" / str(batch_id)
        if not path.exists():
            return ""
        end = end_of(path)
        if self.lasting:
            if self._synced is None or self._synced.folder != self.spark:  # a new generation
                self._synced = Synced(self.spark)
            self._synced.sync()
            self._ends.keep(self._generation * MOST_BATCHES + batch_id, end)
        return end


def _local(path: str | os.PathLike[str]) -> Path:
    """The folder that a user names."""
    text = re.sub("^file:(//)?(?=/)", "", os.fspath(path))
    if is_url(text):
        raise StateError(
            f"checkpoint={without_credentials(text)!r}: only folders of a file system are "
            "supported\n  fix: give a folder that all machines see under the same path"
        )
    return Path(text).expanduser().resolve()


def describe(stages: Sequence[StagePlan]) -> dict[str, Any]:
    """What must stay for saved state to be found again: sources, exchanges, stateful operators."""
    operators: dict[str, Any] = {}
    exchanges: dict[str, Any] = {}
    sources: dict[str, Any] = {}
    for stage in stages:
        for node in walk(stage.roots):
            if isinstance(node, Source):
                sources[node.name] = type(node.connector).__name__
            elif isinstance(node, Received):
                exchanges[node.name] = stage.number
            elif isinstance(node, Stateful) and stage_is_keyed(stage):
                operators[node.identity] = _shape(node)
    return {"sources": sources, "exchanges": exchanges, "operators": operators}


def stage_is_keyed(stage: StagePlan) -> bool:
    """Does it stand behind an exchange?"""
    return any(isinstance(node, Received) for node in stage.inputs)


def _shape(node: Stateful) -> dict[str, Any]:
    made: dict[str, Any] = {"operator": node.kind, "key": list(node.key)}
    if node.partition is not None:
        made["partition"] = node.partition.identity
    if isinstance(node, Windowed | Running):
        if isinstance(node, Windowed | DedupWithin):
            made["window"] = str(node.window)
        made["aggregates"] = [f"{name}={aggregate}" for name, aggregate in node.aggregates]
        if isinstance(node, WindowJoin):
            made["columns"] = [*node.left, *node.right]
        elif isinstance(node, InTurn):
            made["columns"] = list(node.kept)
        if isinstance(node, TimedProcess):
            made["state"] = {f.name: str(f.type) for f in node.state.fields}
    elif node.function.state is not None:
        made["state"] = {f.name: str(f.type) for f in node.function.state.fields}
    return made


def _compare(folder: Path, saved: dict[str, Any], now: dict[str, Any]) -> None:
    said = []
    for what in ("sources", "operators", "exchanges"):
        for name, was in saved[what].items():
            if name not in now[what]:
                said.append(f"{what[:-1]} {name!r} is gone")
            elif now[what][name] != was:
                said.append(f"{what[:-1]} {name!r} was {was} and is {now[what][name]}")
        said.extend(f"{what[:-1]} {name!r} is new" for name in now[what] if name not in saved[what])
    if said:
        raise StateError(
            f"the pipeline does not fit the checkpoint {folder}: {'; '.join(said[:5])}\n"
            "  fix: undo the change (stateful operators keep their place with name=), or begin "
            "with a new checkpoint"
        )


def _last(folder: Path) -> int | None:
    numbers = [int(path.name) for path in folder.glob("*") if path.name.isdigit()]
    return max(numbers, default=None)
