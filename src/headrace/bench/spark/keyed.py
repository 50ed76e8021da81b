"""State for each key, in Python: against Spark's per-key state, and against its own size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace import col
from headrace.bench.harness import needed
from headrace.workloads.compare import same_rows
from headrace.workloads.keyed import Totals, add

from .context import BATCHES, CORES, WARM_UP, Context
from .queries import Timed, against, run_ours, run_theirs, steady, stream_of

KEYS = 20_000
FILES_IN_BATCH = 2
SIZES = (200_000, 2_000_000)  # rows of a batch
ROWS = {"key": "int64", "value": "int64", "last": "bool"}
OUTPUT = "key long, count long, total long"
APPLY, TRANSFORM = "applyInPandasWithState", "transformWithState"

MANY_KEYS = 5_000_000
PRIME = 2_654_435_761  # spreads numbers over the keys; it has no factor in common with them
TOUCHED = 100  # a small batch touches one in so many
SAMPLE = 1000  # one key in so many is looked at


# ---- a function with a state for each key ----------------------------------------------------


def keyed_python(context: Context) -> dict[str, Any]:
    """Totals of each key, given out once in each batch that has rows of it."""
    needed("pandas", APPLY)
    needed("google.protobuf", TRANSFORM)
    small, large = SIZES
    found = _against_apis(context, small, [APPLY, TRANSFORM])
    # The larger batches have as many keys: the slower API stays the slower one.
    larger = _against_apis(context, large, [found["their_api"]])
    return {**found, "correct": found["correct"] and larger["correct"], "larger": larger}


def _against_apis(context: Context, size: int, apis: list[str]) -> dict[str, Any]:
    rows = context.rows(size) // FILES_IN_BATCH * FILES_IN_BATCH
    folder, expected = _files(context, rows)
    runs: dict[str, Timed] = {}
    correct = True

    def run(api: str, batches: int) -> bool:
        context.say(f"{rows:,} rows: theirs, {api}")
        runs[api] = _theirs(context, _beginning(context, folder, batches), api)
        return same_rows(runs[api].result, pa.concat_tables(expected[:batches]))

    for api in apis if len(apis) > 1 else ():  # one steady batch tells which is the faster
        correct &= run(api, WARM_UP + 1)
    best = min(runs, key=lambda api: runs[api].best) if runs else apis[0]
    correct &= run(best, BATCHES)
    context.say(f"{rows:,} rows: ours")
    keyed = hr.read.parquet(folder, schema=ROWS).key_by("key")
    summed = keyed.process(add, state=Totals, output=["count", "total"], name="totals")
    ours = run_ours(context, summed.write.collect(), rows)
    correct &= same_rows(ours.result, pa.concat_tables(expected))
    rates = {f"their_rows_per_s_{api}": round(run.rate(rows)) for api, run in runs.items()}
    return against(rows, ours, runs[best], correct, their_api=best, **rates)


def _files(context: Context, rows: int) -> tuple[Path, list[pa.Table]]:
    """Batches in which the last row of each key is marked, and what each of them gives."""
    files, expected = context.files("keyed"), []
    random = np.random.default_rng(1)
    keys = random.integers(0, 1 << 62, min(KEYS, rows))
    count, total = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    for _ in range(BATCHES):
        numbers, values = random.integers(0, len(keys), rows), random.integers(0, 1000, rows)
        last_row = np.full(len(keys), -1)
        last_row[numbers] = np.arange(rows)  # of equal indices, the last one stays
        touched = last_row >= 0
        last = np.zeros(rows, bool)
        last[last_row[touched]] = True
        made = pa.table({"key": keys[numbers], "value": values, "last": last})
        for start in range(0, rows, rows // FILES_IN_BATCH):
            files.add(made.slice(start, rows // FILES_IN_BATCH))
        np.add.at(count, numbers, 1)
        np.add.at(total, numbers, values)
        columns = {"key": keys[touched], "count": count[touched], "total": total[touched]}
        expected.append(pa.table(columns))
    return files.folder, expected


def _beginning(context: Context, folder: Path, batches: int) -> Path:
    """The files of the first batches alone."""
    made = context.new_folder("keyed")
    for path in sorted(folder.iterdir())[: batches * FILES_IN_BATCH]:
        os.link(path, made / path.name)
    return made


def _theirs(context: Context, folder: Path, api: str) -> Timed:
    store = "hdfs" if api == APPLY else "rocksdb"  # the other one does not do for it
    grouped = stream_of(context.theirs(store=store), folder, FILES_IN_BATCH).groupBy("key")
    if api == APPLY:
        state = "count long, total long"
        summed = grouped.applyInPandasWithState(_add_frames, OUTPUT, state, "append", "NoTimeout")
    else:
        summed = grouped.transformWithState(_processor(), OUTPUT, "Append", "None")
    return run_theirs(context, summed)


def _add_frames(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
    """Per key, as applyInPandasWithState wants it."""
    import pandas as pd

    count, total = state.get if state.exists else (0, 0)
    for rows in frames:
        count += len(rows)
        total += int(rows["value"].sum())
    state.update((count, total))
    yield pd.DataFrame({"key": [key[0]], "count": [count], "total": [total]})


def _processor() -> Any:
    """Per key, as transformWithState wants it: with rows, which is faster than with frames."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Adding(StatefulProcessor):
        """Count and total of a key."""

        def init(self, handle: Any) -> None:
            """See StatefulProcessor."""
            self._totals = handle.getValueState("totals", "count long, total long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            """See StatefulProcessor."""
            known = self._totals.get()
            count, total = known if known is not None else (0, 0)
            for row in rows:
                count += 1
                total += row["value"]
            self._totals.update((count, total))
            yield Row(key=key[0], count=count, total=total)

        def close(self) -> None:
            """See StatefulProcessor."""

    return Adding()


# ---- a large state ---------------------------------------------------------------------------


class Seen:
    """The state of a key: how often it came."""

    count: int = 0


def count_up(state: Seen) -> Iterator[int]:
    """Each row says how often its key has come."""
    state.count += 1
    yield state.count


def large_state(context: Context) -> dict[str, Any]:
    """Seconds of a batch that touches a random 1 % of many keys, to those of one with all keys."""
    keys = context.rows(MANY_KEYS, least=2000)
    few, checkpoint = keys // TOUCHED, context.new_folder("large")
    context.say("batches of all keys")
    whole, first = _counted(context, keys, keys, checkpoint, 0)
    context.say("batches of few keys")
    small, _ = _counted(context, keys, few, checkpoint, first)
    return {
        "ratio": small.best / whole.best,
        "ratio_median": small.median / whole.median,
        "sides": {"1 % of the keys": small.rates(few), "all keys": whole.rates(keys)},
        "correct": small.result and whole.result,
        "rows": few,
        "keys": keys,
        "batch_s": [round(s, 3) for s in small.seconds],
        "their_batch_s": [round(s, 3) for s in whole.seconds],
    }


def _counted(
    context: Context, keys: int, batch_rows: int, checkpoint: Path, first: int
) -> tuple[Timed, int]:
    """Go on from a row, for some batches; says whether a sample was right, and how far it came."""
    prime = PRIME
    rows = hr.read.generate(lambda i: (i * prime) % keys, output="key")
    counted = rows.key_by("key").process(count_up, state=Seen, output="count", name="counts")
    sample = counted.filter(col("key") % SAMPLE == 0).write.collect(name="sample")

    def watch(job: Any) -> None:
        if job.progress().batches >= BATCHES:
            job.stop()

    job: Any = hr.run(
        sample,
        counted.write.null(name="all"),
        engine="spark",
        session=context.session,
        shards=CORES,
        batch_rows=batch_rows,
        checkpoint=checkpoint,
        watch=watch,
    )
    after = first + job.progress().rows_in
    correct = same_rows(sample.result(), _expected(first, after, keys))
    return Timed(steady(job._query), correct), after


def _expected(first: int, after: int, keys: int) -> pa.Table:
    """What some rows of the sample give: a key comes again when all others have come."""
    numbers = np.arange(first, after)
    found = numbers * PRIME % keys
    chosen = found % SAMPLE == 0
    return pa.table({"key": found[chosen], "count": numbers[chosen] // keys + 1})
