"""Queries without an end, and engines for them that are interpreted."""

import time

import numpy as np

import headrace as hr
from headrace.node import engine
from headrace.options import chosen_policy

SECONDS = 120.0


def await_that(is_so):
    """Wait until something is so, on a machine that may be busy."""
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.002)


class Endless:
    """A query over numbers that come as fast as they are taken, until it is stopped; its rows are
    checked at the end."""

    def __init__(self, table_rows=1000, name="numbers", **options):
        self.batches, self.rows = [], table_rows
        numbers = hr.read.replay({"n": np.arange(table_rows)}, rate=20_000, name=name)
        kept = numbers.filter(hr.col("n") % 3 != 0, name=f"{name} kept")
        self.output = kept.with_columns(m=hr.col("n") * 2).write.callback(self.batches.append)

    def check(self, job):
        """All rows came, in order."""
        read = job.progress().rows_in
        wanted = [2 * (n % self.rows) for n in range(read) if n % self.rows % 3 != 0]
        assert [m for batch in self.batches for m in batch["m"].to_pylist()] == wanted

    def has_rows(self):
        before = len(self.batches)
        return lambda: len(self.batches) > before


def engine_of(policy=None, workers=2, scheduler=None):
    """An hr.Engine, interpreted."""
    made = hr.Engine(workers=workers)
    made._engine.close()
    chosen = chosen_policy(policy)
    made._engine = engine.NodeEngine(workers, False, policy=chosen, scheduler=scheduler)
    return made
