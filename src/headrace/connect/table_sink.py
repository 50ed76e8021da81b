"""What sinks into tables of databases have in common: rows are staged in Arrow files."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.schema import Field, Schema

from .arrow_sink import ArrowWriter, rows_in_arrow
from .staging import RowWriter, StagedSink

BATCHES = "headrace_batches"  # the table with the names of the batches that were committed


class TableSink(StagedSink):
    """A table; a commit inserts the rows of a batch and its name in one transaction."""

    ending = ".arrow"

    def _writer(self, path: Path, schema: pa.Schema) -> RowWriter:
        return ArrowWriter(path, schema)

    def _rows_in(self, path: Path) -> int:
        return rows_in_arrow(path)

    @abstractmethod
    def _type(self, field: Field) -> str:
        """What the database calls the type of a column."""

    def _is_required(self, field: Field) -> bool:
        """Is a column of the table never null?"""
        return not field.type.nullable

    def _declared(self, field: Field) -> str:
        """A column as SQL declares it."""
        return f"{quoted(field.name)} {self._type(field)}{' NOT NULL' * self._is_required(field)}"

    def _check_table(self, schema: Schema, there: dict[str, tuple[str, bool]]) -> None:
        """The table must have the columns, and no others that need a value.

        there: for each column of the table its type, and whether it needs a value.
        """
        for field in schema:
            kind, needed = there.pop(field.name, ("missing", False))
            if kind != self._type(field):
                raise DataError(
                    f"{self}: column {field.name!r} would be {self._type(field)}, and in the "
                    f"table, which is there already, it is {kind}; write to another table"
                )
            if needed and not self._is_required(field):
                raise DataError(
                    f"{self}: column {field.name!r} may be null, and the table, which is there "
                    "already, says NOT NULL; write to another table"
                )
        for name, (_, needed) in there.items():
            if needed:
                raise DataError(
                    f"{self}: the table, which is there already, needs a value for column "
                    f"{name!r}; give the column a default, or write to another table"
                )

    def _folders(self) -> list[Path]:
        return [self._staging, self._staging.parent]


def staged_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a staged file."""
    with pa.OSFile(os.fspath(path), "r") as file:
        reader = pa.ipc.open_file(file)
        yield from map(reader.get_batch, range(reader.num_record_batches))


def quoted(name: str) -> str:
    """A name as SQL has it.

    >>> quoted('a "b" c')
    '"a ""b"" c"'
    """
    return '"' + name.replace('"', '""') + '"'
