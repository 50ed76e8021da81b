"""`headrace bench surface`: what users write and connect, on two workers, as ratios to others.

Expressions and files are compared with Polars on two threads, PostgreSQL with a plain COPY of the
same rows. A run goes from `hr.run` to its end, start of the engine and commit included.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

import headrace as hr
from headrace import col
from headrace.stream import Stream
from headrace.workloads.compare import same_rows

from . import report
from .figure import Figure, Found, Skipped, by_name
from .harness import Run, in_turns, timed
from .peers import import_polars

WORKERS = 2
MILLION = 1_000_000


@dataclass(frozen=True)
class Settings:
    """What the user may choose."""

    rows: int = 4 * MILLION
    repeat: int = 3


@dataclass
class Bench(report.Bench):
    """What the measurements share."""

    settings: Settings = field(default_factory=Settings)

    def found(
        self,
        name: str,
        ours: Callable[[], Any],
        theirs: Callable[[], Any],
        check: Callable[[Any], bool],
    ) -> Found:
        """Our rate to that of the other side."""
        rows = self.settings.rows

        def side(program: Callable[[], Any]) -> Callable[[], Run]:
            return lambda: timed(program, check, rows)

        sides = {"headrace": side(ours), name: side(theirs)}
        turns = in_turns(sides, self.settings.repeat, say=self.say)
        duel = turns.duel("headrace", name)
        cores = {
            key: round(statistics.median(run.cores for run in runs), 2)
            for key, runs in (("cores_used", duel.ours), (f"{name}_cores_used", duel.theirs))
        }
        details = {"rows": rows, "repeat": self.settings.repeat, "workers": WORKERS, **cores}
        return Found(duel.ratio, turns.correct, {**duel.said(), **details})


def _run(output: Any) -> None:
    hr.run(output, engine="node", workers=WORKERS)


def _texts(rows: int) -> pa.Table:
    """Lines like those of a log: a time, a path, a number that is sometimes none."""
    numbers = np.arange(rows)
    times = pa.array(1_700_000_000_000_000 + numbers * 1_000_003, pa.timestamp("us"))
    seconds = pc.strftime(times, format="%Y-%m-%dT%H:%M:%S")
    path = [f"/Shop/Item/{n}?Ref=Ad{n % 7}" for n in range(1000)]
    paid = [f"{n / 4}" if n % 50 else "none" for n in range(1000)]
    place: Any = numbers % 1000
    parts: Any = [seconds, pa.array(path).take(place), pa.array(paid).take(place)]
    return pa.table({"line": pc.binary_join_element_wise(*parts, ";"), "at": seconds})


def _expressions(
    name: str, ours: Callable[[Stream], Stream], theirs: Callable[[Any, Any], Any]
) -> Callable[[Bench], dict[str, Found]]:
    """A figure of expressions over rows in memory; results are compared with Polars' own."""

    def measure(bench: Bench) -> dict[str, Found]:
        polars = import_polars()
        bench.say("making rows")
        rows = _texts(bench.settings.rows)
        frame = polars.from_arrow(rows)
        expected = theirs(polars, frame).to_arrow()

        def run() -> pa.Table:
            output = ours(hr.read.memory(rows)).write.collect()
            _run(output)
            return output.result()

        def check(result: Any) -> bool:
            return same_rows(result if isinstance(result, pa.Table) else result.to_arrow(), known)

        known = expected.cast(ours(hr.read.memory(rows)).schema.to_arrow())
        return {name: bench.found("Polars", run, lambda: theirs(polars, frame), check)}

    return measure


def _strings(rows: Stream) -> Stream:
    parts = rows.select(
        path=col("line").str.to_lowercase().str.split_part(";", 1),
        paid=col("line").str.split_part(";", 2).cast(float, strict=False),
    )
    return parts.filter(col("path").str.ends_with("ad3") & (col("paid") > 100.0))


def _polars_strings(polars: Any, frame: Any) -> Any:
    c = polars.col
    part = c("line").str.split_exact(";", 2).struct
    return (
        frame.lazy()
        .select(
            path=c("line").str.to_lowercase().str.split_exact(";", 2).struct.field("field_1"),
            paid=part.field("field_2").cast(polars.Float64, strict=False),
        )
        .filter(c("path").str.ends_with("ad3") & (c("paid") > 100.0))
        .collect()
    )


def _dates(rows: Stream) -> Stream:
    at = col("at").cast("timestamp")
    made = rows.select(at=at, day=at.dt.truncate("1d"), hour=at.dt.hour(), month=at.dt.month())
    return made.filter((col("hour") == 7) & (col("month") > 1))


def _polars_dates(polars: Any, frame: Any) -> Any:
    c = polars.col
    at = c("at").str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us", time_zone="UTC")
    hour, month = at.dt.hour().cast(polars.Int64), at.dt.month().cast(polars.Int64)
    return (
        frame.lazy()
        .select(at=at, day=at.dt.truncate("1d"), hour=hour, month=month)
        .filter((c("hour") == 7) & (c("month") > 1))
        .collect()
    )


PATTERN = r"/Item/(\d+)\?Ref=Ad([3-5])"


def _regex(rows: Stream) -> Stream:
    return rows.select(item=col("line").str.extract(PATTERN)).filter(col("item").is_not_null())


def _polars_regex(polars: Any, frame: Any) -> Any:
    found = polars.col("line").str.extract(PATTERN, 1).alias("item")
    return frame.lazy().select(found).filter(polars.col("item").is_not_null()).collect()


# ---- files -----------------------------------------------------------------------------------


def _numbers(rows: int) -> pa.Table:
    random = np.random.default_rng(7)
    users = pa.array([f"user {n}" for n in range(5000)])
    columns: dict[str, Any] = {
        "id": np.arange(rows),
        "user": users.take(random.integers(0, 5000, rows)),
        "price": np.round(random.random(rows) * 1000, 2),
        "kind": random.integers(0, 10, rows),
    }
    return pa.table(columns)


def _files(kind: str) -> Callable[[Bench], dict[str, Found]]:
    """A figure of files of a kind: read, filtered, written."""

    def measure(bench: Bench) -> dict[str, Found]:
        polars = import_polars()
        bench.say("making rows")
        rows = _numbers(bench.settings.rows)
        expected = rows.filter(pc.less(rows["kind"], pa.scalar(3)))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            source, ours, theirs = folder / f"in.{kind}", folder / "ours", folder / f"out.{kind}"
            (pcsv.write_csv if kind == "csv" else pq.write_table)(rows, source)
            schema = rows.schema

            def run() -> Path:
                shutil.rmtree(ours, ignore_errors=True)
                read = getattr(hr.read, kind)(source, schema=schema)
                _run(getattr(read.filter(col("kind") < 3).write, kind)(ours))
                return ours

            def run_polars() -> Path:
                with suppress(FileNotFoundError):
                    theirs.unlink()
                kept = getattr(polars, f"scan_{kind}")(source).filter(polars.col("kind") < 3)
                getattr(kept, f"sink_{kind}")(theirs)
                return theirs

            def check(path: Path) -> bool:
                found = getattr(hr.read, kind)(path, schema=schema).node.connector.table()
                return same_rows(found, expected)

            return {kind: bench.found("Polars", run, run_polars, check)}

    return measure


def _postgres(bench: Bench) -> dict[str, Found]:
    try:
        import adbc_driver_postgresql.dbapi as driver
        import pgserver
    except ImportError as error:
        raise Skipped(f"{error.name} is not installed") from None
    rows = _numbers(bench.settings.rows)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # where we are root, the server is somebody else
        server = pgserver.get_server(folder / "server", cleanup_mode="stop")
        url = server.get_uri()

        def execute(text: str) -> Any:
            with driver.connect(url) as connection, connection.cursor() as cursor:
                cursor.execute(text)
                found = cursor.fetchall() if text.startswith("SELECT") else None
                connection.commit()
                return found

        def ours() -> str:
            output = hr.read.memory(rows).write.postgres(
                url, "ours", mode="overwrite", staging=str(folder / "staged")
            )
            _run(output)
            return "ours"

        def theirs() -> str:
            execute("DROP TABLE IF EXISTS theirs")
            with driver.connect(url) as connection, connection.cursor() as cursor:
                cursor.adbc_ingest("theirs", rows, mode="create")  # a binary COPY
                connection.commit()
            return "theirs"

        def check(table: str) -> bool:
            ((count, total),) = execute(f"SELECT count(*), sum(id) FROM {table}")
            return count == rows.num_rows and int(total) == sum(range(rows.num_rows))

        try:
            return {"postgres": bench.found("COPY", ours, theirs, check)}
        finally:
            server.cleanup()


FIGURES = by_name(
    Figure("strings", "parse, lower, split part, cast, filter, to Polars", 0.7),
    Figure("dates", "parse, truncate, parts, to Polars", 0.7),
    Figure("regex", "extract, to Polars", 0.5),
    Figure("parquet", "Parquet, filter, Parquet, to Polars' streaming engine", 0.7),
    Figure("csv", "CSV, filter, CSV, to Polars' streaming engine", 0.5),
    Figure("postgres", "rows into PostgreSQL, to a COPY of the same rows", 0.6),
)

SUITE = report.Suite(
    "headrace bench surface: two workers, against Polars on two threads",
    FIGURES,
    {
        ("strings",): _expressions("strings", _strings, _polars_strings),
        ("dates",): _expressions("dates", _dates, _polars_dates),
        ("regex",): _expressions("regex", _regex, _polars_regex),
        ("parquet",): _files("parquet"),
        ("csv",): _files("csv"),
        ("postgres",): _postgres,
    },
)


def run(
    names: Sequence[str] = (), *, settings: Settings | None = None, **shown: Any
) -> list[report.Result]:
    """Measure figures (all, without names), print them as `report.run` does, and give them."""
    return report.run(SUITE, Bench(settings or Settings()), names, **shown)
