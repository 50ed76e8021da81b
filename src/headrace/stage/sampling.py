"""Operators inside a fused kernel, measured by sampling.

A kernel's machine code does not tell where one operator ends and the next begins, and counters in
its loop would slow down every row. So now and then some rows of its input are kept aside, and a
thread of its own runs the operators over them one by one (`OperatorSampler`), each as a kernel by
itself, as with fuse="none". What that takes says how the time of the fused kernel, which is known,
is shared out; how many rows each operator let through says how many it had.

So of the operators inside a kernel:

- `rows_in` of the first and `rows_out` of the last are exact; those in between are scaled from the
  samples;
- `seconds` are shares of the kernel's: they add up to it. An operator is charged for handing on
  its rows, which costs nothing inside a kernel, so cheap operators look a little dearer;
- a window or a function with state has a small state in the sample. What it takes is at least
  what is left of the time that the kernel itself took for the sample (the median over the last
  ones) when the others have got theirs, so that a large state counts. Where that time is not
  known (it is on the node engine), a large state looks cheaper than it is.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa

from headrace.plan.nodes import Node, Stateful

from .blocks.arrow import Feed, to_arrow
from .blocks.block import Block, BlockRecord
from .blocks.layout import Layout
from .generate.context import Chain
from .kernel import Kernel, Tables
from .task import CONSUMED, MAIN

SAMPLE_ROWS = 8192  # of a sample, at most
PASSES = 3  # over a sample; the first one warms up, and the shortest of the others counts
MOST_BLOCKS = 64  # that the rows of a sample may become; if they are more, samples get smaller
MOST_KEYS = 1 << 16  # of the state of an operator in samples; then it begins anew
LAST_COSTS = 63  # samples whose median cost is that of the kernel: it may have been interrupted
BEGIN = 2.0  # seconds before the first one is asked for: a short run is left in peace
PERIOD = 0.1  # seconds between two samples of a kernel
JOIN_SECONDS = 20.0  # a kernel that is being compiled takes far less
SECOND = 1_000_000_000


class Sample(NamedTuple):
    """Rows of a kernel's input."""

    rows: pa.RecordBatch
    on_time: bool  # no row can be late: the test for it was left out
    cost: float  # what the kernel took for a row, in ns; 0: not known

    @classmethod
    def of(cls, block: Block, first: int = 0, last: int | None = None, cost: float = 0.0) -> Sample:
        """A copy of the first rows of a block, or of a part of it.

        >>> from headrace.plan.schema import Schema
        >>> block = Block.allocate(Layout.of(Schema.of({"n": int})), capacity=4)
        >>> block.values(0)[:], block.rows = [1, 2, 3, 4], 4
        >>> Sample.of(block, 1, 3).rows.to_pydict()
        {'n': [2, 3]}
        """
        last = min(block.rows if last is None else last, first + SAMPLE_ROWS)
        on_time = BlockRecord(block.address).without_watermark >= last
        return cls(to_arrow(block, None, first, last), on_time, cost)


class _TooManyRows(Exception):
    """The rows of a sample became more than is worth while to measure."""


class _Alone:
    """One operator as a kernel of its own, and what the samples have said of it."""

    def __init__(self, node: Node, compiled: bool, tables: Tables, clock: Callable[[], int]):
        self._chain, self._clock = Chain((node,), node.inputs[0].schema), clock
        self._compiled, self._tables = compiled, tables
        self._begin()
        self._nothing = Block.allocate(Layout.of(self._chain.input), 1, borrows=True)
        self.rows_in = self.rows_out = self.ns = 0

    def _begin(self) -> None:
        self._kernel = Kernel(self._chain, SAMPLE_ROWS, self._compiled, self._tables)

    def measure(self, blocks: Sequence[Block]) -> tuple[list[Block], int]:
        """What becomes of some blocks, and how long it takes at best."""
        given: list[Block] = []
        spent = []
        for _ in range(PASSES):
            for block in given:
                self._kernel.recycle(block)
            given, ns = self._run(blocks)
            spent.append(ns)
        calls = min(self._run([self._nothing] * len(blocks))[1] for _ in range(PASSES))
        if self._kernel.state_size()["state_keys"] > MOST_KEYS:
            self._begin()
        elif self._kernel.windows is not None:
            self._kernel.windows.close(list(self._kernel.windows.stores))
        return given, max(min(spent[1:]) - calls, 0)

    def _run(self, blocks: Sequence[Block]) -> tuple[list[Block], int]:
        kernel, clock, given, spent = self._kernel, self._clock, [], 0
        for block in blocks:
            kernel.start(block)
            answer = None
            while answer != CONSUMED:
                begun = clock()
                answer = kernel.run()
                spent += clock() - begun
                if kernel.outputs[MAIN].rows:
                    given.append(kernel.take())
                if len(given) > MOST_BLOCKS:
                    self._begin()  # without the row that it is in
                    raise _TooManyRows
        return given, spent


class OperatorSampler:
    """Measures the operators of a chain on samples of its input.

    The kernels are made when the first sample is measured; `stop` leaves off between two of them.
    `clock` gives nanoseconds.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        compiled: bool = True,
        tables: Tables | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
        stop: threading.Event | None = None,
    ) -> None:
        self._stop = stop or threading.Event()
        self._nodes, self._compiled, self._clock = tuple(nodes), compiled, clock
        self._tables: Tables = {} if tables is None else tables
        self._alone: list[_Alone] = []
        self._most = SAMPLE_ROWS
        self._costs: deque[float] = deque(maxlen=LAST_COSTS)
        self.samples = 0
        self._lock = threading.Lock()

    def measure(self, sample: Sample) -> None:
        """Run the operators over a sample, one by one."""
        try:
            self._measure(sample)
        except _TooManyRows:
            self._most = max(self._most // MOST_BLOCKS, 1)

    def _measure(self, sample: Sample) -> None:
        for node in self._nodes[len(self._alone) :]:
            if self._stop.is_set():
                return
            self._alone.append(_Alone(node, self._compiled, self._tables, self._clock))
        layout = Layout.of(self._nodes[0].inputs[0].schema)
        block = Block.allocate(layout, SAMPLE_ROWS, borrows=True)
        Feed(layout, sample.rows).fill(block, 0, min(sample.rows.num_rows, self._most))
        if sample.on_time:
            BlockRecord(block.address).without_watermark = block.capacity
        blocks, found = [block], []
        for operator in self._alone:
            rows = sum(each.rows for each in blocks)
            blocks, ns = operator.measure(blocks)
            found.append((rows, sum(each.rows for each in blocks), ns))
        with self._lock:  # all or nothing
            self.samples += 1
            if sample.cost:
                self._costs.append(sample.cost)
            for operator, (rows_in, rows_out, ns) in zip(self._alone, found, strict=True):
                operator.rows_in += rows_in
                operator.rows_out += rows_out
                operator.ns += ns

    def inside(self, unit: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """The figures of a kernel, shared out among its operators; {} before there are samples."""
        with self._lock:
            seen = [(each.rows_in, each.ns) for each in self._alone]
            whole = sorted(self._costs)[len(self._costs) // 2] if self._costs else 0.0
        if not self.samples or not seen[0][0]:
            return {}
        sampled, busy = seen[0][0], round(unit["seconds"] * SECOND)
        costs = [ns / sampled for _, ns in seen]  # of a row that comes into the chain
        _leave_the_rest_to_state(self._nodes, costs, whole)
        rows = [round(unit["rows_in"] * rows / sampled) for rows, _ in seen]
        times = shared_out(busy, costs)
        made = operators_of(self._nodes, unit, [*rows, unit["rows_out"]], times)
        return {name: {**each, "sampled_rows": sampled} for name, each in made.items()}


def _leave_the_rest_to_state(nodes: Sequence[Node], costs: list[float], whole: float) -> None:
    """See the top of this file."""
    for k, node in enumerate(nodes):
        if isinstance(node, Stateful):
            costs[k] = max(costs[k], whole - (sum(costs) - costs[k]))


def shared_out(whole: int, weights: Sequence[float]) -> list[int]:
    """A whole number in parts that add up to it.

    >>> shared_out(10, [1, 1, 1]), shared_out(7, [0.0, 0.0])
    ([3, 4, 3], [4, 3])
    """
    total = sum(weights)
    if total <= 0:
        weights, total = [1.0] * len(weights), float(len(weights))
    ends, reached = [0], 0.0
    for weight in weights:
        reached += weight
        ends.append(round(whole * reached / total))
    ends[-1] = whole
    return [end - begin for begin, end in pairwise(ends)]


def operators_of(
    nodes: Sequence[Node], unit: Mapping[str, Any], rows: Sequence[int], times: Sequence[int]
) -> dict[str, dict[str, Any]]:
    """For each operator, by the name that `explain()` shows: its figures, and the user's line.

    What waits for a kernel waits for its first operator; a kernel is starved or blocked as a whole.
    """
    made: dict[str, dict[str, Any]] = {}
    for k, node in enumerate(nodes):
        rows_in, rows_out = rows[k], rows[k + 1]
        made[node.name] = each = {
            "line": f"{node.site.file}:{node.site.line}" if node.site else "",
            "rows_in": rows_in,
            "rows_out": rows_out,
            "seconds": times[k] / SECOND,
            "ns_per_row": times[k] / rows_in if rows_in else 0.0,
            "selectivity": rows_out / rows_in if rows_in else 0.0,
        }
        if "pending" in unit:
            each["pending"] = unit["pending"] if k == 0 else 0
        each |= {kind: unit[kind] for kind in ("starved", "blocked") if kind in unit}
    return made


def alone(node: Node, unit: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The figures of a kernel of one operator: exact, without samples."""
    rows = [unit["rows_in"], unit["rows_out"]]
    return operators_of([node], unit, rows, [round(unit["seconds"] * SECOND)])


Samples = Iterable[tuple[str, Sample]]  # each with the name of its kernel


class Sampling:
    """Tells what the operators of some kernels have done; a thread measures samples for it.

    `ask` asks the kernels for rows, `take` gives what they have kept aside. They keep some while
    the thread sleeps, so that it is not in the way of what is measured. It begins with `start`,
    which costs some kernels to be compiled where the cache has none of them, and ends soon after
    `stop`, at worst when the kernel that it compiles is ready; `close` waits for that.
    """

    def __init__(
        self, kernels: Mapping[str, Kernel], ask: Callable[[], None], take: Callable[[], Samples]
    ) -> None:
        self._ask, self._take = ask, take
        self._stop = threading.Event()
        self._alone = {n: k.chain.last for n, k in kernels.items() if len(k.chain.nodes) == 1}
        self._samplers = {
            name: OperatorSampler(
                kernel.chain.nodes, kernel.is_compiled, kernel.loaded_tables, stop=self._stop
            )
            for name, kernel in kernels.items()
            if name not in self._alone
        }
        self._broken: set[str] = set()  # kernels whose rows cannot be measured
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to measure, if there is something to be measured; once."""
        if self._thread is None and self._samplers and not self._stop.is_set():
            self._thread = threading.Thread(target=self._run, name="operator-samples")
            self._thread.start()

    def stop(self) -> None:
        """Measure no more. Does not wait."""
        self._stop.set()

    def close(self) -> None:
        """Measure no more, and wait until the thread has ended."""
        self.stop()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)

    @property
    def is_stopped(self) -> bool:
        """Is it over?"""
        return self._stop.is_set()

    def add_to(self, measured: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """The metrics of kernels, with those of their operators ("inside") where they are known."""
        for name, unit in measured.items():
            if name in self._alone:
                unit["inside"] = alone(self._alone[name], unit)
            elif name in self._samplers:
                unit["inside"] = self._samplers[name].inside(unit)
        return measured

    def _run(self) -> None:
        if self._stop.wait(BEGIN):
            return
        self._ask()
        while not self._stop.wait(PERIOD):
            for name, sample in self._take():
                if not self._stop.is_set() and name not in self._broken:
                    self._measure(name, sample)
            self._ask()

    def _measure(self, name: str, sample: Sample) -> None:
        try:
            self._samplers[name].measure(sample)
        except Exception:  # a row fails here as it does in the kernel itself, which says so
            self._broken.add(name)
