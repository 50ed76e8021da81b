"""What the measurements of the node engine share: sizes, tables of rows, runs in turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from headrace.bench import chain, first_result, report
from headrace.bench.figure import Found
from headrace.bench.harness import Run
from headrace.bench.peers import PolarsYsb
from headrace.bench.queries import How
from headrace.bench.ysb import ROWS, Load, YsbBench
from headrace.workloads import keyed, readme, ysb

ENGINE = "node"
MOST_KEYS = 1_000_000


@dataclass(frozen=True)
class Settings:
    """What the user may choose: `seconds` is the measure of all times, `rows` of all tables."""

    seconds: float = 5.0
    rows: int = ROWS
    rounds: int = 3  # of sides that are compared with each other, in turns
    best_of: int = 5  # of figures where the best run counts
    runs: int = 20
    queries: int = 100
    chain_rows: int = chain.ROWS  # of the longest chain
    chain_lengths: tuple[int, ...] = chain.LENGTHS
    start_rows: int = first_result.ROWS
    starts: int = 5
    sleep_seconds: float = 5.0  # of a source that sleeps
    graph_operators: int = 1_000  # of graphs of many
    grown_keys: int = 10_000_000  # of a state that grows

    @classmethod
    def lasting(cls, seconds: float) -> Settings:
        """Settings in which chains, too, take a time in proportion to `seconds`."""
        return cls(seconds, chain_rows=max(1, round(chain.ROWS * seconds / cls.seconds)))

    @classmethod
    def quick(cls) -> Settings:
        """The smallest that measure anything: they show that all figures work, not how fast."""
        small = cls(seconds=0.2, rows=20_000, rounds=1, best_of=2, runs=2, queries=3)
        chains = replace(small, chain_rows=20_000, chain_lengths=(1, 2))
        return replace(
            chains, starts=1, sleep_seconds=0.2, grown_keys=2_000_000, graph_operators=20
        )


@dataclass
class Bench(report.Bench):
    """What the measurements share; tables are made when they are first needed."""

    settings: Settings = Settings()

    @cached_property
    def ysb(self) -> YsbBench:
        """The Yahoo benchmark, with numbers as ids."""
        return YsbBench(self.settings.rows, self.say)

    @cached_property
    def strings(self) -> YsbBench:
        """The Yahoo benchmark, with UUIDs as ids."""
        return YsbBench(max(1, self.settings.rows // 2), self.say, uuids=ysb.UUIDS)

    @cached_property
    def keyed(self) -> keyed.Keyed:
        """Rows of many keys, each of them some times."""
        rows = 2 * self.settings.rows
        return keyed.make(rows, keys=min(MOST_KEYS, max(1, rows // 8)))

    @cached_property
    def readme(self) -> readme.Events:
        """Rows for the pipeline of the README."""
        return readme.make(self.settings.rows)


Measure = Callable[[Bench], dict[str, Found]]


def workers(count: int) -> str:
    """What a side with so many workers is called.

    >>> workers(1), workers(2)
    ('1 worker', '2 workers')
    """
    return "1 worker" if count == 1 else f"{count} workers"


def ysb_side(table: YsbBench, how: How, seconds: float, *, queries: int = 1) -> Callable[[], Run]:
    """Runs of the Yahoo benchmark, each for so long."""

    def run() -> Run:
        found = table.run(how, Load(queries=queries, seconds=seconds))
        cores = found["cores_used"]
        return Run(found["events"], found["seconds"], found["correct"], cores, seen=found)

    return run


def polars_side(table: YsbBench, seconds: float) -> Callable[[], Run]:
    """Polars over the same table, again and again for so long."""
    peer = PolarsYsb(table.data)
    return lambda: peer.measure(seconds)
