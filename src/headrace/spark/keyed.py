"""The keyed stages: one shard of one level of stages, as a stateful processor of Spark.

A shard owns a range of key groups. In each micro-batch it is called once, with all letters for it:
it feeds its stages the rows in the order of their senders, then the watermarks, pulls, and saves
what has changed in Spark's state store. The batch is committed by Spark, with the state.

A stage stays in the worker between batches, under the random token of the snapshot that was saved
last. Another attempt, or another worker, may have saved another one since: then the tokens differ
and the stage is built from the state store; where its own token is one of those that the saved
state was made of, it only catches up with what came behind. A counter would not do, because an
attempt that failed may have cached the same number with other rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from headrace.plan.errors import StateError
from headrace.plan.nodes import Received
from headrace.plan.planner import StagePlan
from headrace.stage.snapshot import Snapshot
from headrace.stage.stage import Stage

from .errors import carry
from .moving import merged, read_parts, write_part
from .running import StageTask
from .shipment import Shipment, receive, sender_of_shard
from .source import PASSING
from .wire import DRIVER, ERROR, METRICS, MOVE, ROWS, Letter, by_sender, unpack

SAVED = "saved"  # the name of the piece that lists the others
PIECE_BYTES = 1 << 20  # a snapshot is kept in pieces of at most so many bytes
MOST_SNAPSHOTS = 16  # of a stage before a new base, however small the deltas are
MOST_CACHED = 64  # stages that a worker holds
MOST_BYTES = 2 << 30  # of state in them; one stage is held in any case

_cached: dict[tuple[str, int, int], tuple[str, Stage]] = {}  # by job, stage and shard
_sizes: dict[tuple[str, int, int], int] = {}  # of their state, when they were put there


class KeyedLevel:
    """All stages behind the same number of exchanges, for one shard; `pieces` is its state."""

    def __init__(self, path: str, level: int, pieces: Any) -> None:
        self._path, self._level, self._pieces = path, level, pieces

    def handle(self, label: int, letters: list[Letter]) -> Iterator[Letter]:
        """Work off the letters of a micro-batch; gives letters for the stages behind."""
        shipment = receive(self._path)
        plans = shipment.levels[self._level]
        own = {plan.number for plan in plans}
        yield from (letter for letter in letters if letter.target not in own)
        shard = shipment.shard_of[label]
        state = self._pieces.getValue((SAVED,))
        saved: dict[str, Any] = json.loads(bytes(state[0])) if state is not None else {}
        changed = False
        try:
            for plan in plans:
                given = sorted((x for x in letters if x.target == plan.number), key=by_sender)
                if given and given[0].kind == MOVE:
                    self._leave(shipment, plan, shard, saved)
                elif given:
                    yield from self._run(shipment, plan, shard, given, saved)
                    changed = True
        except PASSING:
            raise
        except Exception as error:
            batch = letters[0].batch
            yield Letter(label, ERROR, batch, DRIVER, "", "", 0, 0, 0, carry(error))
            return
        if changed:
            self._pieces.updateValue((SAVED,), (json.dumps(saved).encode(),))

    def _leave(
        self, shipment: Shipment, plan: StagePlan, shard: int, saved: dict[str, Any]
    ) -> None:
        """Write all records into a file, for the shards of the next generation."""
        key = (shipment.token, plan.number, shard)
        stage, _ = self._stage(shipment, plan, key, saved.get(str(plan.number)))
        try:
            write_part(shipment.moving, plan.number, shard, shipment.shards, stage.snapshot())
        finally:
            stage.close()

    def _run(
        self,
        shipment: Shipment,
        plan: StagePlan,
        shard: int,
        letters: list[Letter],
        saved: dict[str, Any],
    ) -> Iterator[Letter]:
        known = saved.get(str(plan.number))
        key = (shipment.token, plan.number, shard)
        stage, hit = self._stage(shipment, plan, key, known)
        label = shipment.labels[shard]
        run = StageTask(
            shipment,
            stage,
            batch=letters[0].batch,
            sender=sender_of_shard(plan, shard),
            label=label,
        )
        try:
            for letter in letters:
                if letter.kind == ROWS:
                    for rows in unpack(letter.payload):
                        stage.push(letter.port, rows, letter.sender)
                    yield from run.run()
            for letter in letters:  # every mark stands behind all rows
                if letter.kind != ROWS:
                    stage.advance(letter.port, letter.watermark, letter.sender)
            stage.flush()
            yield from run.run()
            yield from run.finish()
            token, entry, written = self._save(stage, plan, known)
        except BaseException:
            run.abort()
            stage.close()
            raise
        saved[str(plan.number)] = entry
        _keep(key, token, stage)
        said = json.dumps({"": {"state_written": written, "cache_hits": int(hit), "shards": 1}})
        yield Letter(
            label, METRICS, run.batch, DRIVER, str(plan.number), run.sender, 1, 0, 0, said.encode()
        )

    def _stage(
        self, shipment: Shipment, plan: StagePlan, key: tuple[str, int, int], known: Any
    ) -> tuple[Stage, bool]:
        """The stage as it was saved last: from this worker's memory, or from the state store."""
        token, stage = _cached.pop(key, ("", None))
        if stage is not None and known is not None and token == known["token"]:
            return stage, True
        listed = known["snapshots"] if known is not None else []
        tokens = [made for _, _, made in listed]
        if stage is not None and token in tokens:  # another worker has gone on from there
            newer = listed[tokens.index(token) + 1 :]
            stage.restore(*self._snapshots(plan, newer))
            return stage, False
        if stage is not None:
            stage.close()
        stage = Stage(plan, capacity=shipment.capacity, compiled=shipment.compiled)
        if known is not None:
            stage.restore(*self._snapshots(plan, listed))
        elif shipment.moved:
            self._take_over(shipment, plan, key[-1], stage)
        for node in plan.inputs:
            assert isinstance(node, Received)
            stage.declare(node.name, *shipment.senders(node.name))
        return stage, False

    def _take_over(self, shipment: Shipment, plan: StagePlan, shard: int, stage: Stage) -> None:
        """Begin with what the shards of the generation before have left."""
        parts = read_parts(shipment.moved, plan.number, shard, shipment.shards)
        if not parts:
            raise StateError(f"the state that was moved to {shipment.moved} is not there")
        senders = {
            node.name: shipment.senders(node.name)
            for node in plan.inputs
            if shipment.sends_in_shards(node.name)
        }
        stage.restore(merged(parts, shard, shipment.shards, senders))

    # ---- the state store ---------------------------------------------------------------------

    def _save(self, stage: Stage, plan: StagePlan, known: Any) -> tuple[str, dict[str, Any], int]:
        """Write what has changed; gives the token, where it lies, and how many bytes it were."""
        before = known["snapshots"] if known is not None else []
        follows = known is not None and len(before) < MOST_SNAPSHOTS
        made = stage.snapshot(known["token"] if follows else None)
        if made.since is None:  # a base: what was before it is not needed any more
            for number, pieces, _ in before:
                for piece in range(pieces):
                    self._pieces.removeKey((_piece_name(plan, number, piece),))
            before = []
        number = known["next"] if known is not None else 0
        content = made.to_bytes()
        starts = range(0, len(content), PIECE_BYTES)
        for piece, start in enumerate(starts):
            name = _piece_name(plan, number, piece)
            self._pieces.updateValue((name,), (content[start : start + PIECE_BYTES],))
        entry = {
            "token": made.token,
            "snapshots": [*before, [number, len(starts), made.token]],
            "next": number + 1,
        }
        return made.token, entry, len(content)

    def _snapshots(self, plan: StagePlan, listed: list[Any]) -> list[Snapshot]:
        return [Snapshot.from_bytes(self._load(plan, number, n)) for number, n, _ in listed]

    def _load(self, plan: StagePlan, number: int, pieces: int) -> bytes:
        found = []
        for piece in range(pieces):
            value = self._pieces.getValue((_piece_name(plan, number, piece),))
            assert value is not None, "the state store lacks a piece of a snapshot"
            found.append(bytes(value[0]))
        return b"".join(found)


def _piece_name(plan: StagePlan, number: int, piece: int) -> str:
    return f"{plan.number}/{number}/{piece}"


def _keep(key: tuple[str, int, int], token: str, stage: Stage) -> None:
    """Hold a stage for the next batch; those of other jobs, and the oldest, go."""
    for other in [k for k in _cached if k[0] != key[0]]:
        _cached.pop(other)[1].close()
    _cached[key] = token, stage
    _sizes[key] = _state_bytes(stage)
    for gone in [k for k in _sizes if k not in _cached]:
        del _sizes[gone]
    while len(_cached) > 1 and (len(_cached) > MOST_CACHED or sum(_sizes.values()) > MOST_BYTES):
        oldest = next(iter(_cached))
        _sizes.pop(oldest, None)
        _cached.pop(oldest)[1].close()


def _state_bytes(stage: Stage) -> int:
    return sum(measured.get("state_bytes", 0) for measured in stage.metrics().values())
