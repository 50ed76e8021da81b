"""The keyed stages: one shard of one level of stages, in a task.

A shard owns a range of key groups. In each micro-batch it is called once, with all messages for it:
it feeds its stages the rows in the order of their senders, then the watermarks, pulls, and saves
what has changed (`states.py`).

A stage stays in the worker between batches, under the random token of the snapshot that was saved
last. Another attempt, or another worker, may have saved another one since: then the tokens differ
and the stage is built from the saved state; where its own token is one of those that the saved
state was made of, it only catches up with what came behind. A counter would not do, because an
attempt that failed may have cached the same number with other rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from headrace.plan.nodes import Received
from headrace.plan.planner import StagePlan
from headrace.stage.stage import Stage

from .batches import may_try_again
from .errors import carry
from .moving import merged, read_parts, write_part
from .running import StageTask
from .shipment import MOST_KEPT, Shipment, sender_of_shard
from .source import PASSING
from .states import SIZE, Saved, ShardState
from .wire import DRIVER, ERROR, METRICS, MOVE, ROWS, Message, by_sender, unpack

MOST_SNAPSHOTS = 16  # of a stage before a new base, however small the deltas are
MOST_CACHED = 64  # stages that a worker holds
MOST_BYTES = 2 << 30  # of state in them; one stage is held in any case

_cached: dict[tuple[str, int, int], tuple[str, Stage]] = {}  # by job, stage and shard
_sizes: dict[tuple[str, int, int], int] = {}  # of their state, when they were put there


class KeyedLevel:
    """All stages behind the same number of exchanges, for one shard.

    state: where it is kept; None where no batch follows.
    """

    def __init__(self, shipment: Shipment, level: int, state: ShardState | None) -> None:
        self._shipment, self._plans, self._state = shipment, shipment.levels[level], state

    def handle(self, shard: int, messages: list[Message]) -> Iterator[Message]:
        """Work off the messages of a micro-batch; gives messages for the stages behind."""
        own = {plan.number for plan in self._plans}
        yield from (message for message in messages if message.target not in own)
        try:
            saved = self._state.before() if self._state is not None else {}
            for plan in self._plans:
                given = sorted((x for x in messages if x.target == plan.number), key=by_sender)
                if given and given[0].kind == MOVE:
                    self._leave(plan, shard, saved)
                elif given:
                    yield from self._run(plan, shard, given, saved)
            if self._state is not None:
                self._state.publish(saved)
        except Exception as error:
            if isinstance(error, PASSING) and may_try_again(self._shipment):
                raise
            label, batch = self._shipment.labels[shard], messages[0].batch if messages else 0
            yield Message(label, ERROR, batch, DRIVER, "", "", 0, 0, 0, carry(error))

    def _leave(self, plan: StagePlan, shard: int, saved: Saved) -> None:
        """Write all records into a file, for the shards of the next generation."""
        shipment = self._shipment
        stage, _ = self._stage(plan, shard, saved.get(str(plan.number)))
        try:
            write_part(shipment.moving, plan.number, shard, shipment.shards, stage.snapshot())
        finally:
            stage.close()

    def _run(
        self, plan: StagePlan, shard: int, messages: list[Message], saved: Saved
    ) -> Iterator[Message]:
        known = saved.get(str(plan.number))
        stage, hit = self._stage(plan, shard, known)
        label = self._shipment.labels[shard]
        run = StageTask(
            self._shipment,
            stage,
            batch=messages[0].batch,
            sender=sender_of_shard(plan, shard),
            label=label,
        )
        written = 0
        try:
            for message in messages:
                if message.kind == ROWS:
                    for rows in unpack(message.payload):
                        stage.push(message.port, rows, message.sender)
                    yield from run.run()
            for message in messages:  # every mark stands behind all rows
                if message.kind != ROWS:
                    stage.advance(message.port, message.watermark, message.sender)
            stage.flush()
            yield from run.run()
            yield from run.finish()
            if self._state is not None:
                saved[str(plan.number)], written = self._save(self._state, stage, plan, known)
        except BaseException:
            run.abort()
            stage.close()
            raise
        if self._state is not None:
            _keep(self._key(plan, shard), saved[str(plan.number)]["token"], stage)
        else:
            stage.close()
        said = json.dumps({"": {"state_written": written, "cache_hits": int(hit), "shards": 1}})
        yield Message(
            label, METRICS, run.batch, DRIVER, str(plan.number), run.sender, 1, 0, 0, said.encode()
        )

    def _key(self, plan: StagePlan, shard: int) -> tuple[str, int, int]:
        return self._shipment.token, plan.number, shard

    def _stage(self, plan: StagePlan, shard: int, known: Any) -> tuple[Stage, bool]:
        """The stage as it was saved last: from this worker's memory, or from files."""
        shipment = self._shipment
        token, stage = _cached.pop(self._key(plan, shard), ("", None))
        if stage is not None and known is not None and token == known["token"]:
            return stage, True
        listed = known["snapshots"] if known is not None else []
        tokens = [made for _, made, *_ in listed]
        if stage is not None and token in tokens:  # another worker has gone on from there
            assert self._state is not None
            stage.restore(*self._state.load(listed[tokens.index(token) + 1 :]))
            return stage, False
        if stage is not None:
            stage.close()
        stage = Stage(plan, capacity=shipment.capacity, compiled=shipment.compiled)
        if known is not None:
            assert self._state is not None
            stage.restore(*self._state.load(listed))
        elif shipment.moved:
            self._take_over(shipment, plan, shard, stage)
        for node in plan.inputs:
            assert isinstance(node, Received)
            stage.declare(node.name, *shipment.senders(node.name))
        return stage, False

    def _take_over(self, shipment: Shipment, plan: StagePlan, shard: int, stage: Stage) -> None:
        """Begin with what the shards of the generation before have left."""
        parts = read_parts(shipment.moved, plan.number, shard, shipment.shards)
        senders = {
            node.name: shipment.senders(node.name)
            for node in plan.inputs
            if shipment.sends_in_shards(node.name)
        }
        stage.restore(merged(parts, shard, shipment.shards, senders))

    def _save(
        self, state: ShardState, stage: Stage, plan: StagePlan, known: Any
    ) -> tuple[dict[str, Any], int]:
        """Write what has changed; gives where all of it lies, and how many bytes it were."""
        before = known["snapshots"] if known is not None else []
        follows = known is not None and len(before) < MOST_SNAPSHOTS
        made = stage.snapshot(known["token"] if follows else None)
        if made.since is None:  # a base: what was before it is not needed any more
            before = []
        entry = state.write(plan.number, made)
        return {"token": made.token, "snapshots": [*before, entry]}, entry[SIZE]


def _keep(key: tuple[str, int, int], token: str, stage: Stage) -> None:
    """Hold a stage for the next batch; those of jobs that ran long ago, and the oldest, go."""
    _cached[key] = token, stage
    recent = list(dict.fromkeys(job for job, _, _ in reversed(list(_cached))))[:MOST_KEPT]
    for other in [k for k in list(_cached) if k[0] not in recent]:
        _cached.pop(other)[1].close()
    _sizes[key] = _state_bytes(stage)
    for gone in [k for k in _sizes if k not in _cached]:
        del _sizes[gone]
    while len(_cached) > 1 and (len(_cached) > MOST_CACHED or sum(_sizes.values()) > MOST_BYTES):
        oldest = next(iter(_cached))
        _sizes.pop(oldest, None)
        _cached.pop(oldest)[1].close()


def _state_bytes(stage: Stage) -> int:
    return sum(measured.get("state_bytes", 0) for measured in stage.metrics().values())
