"""The units of a stage: what takes blocks and gives blocks. A stage wires them together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.nodes import MapBatches, Node

from .blocks.arrow import Feed, to_arrow
from .blocks.block import Block
from .blocks.layout import Layout
from .blocks.validation import validated
from .clock import NEVER
from .failure import explain_call, explain_failure
from .generate.context import Chain
from .kernel import Kernel, Tables
from .sampling import Sample, Samples, Sampling
from .task import CONSUMED, MAIN, SIDE


@dataclass
class Counters:
    """What a unit has done so far."""

    rows_in: int = 0
    rows_out: int = 0
    late_rows: int = 0
    failed_rows: int = 0  # left out
    blocks: int = 0
    seconds: float = 0.0
    python_calls: int = 0  # of map_batches, under the GIL


class Unit:
    """Takes blocks of rows and watermarks, in order.

    `readers` are the units behind each output; `watermarks` holds the last one of each input edge,
    and the unit's own watermark is their minimum.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.readers: dict[int, list[tuple[Unit, int]]] = {MAIN: [], SIDE: []}
        self.watermarks: list[int] = []
        self.watermark = NEVER
        self.counters = Counters()

    @property
    def has_output(self) -> bool:
        """Is there something to be taken?"""
        return False

    def add_input(self) -> int:
        """A new input edge; gives its number."""
        self.watermarks.append(NEVER)
        return len(self.watermarks) - 1

    def start(self, block: Block) -> None:
        """Begin with a block."""
        raise NotImplementedError

    def run(self) -> bool:
        """Work until the block is consumed (True) or outputs must be taken (False)."""
        raise NotImplementedError

    def outputs(self) -> Iterator[tuple[int, Block]]:
        """Take what lies in the outputs."""
        return iter(())

    def begin_advance(self, watermark: int) -> bool:
        """A watermark has come; is there something to be given out for it?"""
        return False

    def run_advance(self) -> bool:
        """Give it out; as `run`."""
        return True

    def begin_flush(self) -> bool:
        """Is there a partial result to be given out now? Then `run_advance` does it."""
        return False

    def recycle(self, block: Block) -> None:
        """A block of this unit's that nobody reads any more."""

    def metrics(self) -> dict[str, Any]:
        """What the unit has done so far."""
        return asdict(self.counters)


class KernelUnit(Unit):
    """Runs a chain of operators."""

    def __init__(
        self,
        chain: Chain,
        capacity: int,
        compiled: bool,
        tables: Tables | None = None,
        account: Any = None,
    ) -> None:
        super().__init__(chain.last.name)
        self.chain = chain
        self.kernel = Kernel(chain, capacity, compiled, tables, account)
        self.sample: Sample | None = None
        self.sample_wanted = False

    def start(self, block: Block) -> None:
        """See Unit."""
        if self.sample_wanted:
            self.keep_sample(block)
        self.counters.rows_in += block.rows
        self.counters.blocks += 1
        self.kernel.start(block)

    def keep_sample(self, block: Block) -> None:
        """Keep some rows of a block aside, for another thread."""
        self.sample, self.sample_wanted = Sample.of(block), False

    def take_sample(self) -> Sample | None:
        """By another thread: the rows that were kept aside."""
        taken, self.sample = self.sample, None
        return taken

    def run(self) -> bool:
        """See Unit."""
        return self.timed(self.kernel.run) == CONSUMED

    def run_advance(self) -> bool:
        """See Unit."""
        return self.timed(self.kernel.run_fire) == CONSUMED

    def timed(self, call: Callable[[], int]) -> int:
        """A call of the kernel: it counts as time of this unit, and its errors are explained."""
        started = time.perf_counter()
        try:
            return call()
        except Exception as error:
            explain_failure(self.kernel, error)
            raise
        finally:
            self.counters.seconds += time.perf_counter() - started

    def outputs(self) -> Iterator[tuple[int, Block]]:
        """See Unit."""
        kernel = self.kernel
        self.counters.rows_out += kernel.outputs[MAIN].rows
        for k, block in list(kernel.outputs.items()):
            if block.rows:
                yield k, kernel.take(k)

    @property
    def has_output(self) -> bool:
        """Is there something to be taken?"""
        return any(block.rows > 0 for block in self.kernel.outputs.values())

    def begin_advance(self, watermark: int) -> bool:
        """See Unit."""
        windows = self.kernel.windows
        if windows is None or windows.next_end > watermark:
            return False
        return self.kernel.fire(watermark)

    def begin_flush(self) -> bool:
        """See Unit."""
        node = self.chain.windowed
        return node is not None and node.phase == "partial" and self.kernel.flush()

    def recycle(self, block: Block) -> None:
        """See Unit."""
        self.kernel.recycle(block)

    def metrics(self) -> dict[str, Any]:
        """See Unit; the operators of the chain, and the size of their state."""
        task = self.kernel.task
        self.counters.late_rows, self.counters.failed_rows = task.late, task.failed
        operators = [node.name for node in self.chain.nodes]
        return {**asdict(self.counters), "operators": operators, **self.kernel.state_size()}


class BatchesUnit(Unit):
    """Runs plain Python on Arrow batches."""

    def __init__(self, node: MapBatches, capacity: int) -> None:
        super().__init__(node.name)
        self.node, self.capacity = node, capacity
        self.layout = Layout.of(node.schema)
        self._blocks: list[Block] = []

    def start(self, block: Block) -> None:
        """See Unit."""
        self._rows = to_arrow(block)
        self.counters.rows_in += block.rows
        self.counters.blocks += 1

    def run(self) -> bool:
        """See Unit."""
        feed = Feed(self.layout, self.called(self._rows))
        for start in range(0, feed.rows, self.capacity):
            block = Block.allocate(self.layout, self.capacity, borrows=True)
            feed.fill(block, start, min(self.capacity, feed.rows - start))
            self._blocks.append(block)
            self.counters.rows_out += block.rows
        return True

    @property
    def has_output(self) -> bool:
        """See Unit."""
        return bool(self._blocks)

    def called(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """What the user's function gives for some rows."""
        started = time.perf_counter()
        self.counters.python_calls += 1
        try:
            return self._checked(self.node.function(rows))
        except Exception as error:
            explain_call(self.node, error)
            raise
        finally:
            self.counters.seconds += time.perf_counter() - started

    def _checked(self, given: Any) -> pa.RecordBatch:
        if isinstance(given, pa.Table):
            validated(given, self.node.written)
            parts = given.combine_chunks().to_batches()
            empty = pa.RecordBatch.from_pylist([], schema=given.schema)
            given = pa.concat_batches(parts) if parts else empty  # type: ignore[attr-defined]
        elif isinstance(given, pa.RecordBatch):
            validated(given, self.node.written)
        else:
            raise DataError(
                f"{self.node.written}: the function gave {type(given).__name__}, not a RecordBatch "
                f"or Table\n  at {self.node.site!r}\n  fix: return pa.RecordBatch.from_pydict(...)"
            )
        missing = [n for n in self.layout.schema.names if n not in given.schema.names]
        if missing:
            raise DataError(
                f"{self.node.written}: the function gave no column {missing[0]!r}\n"
                f"  at {self.node.site!r}\n"
                f"  fix: return the columns of its schema: {self.layout.schema}"
            )
        return given

    def outputs(self) -> Iterator[tuple[int, Block]]:
        """See Unit."""
        blocks, self._blocks = self._blocks, []
        return ((MAIN, block) for block in blocks)


class OutputUnit(Unit):
    """The end of a stage: blocks wait here to be pulled."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.name)
        self.node = node
        self.waiting: list[Block] = []

    def start(self, block: Block) -> None:
        """See Unit."""
        self.counters.rows_in += block.rows
        self.counters.blocks += 1
        self.waiting.append(block)

    def run(self) -> bool:
        """See Unit."""
        return True


def sampling_of(units: Iterable[Unit]) -> Sampling:
    """What measures the operators inside the kernels of some units."""
    kernels = {unit.name: unit for unit in units if isinstance(unit, KernelUnit)}

    def ask() -> None:
        for unit in kernels.values():
            unit.sample_wanted = True

    def take() -> Samples:
        taken = [(name, unit.take_sample()) for name, unit in kernels.items()]
        return [(name, sample) for name, sample in taken if sample is not None]

    return Sampling({name: unit.kernel for name, unit in kernels.items()}, ask, take)
