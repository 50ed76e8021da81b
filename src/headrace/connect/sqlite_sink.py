"""Rows into a table of an SQLite database, each batch in one transaction."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.schema import Field, Schema

from .iso import is_iso, texts_of_times
from .kafka_encode import json_column
from .paths import local_path, whole_path
from .staging import DAY, published_as, safe
from .table_sink import BATCHES, TableSink, quoted, staged_batches

BUSY_SECONDS = 30.0  # to wait for others that write to the database

_TYPES = {
    "bool": "INTEGER",
    "string": "TEXT",
    "binary": "BLOB",
    "date": "TEXT",
    "timestamp": "TEXT",
    "time": "TEXT",
    "uint64": "TEXT",
}


class SqliteSink(TableSink):
    """A table of an SQLite database.

    The table is made if it is not there; one that is must have the columns, in the same types, and
    may have others that need no value. A column becomes INTEGER (integers, durations in
    microseconds, bool as 0 and 1), REAL (floats), TEXT (strings, uint64 and decimals, which SQLite
    lacks, lists and structs in JSON, times
    as `12:00:00.000000`, dates as `2024-01-31`, timestamps as `2024-01-31T12:00:00.000000Z`, so
    that texts sort as times do, years 1 to 9999) or BLOB (binary); those that are not optional are
    NOT NULL. SQLite has no NaN: it becomes NULL, so columns of floats may always be null.

    An attempt stages its rows in an Arrow file beside the database, in
    `<database>-staging/<table>/<batch>/<attempt>/`; a commit inserts them in one transaction,
    together with the name of the batch in a table `headrace_batches`.

    Guarantees: exactly-once, as long as a batch has one name for ever: a batch whose name is there
    is not inserted again, and a commit that dies leaves nothing. Jobs that write to one table need
    names of batches that differ.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> sink = SqliteSink(f"{folder.name}/out.db", "numbers")
    >>> sink.open(Schema.of({"n": int}))
    >>> message = sink.write(pa.record_batch({"n": [1, 2]}), "7", "first")
    >>> sink.commit("7", [message])
    >>> sink.commit("7", [message])
    >>> with closing(sqlite3.connect(f"{folder.name}/out.db")) as database:
    ...     database.execute("SELECT * FROM numbers").fetchall()
    [(1,), (2,)]
    >>> folder.cleanup()
    """

    kind = "sqlite"

    def __init__(
        self,
        path: str | os.PathLike[str],
        table: str,
        *,
        mode: str = "append",
        keep_staged: float = DAY,
    ) -> None:
        text = local_path(path)
        if not text or text == ":memory:":
            raise DataError(f"{text!r} is not a file; a database in memory would be lost")
        if not table or table.lower() == BATCHES:
            raise DataError(f"{table!r} cannot be the name of the table; choose another")
        self._table = table
        # each table by itself: batches of several sinks of a job have the same name
        staging = Path(f"{text}-staging", safe(table))
        super().__init__(text, staging, mode=mode, keep_staged=keep_staged)

    def __str__(self) -> str:
        return f"{super().__str__()}, table {self._table}"

    def _check_place(self) -> None:
        folder = Path(self._path).parent
        if not folder.is_dir():
            raise DataError(
                f"{self}: there is no folder {whole_path(folder)}; make it, or correct the path"
            )

    def _prepare(self, schema: Schema) -> None:
        columns = ", ".join(map(self._declared, schema))
        with self._transaction() as database:
            database.execute(
                f"CREATE TABLE IF NOT EXISTS {BATCHES} (target TEXT NOT NULL, batch TEXT NOT NULL, "
                "rows INTEGER NOT NULL, committed_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, "
                "PRIMARY KEY (target, batch)) WITHOUT ROWID"
            )
            if self._mode != "append":
                self._make_empty(database)
            database.execute(f"CREATE TABLE IF NOT EXISTS {quoted(self._table)} ({columns})")
            found = database.execute(f"PRAGMA table_info({quoted(self._table)})").fetchall()
        there = {
            name: (kind.upper(), needed and default is None)
            for _, name, kind, needed, default, _ in found
        }
        self._check_table(schema, there)

    def _type(self, field: Field) -> str:
        if field.type.is_composite:
            return "TEXT"
        return _TYPES.get(field.type.name, "REAL" if field.type.is_float else "INTEGER")

    def _is_required(self, field: Field) -> bool:
        return not field.type.nullable and not field.type.is_float  # it has no NaN

    def _make_empty(self, database: sqlite3.Connection) -> None:
        """Remove the table of others, or refuse it; nothing if that was done before."""
        mine = f"SELECT batch FROM {BATCHES} WHERE target = ?"
        if any(self._is_of_job(name) for (name,) in database.execute(mine, (self._table,))):
            return
        there = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND lower(name) = lower(?)"
        if self._mode == "error":
            row = f"SELECT 1 FROM {quoted(self._table)} LIMIT 1"
            is_there = database.execute(there, (self._table,)).fetchone()
            if is_there and database.execute(row).fetchone():
                raise self._is_there("a row")
            return
        database.execute(f"DROP TABLE IF EXISTS {quoted(self._table)}")
        database.execute(f"DELETE FROM {BATCHES} WHERE target = ?", (self._table,))

    def _published_end(self, batch: str) -> str | None:
        with self._transaction() as database:
            return self._end_in(database, batch)

    def _end_in(self, database: sqlite3.Connection, batch: str) -> str | None:
        first, behind = f"{safe(batch)}@", f"{safe(batch)}A"  # "A" follows "@"
        query = (
            f"SELECT batch FROM {BATCHES} WHERE target = ? AND (batch = ? OR "
            "(batch >= ? AND batch < ?))"
        )
        given = (self._table, batch, first, behind)
        found = database.execute(query, given).fetchone()
        if found is None:
            return None
        return "" if found[0] == batch else str(found[0]).removeprefix(first)

    def _publish(self, batch: str, staged: Mapping[str, int], end: str) -> None:
        paths = [self._whole(batch, attempt, rows) for attempt, rows in staged.items()]
        assert self._schema is not None
        names = ", ".join(map(quoted, self._schema.names))
        marks = ", ".join("?" * len(self._schema))
        insert = f"INSERT INTO {quoted(self._table)} ({names}) VALUES ({marks})"
        with self._transaction() as database:
            if self._end_in(database, batch) is not None:
                return  # another process was faster
            for path in paths:
                for rows in staged_batches(path):
                    database.executemany(insert, _rows(rows, self._schema))
            database.execute(
                f"INSERT INTO {BATCHES} (target, batch, rows) VALUES (?, ?, ?)",
                (self._table, published_as(batch, end) if end else batch, sum(staged.values())),
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing; what SQLite says is a DataError."""
        try:
            connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)
            with closing(connection) as database:
                database.execute("BEGIN IMMEDIATE")
                yield database
                database.execute("COMMIT")  # closing without it takes all back
        except sqlite3.Error as error:
            raise DataError(f"{self}: {error}") from None


def _rows(batch: pa.RecordBatch, schema: Schema) -> Iterator[tuple[Any, ...]]:
    """The rows as values that SQLite has."""
    columns = []
    for field in schema:
        column = batch[field.name]
        if is_iso(field.type):
            column = texts_of_times(field, column)
        elif field.type.is_nested:
            column = json_column(field, column)
        elif field.type.name == "duration":
            column = column.cast(pa.int64())
        elif field.type.name == "uint64" or field.type.is_decimal:
            column = column.cast(pa.string())
        columns.append(column)
    return zip(*(column.to_pylist() for column in columns))
