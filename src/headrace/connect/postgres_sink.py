"""Rows into a table of a PostgreSQL database, each batch in one transaction, by binary COPY."""

from __future__ import annotations

import getpass
import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.schema import Field, Schema
from headrace.plan.secret import Secret

from .kafka_encode import json_column
from .paths import is_url, without_credentials
from .staging import DAY
from .table_sink import BATCHES, TableSink, quoted, staged_batches

PATIENCE = 60.0  # seconds to try again for, where the server is gone
PAUSE = 0.5
ORDER = "headrace_order"  # of the rows of a batch, in the table that they are copied to first

# For each type what PostgreSQL calls it, and the Arrow type that is copied.
_TYPES: dict[str, tuple[str, pa.DataType]] = {
    "bool": ("boolean", pa.bool_()),
    "int8": ("smallint", pa.int16()),
    "int16": ("smallint", pa.int16()),
    "int32": ("integer", pa.int32()),
    "int64": ("bigint", pa.int64()),
    "uint8": ("smallint", pa.int16()),
    "uint16": ("integer", pa.int32()),
    "uint32": ("bigint", pa.int64()),
    "uint64": ("numeric", pa.string()),
    "float32": ("real", pa.float32()),
    "float64": ("double precision", pa.float64()),
    "date": ("date", pa.date32()),
    "timestamp": ("timestamp with time zone", pa.timestamp("us", "UTC")),
    "duration": ("interval", pa.duration("us")),
    "time": ("time without time zone", pa.time64("us")),
    "string": ("text", pa.string()),
    "binary": ("bytea", pa.binary()),
}


class PostgresSink(TableSink):
    """A table of a PostgreSQL database; needs `pip install 'headrace[postgres]'`.

    Decimals become numeric, lists and structs jsonb.

    The table (or `schema.table`) is made if it is not there; one that is must have the columns, in
    the same types, and may have others that need no value. With `key` a row replaces the one that
    has its key: of several in a batch the last one stays, and the columns of the key must be a
    primary key or have a unique index. A table that is made gets them as its primary key.

    An attempt stages its rows in an Arrow file in `staging`, a folder that all tasks see (by
    default in this machine's folder for temporary files); a commit copies them into the table in
    one transaction, together with the name of the batch in a table `headrace_batches`. Where the
    server is gone, a commit is tried again for a minute.

    Guarantees: exactly-once, as long as a batch has one name for ever: a batch whose name is there
    is not inserted again, and a commit that dies leaves nothing. Jobs that write to one table need
    names of batches that differ.
    """

    kind = "postgres"

    def __init__(
        self,
        url: str,
        table: str,
        *,
        key: str | Sequence[str] = (),
        mode: str = "append",
        staging: str | None = None,
        keep_staged: float = DAY,
    ) -> None:
        if not is_url(url) or not url.startswith(("postgresql://", "postgres://")):
            raise DataError("the database is a URL: postgresql://user:password@host:port/name")
        name = table.split(".") if table else []
        if not 1 <= len(name) <= 2 or not all(name) or name[-1] == BATCHES:
            raise DataError(f"{table!r} cannot be the name of the table: use table or schema.table")
        self._url, self._table, self._name = Secret(url), table, name
        self._key = (key,) if isinstance(key, str) else tuple(key)
        place = hashlib.sha256(f"{url} {table}".encode()).hexdigest()[:16]
        folder = Path(tempfile.gettempdir(), f"headrace-{getpass.getuser()}", "postgres")
        super().__init__(
            without_credentials(url),
            (folder if staging is None else Path(staging)) / place,
            mode=mode,
            keep_staged=keep_staged,
        )

    def __str__(self) -> str:
        return f"{self.kind} {self._path}, table {self._table}"

    def _prepare(self, schema: Schema) -> None:
        for name in self._key:
            if name not in schema or schema[name].nullable:
                raise DataError(
                    f"{self}: there is no column {name!r} for key= that is never null; "
                    f"there are: {', '.join(schema.names)}"
                )
        self._in_transaction(lambda database: self._make(database, schema))

    def _make(self, database: Any, schema: Schema) -> None:
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {BATCHES} (target text NOT NULL, batch text NOT NULL, "
            "ended text NOT NULL, rows bigint NOT NULL, "
            "committed_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (target, batch))"
        )
        if self._mode != "append":
            self._make_empty(database)
        columns = list(map(self._declared, schema))
        if self._key:
            columns.append(f"PRIMARY KEY ({_names(self._key)})")
        database.execute(f"CREATE TABLE IF NOT EXISTS {self._target} ({', '.join(columns)})")
        database.execute(
            "SELECT attname, format_type(atttypid, NULL), attnotnull AND NOT atthasdef AND "
            "attidentity = '' FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND "
            "NOT attisdropped",
            (self._target,),
        )
        self._check_table(schema, {name: (kind, need) for name, kind, need in database.fetchall()})
        # What is wrong with the key shows here, and not with the first rows.
        database.execute(self._insert(schema, f"(SELECT * FROM {self._target} WHERE false) AS t"))

    def _make_empty(self, database: Any) -> None:
        """Remove the table of others, or refuse it; nothing if that was done before."""
        database.execute(f"SELECT batch FROM {BATCHES} WHERE target = $1", (self._table,))
        if any(self._is_of_job(name) for (name,) in database.fetchall()):
            return
        database.execute("SELECT to_regclass($1) IS NOT NULL", (self._target,))
        if self._mode == "error" and database.fetchone()[0]:
            database.execute(f"SELECT 1 FROM {self._target} LIMIT 1")
            if database.fetchone():
                raise self._is_there("a row")
            return
        database.execute(f"DROP TABLE IF EXISTS {self._target}")
        database.execute(f"DELETE FROM {BATCHES} WHERE target = $1", (self._table,))

    def _type(self, field: Field) -> str:
        return _stored_as(field)[0]

    def _published_end(self, batch: str) -> str | None:
        def look(database: Any) -> str | None:
            query = f"SELECT ended FROM {BATCHES} WHERE target = $1 AND batch = $2"
            database.execute(query, (self._table, batch))
            found = database.fetchone()
            return None if found is None else str(found[0])

        return self._in_transaction(look)

    def _publish(self, batch: str, staged: Mapping[str, int], end: str) -> None:
        paths = [self._whole(batch, attempt, rows) for attempt, rows in staged.items()]

        def copy(database: Any) -> None:
            insert = (
                f"INSERT INTO {BATCHES} (target, batch, ended, rows) VALUES ($1, $2, $3, $4) "
                "ON CONFLICT DO NOTHING RETURNING rows"
            )
            database.execute(insert, (self._table, batch, end, sum(staged.values())))
            if database.fetchone() is not None:  # else another process was faster
                self._copy(database, paths)

        self._in_transaction(copy)

    def _copy(self, database: Any, paths: Sequence[Path]) -> None:
        assert self._schema is not None
        schema = self._schema
        rows = _copied(paths, schema, numbered=bool(self._key))
        if not self._key and all(_is_copied(field) for field in schema):
            where = {"db_schema_name": self._name[0]} if len(self._name) == 2 else {}
            database.adbc_ingest(self._name[-1], rows, mode="append", **where)
            return
        first = f"headrace_rows_{hashlib.sha256(self._table.encode()).hexdigest()[:8]}"
        database.execute(f"DROP TABLE IF EXISTS pg_temp.{first}")
        database.adbc_ingest(first, rows, mode="create", temporary=True)
        source = f"pg_temp.{first}"
        if self._key:  # the last row of each key
            source = (
                f"(SELECT DISTINCT ON ({_names(self._key)}) * FROM {source} "
                f"ORDER BY {_names(self._key)}, {ORDER} DESC)"
            )
        database.execute(self._insert(schema, f"{source} AS t"))
        database.execute(f"DROP TABLE pg_temp.{first}")

    def _insert(self, schema: Schema, source: str) -> str:
        """SQL that inserts the rows of a source, or lets them replace those that have their key."""
        values = ", ".join(f"{quoted(f.name)}::{self._type(f)}" for f in schema)
        made = f"INSERT INTO {self._target} ({_names(schema.names)}) SELECT {values} FROM {source}"
        if not self._key:
            return made
        others = [quoted(name) for name in schema.names if name not in self._key]
        change = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
        what = f"DO UPDATE SET {change}" if others else "DO NOTHING"
        return f"{made} ON CONFLICT ({_names(self._key)}) {what}"

    @property
    def _target(self) -> str:
        return ".".join(map(quoted, self._name))

    def _in_transaction(self, work: Callable[[Any], Any]) -> Any:
        """Do all of it or nothing; again where the server is gone, for some time."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                with self._connected() as connection, connection.cursor() as cursor:
                    made = work(cursor)
                    connection.commit()
                    return made
            except _Gone as error:
                if time.monotonic() > until:
                    raise DataError(f"{self}: {error}") from None
                time.sleep(PAUSE)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """A connection; what PostgreSQL says is a DataError."""
        try:
            import adbc_driver_postgresql.dbapi as driver
        except ImportError:
            raise DataError(f"{self} needs a package: pip install 'headrace[postgres]'") from None
        try:
            with driver.connect(self._url.value) as connection:
                yield connection
        except driver.Error as error:
            said = str(error).replace(self._url.value, self._path)
            if _is_gone(error):
                raise _Gone(said) from None
            raise DataError(f"{self}: {said}") from None


def _stored_as(field: Field) -> tuple[str, pa.DataType]:
    """What PostgreSQL calls the type of a column, and the Arrow type that is copied."""
    if field.type.is_composite:
        return "numeric" if field.type.is_decimal else "jsonb", pa.string()
    return _TYPES[field.type.name]


def _is_copied(field: Field) -> bool:
    """Are values copied as they are? Others come as texts, which PostgreSQL casts."""
    return field.type.name != "uint64" and not field.type.is_composite


class _Gone(Exception):
    """The server cannot be reached, or went away."""


def _is_gone(error: Any) -> bool:
    """Is it worth while to try again? Class 08 and 57P are those of lost connections."""
    state = error.sqlstate or ""
    return state.startswith(("08", "57P")) or not state.strip("\0")


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _copied(paths: Sequence[Path], schema: Schema, *, numbered: bool) -> pa.RecordBatchReader:
    """The rows of staged files in the types that are copied; numbered, if their order matters."""
    fields = [(field.name, _stored_as(field)[1]) for field in schema]
    copied = pa.schema([*fields, (ORDER, pa.int64())] if numbered else fields)

    def batches() -> Iterator[pa.RecordBatch]:
        first = 0
        for path in paths:
            for batch in staged_batches(path):
                columns: list[Any] = [
                    json_column(field, batch[field.name])
                    if field.type.is_nested
                    else batch[field.name].cast(kind)
                    for field, (_, kind) in zip(schema, fields, strict=True)
                ]
                if numbered:
                    columns.append(pa.array(range(first, first + batch.num_rows), pa.int64()))
                    first += batch.num_rows
                yield pa.RecordBatch.from_arrays(columns, schema=copied)

    return pa.RecordBatchReader.from_batches(copied, batches())
