"""A pipeline on several threads: workers run stages, whose kernels hold no lock.

The plan is cut at its exchanges. The stages that read sources have no state of their own but
partial results, so each worker has a copy of them (a *slot*) and runs it on splits of the channels
that it claims: chains are replicated, and only what crosses an exchange is handed over. Each stage
behind an exchange has one owner at a time. The results of splits go on in the order of the splits,
so rows keep the order of their channel, whatever the workers do (Ordered, definition 5.1).
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from headrace.connect.delivery import Delivery
from headrace.plan.nodes import WATERMARK, Exchange, Sink, Source, walk
from headrace.plan.planner import Plan, StagePlan
from headrace.stage.blocks.arrow import to_arrow
from headrace.stage.blocks.block import Block
from headrace.stage.stage import Stage
from headrace.stage.units import sampling_of

from .splits import Channel, Split, TimeScan

TURN_SECONDS = 0.02  # the longest wait before a worker looks again
MOST_WAITING = 256  # messages for owners, above which no split is claimed: back-pressure
AHEAD = 4  # splits per worker that may be claimed and not yet handed on

OWNER = "owner"  # the sender of rows of a stage that has one owner

Results = list[tuple[str, Block | pa.RecordBatch]]  # (output, rows), in order


class Owned:
    """What one worker at a time works on: messages wait here until one does."""

    def __init__(self) -> None:
        self.messages: deque[Any] = deque()
        self.claimed = False


class OwnedStage(Owned):
    """A stage behind an exchange; a message is a call that gives it rows or tells it time."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage


class OwnedSink(Owned):
    """A sink; a message is rows to write."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class ChannelOrder:
    """The results of a channel's splits, handed on in the order of the splits."""

    def __init__(self) -> None:
        self.next = 0
        self.waiting: dict[int, tuple[Split, Results, int]] = {}


class NodeRun:
    """One run of a plan on worker threads."""

    def __init__(self, plan: Plan, workers: int | None, capacity: int, compiled: bool) -> None:
        self.workers = workers or os.cpu_count() or 1
        self._capacity, self._compiled = capacity, compiled
        stages = plan.stages()
        self._source_stages = [s for s in stages if any(isinstance(n, Source) for n in s.inputs)]
        self._slots = [
            {s.number: self._stage(s) for s in self._source_stages} for _ in range(self.workers)
        ]
        owned = [s for s in stages if s not in self._source_stages]
        self._stages_behind = {s.number: OwnedStage(self._stage(s)) for s in owned}
        self._receivers = {n.name: self._stages_behind[s.number] for s in owned for n in s.inputs}
        self.sources = [n for s in self._source_stages for n in s.inputs if isinstance(n, Source)]
        self.sinks = {n.name: n for s in stages for n in s.roots if isinstance(n, Sink)}
        self._exchanges = {n.name for s in stages for n in s.roots if isinstance(n, Exchange)}
        self._stage_of = {n.name: s.number for s in self._source_stages for n in s.inputs}
        self._reached = {n.name: self._exchanges_behind(n) for n in self.sources}
        self._writers = {name: OwnedSink(name) for name in self.sinks}
        self._owned: list[Owned] = [*self._stages_behind.values(), *self._writers.values()]
        self._delivery = Delivery(self.sinks)
        self._channels: list[Channel] = []
        self._orders: dict[tuple[str, str], ChannelOrder] = {}
        self._lock = threading.Condition()
        self._claimed = 0  # splits claimed and not yet handed on
        self._unfinished = 0  # channels whose end was not handed on
        self._busy = 0  # workers at work
        self._stopping = self._done = False
        self._error: BaseException | None = None
        # one slot stands for the others
        some = [*self._slots[0].values(), *(o.stage for o in self._stages_behind.values())]
        self._sampling = sampling_of(unit for stage in some for unit in stage.units)
        self.sample = self._sampling.start

    def _exchanges_behind(self, source: Source) -> list[str]:
        """The exchanges that rows of a source reach in its stage."""
        roots = [r for s in self._source_stages for r in s.roots if isinstance(r, Exchange)]
        return [root.name for root in roots if source in walk([root])]

    def _stage(self, plan: StagePlan) -> Stage:
        return Stage(plan, capacity=self._capacity, compiled=self._compiled)

    # ---- the run -----------------------------------------------------------------------------

    def run(self, turn: Callable[[], bool]) -> bool:
        """Run until the sources end or `turn`, called again and again, says stop.

        Gives whether the sources ended. Errors of workers are raised here.
        """
        threads = [
            threading.Thread(target=self._work, args=(k,), name=f"headrace-{k}", daemon=True)
            for k in range(self.workers)
        ]
        try:
            self._open()
            for thread in threads:
                thread.start()
            self._watch(turn)
        except BaseException as error:
            self._fail(error)
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        try:
            if self._error is not None:
                raise self._error
            self._delivery.commit()
            return self._unfinished == 0
        except BaseException:
            self._delivery.abort()
            raise
        finally:
            self._close()

    def _watch(self, turn: Callable[[], bool]) -> None:
        while True:
            with self._lock:
                if self._done or self._error is not None:
                    return
                self._lock.wait(TURN_SECONDS)
            self._delivery.commit_if_due()
            if turn():
                with self._lock:
                    self._stopping = True
                    self._lock.notify_all()

    def _open(self) -> None:
        self._delivery.open()
        for node in self.sources:
            scan = None
            if node.clock is not None:
                scan = TimeScan(node, self._capacity, self._compiled)
            names = [name for name in node.schema.names if name != WATERMARK]
            channels = list(node.connector.channels())
            for name in channels:
                reader = node.connector.open(name, None, None, names, node.predicate)
                self._channels.append(Channel(node, name, reader, scan))
                self._orders[node.name, name] = ChannelOrder()
        self._unfinished = len(self._channels)
        for port, owner in self._receivers.items():
            feeding = [c for c in self._channels if port in self._reached[c.source.name]]
            senders = [_sender(c.source.name, c.name) for c in feeding]
            owner.stage.declare(port, *(senders or [OWNER]))
        self._done = not self._channels

    def _close(self) -> None:
        self._sampling.close()
        for channel in self._channels:
            channel.close()
        for node in self.sources:
            node.connector.close()
        self._delivery.close()
        for stage in self._stages():
            stage.close()

    def _stages(self) -> list[Stage]:
        slots = [stage for slot in self._slots for stage in slot.values()]
        return slots + [owner.stage for owner in self._stages_behind.values()]

    def latency(self) -> dict[str, Any]:
        """It is not measured here."""
        return {}

    def metrics(self) -> dict[str, dict[str, Any]]:
        """The metrics of all stages; those of slots are added up."""
        found: dict[str, dict[str, Any]] = {}
        for stage in self._stages():
            for name, measured in stage.metrics().items():
                if name in found:
                    _add(found[name], measured)
                else:
                    found[name] = dict(measured)
        return self._sampling.add_to(found)

    # ---- workers -----------------------------------------------------------------------------

    def _work(self, number: int) -> None:
        """Messages first, so that what was begun is finished; then a split."""
        try:
            while True:
                task = self._next_task(number)
                if task is None:
                    return
                task()
                with self._lock:
                    self._busy -= 1
                    self._lock.notify_all()
        except BaseException as error:
            self._fail(error)

    def _next_task(self, number: int) -> Callable[[], None] | None:
        while True:
            with self._lock:
                self._finish_if_idle()
                if self._done or self._error is not None:
                    return None
                for owner in self._owned:
                    if owner.messages and not owner.claimed:
                        owner.claimed = True
                        self._busy += 1
                        return partial(self._run_owned, owner)
                waiting = sum(len(owner.messages) for owner in self._owned)
                may_claim = not self._stopping and waiting < MOST_WAITING
                may_claim = may_claim and self._claimed < AHEAD * self.workers
                if may_claim:
                    self._claimed += 1
                    self._busy += 1
            if may_claim:
                split = self._claim_split(number)
                if split is not None:
                    return partial(self._run_split, number, split)
            with self._lock:
                if may_claim:
                    self._claimed -= 1
                    self._busy -= 1
                self._lock.wait(TURN_SECONDS if not may_claim else TURN_SECONDS / 10)

    def _claim_split(self, number: int) -> Split | None:
        """A split of some channel; each worker begins to look at another one."""
        count = len(self._channels)
        for k in range(count):
            split = self._channels[(number + k) % count].claim()
            if split is not None:
                return split
        return None

    def _run_split(self, number: int, split: Split) -> None:
        """Run the source's stage on a split, in the slot of the worker."""
        name = split.source.name
        stage = self._slots[number][self._stage_of[name]]
        source = stage.inputs[name]
        if source.clock is not None:
            source.clock.restored({split.channel: split.largest})
        if split.rows is not None:
            stage.push(name, split.rows, split.channel)
        stage.flush()
        results = self._pull(stage)
        watermark = source.channel(split.channel).watermark
        with self._lock:
            order = self._orders[name, split.channel]
            order.waiting[split.serial] = split, results, watermark
            self._hand_on(order)
            self._claimed -= 1

    def _hand_on(self, order: ChannelOrder) -> None:
        """Pass on the results of the splits whose turn has come; under the lock."""
        while order.next in order.waiting:
            split, results, watermark = order.waiting.pop(order.next)
            order.next += 1
            sender = _sender(split.source.name, split.channel)
            self._send(results, sender)
            for port in self._reached[split.source.name]:
                owner = self._receivers[port]
                owner.messages.append(_mark(port, watermark, sender, split.ended))
            self._unfinished -= split.ended

    def _pull(self, stage: Stage) -> Results:
        """What a stage gives: blocks for other stages, Arrow rows for sinks."""
        return [
            (name, block if name in self._exchanges else to_arrow(block))
            for name, block in stage.pull()
        ]

    def _send(self, results: Results, sender: str) -> None:
        for name, rows in results:
            if isinstance(rows, Block):
                self._receivers[name].messages.append(_rows(name, rows, sender))
            else:
                self._writers[name].messages.append(rows)

    def _run_owned(self, owner: Owned) -> None:
        with self._lock:
            messages, owner.messages = owner.messages, deque()
        if isinstance(owner, OwnedStage):
            self._run_stage(owner.stage, messages)
        elif isinstance(owner, OwnedSink):
            for rows in messages:
                self._delivery.write(owner.name, rows)
        with self._lock:
            owner.claimed = False

    def _run_stage(self, stage: Stage, messages: deque[Callable[[Stage], None]]) -> None:
        for message in messages:
            message(stage)
        results = self._pull(stage)
        with self._lock:
            self._send(results, OWNER)
            for name, output in stage.outputs.items():
                if name in self._exchanges:
                    mark = _mark(name, output.watermark, OWNER, ended=False)
                    self._receivers[name].messages.append(mark)

    def _finish_if_idle(self) -> None:
        """Nothing is at work and nothing can come: the run is over. Under the lock."""
        waiting = any(owner.messages for owner in self._owned)
        over = self._stopping or self._unfinished == 0
        if over and not waiting and self._busy == 0:
            self._done = True
            self._lock.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self._error is None:
                self._error = error
            self._lock.notify_all()


def _sender(source: str, channel: str) -> str:
    return f"{source}/{channel}"


def _rows(port: str, block: Block, sender: str) -> Callable[[Stage], None]:
    return lambda stage: stage.push(port, block, sender)


def _mark(port: str, watermark: int, sender: str, ended: bool) -> Callable[[Stage], None]:
    def tell(stage: Stage) -> None:
        stage.advance(port, watermark, sender)
        if ended:
            stage.end(port, sender)

    return tell


def _add(known: dict[str, Any], measured: dict[str, Any]) -> None:
    for what, value in measured.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            known[what] += value
