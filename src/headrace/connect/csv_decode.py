"""Records of CSV as columns of a schema, by Arrow's reader; what it refuses is looked at closer.

A record is right if Arrow takes it alone, so what becomes of one does not depend on those around
it: where Arrow refuses many, it is asked for the one half and the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from headrace.plan.schema import Field, Schema
from headrace.plan.types import string

from .arrow import CONVERSION_ERRORS, has_nulls
from .csv_records import BARE_RETURN, Chunk, Dialect
from .json_decode import converted, cut, parsed_as

Refuse = Callable[[int, str], None]  # gets the line, and what is wrong with it


@dataclass(frozen=True)
class Columns:
    """The columns that a file has, and how its values are written.

    names: of all columns, in their order. nulls: the words that stand for null.
    """

    names: tuple[str, ...]
    dialect: Dialect
    nulls: tuple[str, ...]

    @property
    def has_empty_rows(self) -> bool:
        """Is a line without anything a row? It is one value where there is one column."""
        return len(self.names) == 1

    def decode(
        self, chunk: Chunk, wanted: Schema, refuse: Refuse
    ) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """The rows of the records that are right, and for each of them its place in the chunk."""
        for number, what in chunk.bad.items():
            refuse(chunk.line_of(number), what)
        yield from self._halves(chunk, self._places(chunk), wanted, refuse)

    def decode_all(self, chunk: Chunk, wanted: Schema) -> tuple[pa.RecordBatch, np.ndarray] | None:
        """The same where all records are right; else None."""
        places = self._places(chunk)
        if chunk.bad or not len(places):
            return None
        data = chunk.data if len(places) == len(chunk) else chunk.only(~chunk.is_empty)
        rows = self.parse(data, len(places), wanted)
        return None if rows is None else (rows, places)

    def _places(self, chunk: Chunk) -> np.ndarray:
        """The records that may be rows."""
        kept = np.ones(len(chunk), np.bool_)
        if not self.has_empty_rows:
            kept &= ~chunk.is_empty
        kept[list(chunk.bad)] = False
        return np.flatnonzero(kept)

    def _halves(
        self, chunk: Chunk, places: np.ndarray, wanted: Schema, refuse: Refuse
    ) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        if not len(places):
            return
        kept = np.zeros(len(chunk), np.bool_)
        kept[places] = True
        rows = self.parse(chunk.only(kept), len(places), wanted)
        if rows is not None:
            yield rows, places
        elif len(places) == 1:
            (number,) = places
            refuse(chunk.line_of(number), self.reason(chunk.record(number), wanted))
        else:
            middle = len(places) // 2
            yield from self._halves(chunk, places[:middle], wanted, refuse)
            yield from self._halves(chunk, places[middle:], wanted, refuse)

    def parse(self, data: bytes, count: int, wanted: Schema) -> pa.RecordBatch | None:
        """The columns of some records; None where one of them is not right."""
        try:
            kinds = {field.name: parsed_as(field.type) for field in wanted}
            # Without a column, rows are counted by the first one, whatever is in it.
            rows = self._read(data, kinds or {self.names[0]: pa.binary()})
            if rows.num_rows != count:
                return None
            if not kinds:
                return rows.to_batches()[0].select([])
            columns = [converted(_whole(rows[field.name]), field.type) for field in wanted]
            self._keep_words(data, wanted, columns)
        except CONVERSION_ERRORS:
            return None
        if any(not field.type.nullable and has_nulls(a) for field, a in zip(wanted, columns)):
            return None
        return pa.record_batch(columns, names=list(wanted.names))

    def guess(self, data: bytes) -> pa.Schema:
        """The types that the values seem to have; an ArrowInvalid where records are wrong."""
        return self._read(data, {}).schema

    def reason(self, record: bytes, wanted: Schema) -> str:
        """What is wrong with one record."""
        values = self.dialect.split(record)
        if values is None:
            return BARE_RETURN
        if len(values) != len(self.names):
            there, here = len(self.names), len(values)
            return f"{here} value{'s' * (here != 1)}, and the file has {there} columns"
        for field in wanted:
            if self.parse(record, 1, Schema((field,))) is None:
                return self._wrong_value(field, values[self.names.index(field.name)])
        return "not a row that can be read"

    def _wrong_value(self, field: Field, text: str) -> str:
        kind = field.type
        if text in self.nulls and not kind.nullable:
            return (
                f"column {field.name!r} is null ({text!r}), and the schema says {kind}; use "
                f"optional({kind})"
            )
        if kind.name == "string":
            return f"column {field.name!r}: {cut(repr(text))} is not UTF-8"
        return f"column {field.name!r}: {cut(repr(text))} is not a value of {kind.required}"

    def _keep_words(self, data: bytes, wanted: Schema, columns: list[pa.Array]) -> None:
        """Words for null are texts like others where a column of texts may not be null."""
        held = [
            number
            for number, field in enumerate(wanted)
            if field.type == string and has_nulls(columns[number])
        ]
        if held:
            kinds = {wanted.names[number]: pa.string() for number in held}
            rows = self._read(data, kinds, words=False)
            for number in held:
                columns[number] = _whole(rows[wanted.names[number]])

    def _read(
        self, data: bytes, kinds: Mapping[str, pa.DataType], *, words: bool = True
    ) -> pa.Table:
        """Columns in these types (all, in those that they seem to have, where none is named)."""
        reading = pcsv.ReadOptions(
            use_threads=False, block_size=len(data) + 1, column_names=list(self.names)
        )
        parsing = pcsv.ParseOptions(
            delimiter=self.dialect.delimiter,
            quote_char=self.dialect.quote or False,
            newlines_in_values=True,
            ignore_empty_lines=not self.has_empty_rows,
        )
        converting = pcsv.ConvertOptions(
            column_types=dict(kinds),
            include_columns=list(kinds),
            null_values=list(self.nulls),
            strings_can_be_null=words,
            quoted_strings_can_be_null=False,
        )
        source: Any = pa.BufferReader(data)  # its stubs lack it
        return pcsv.read_csv(
            source,
            read_options=reading,
            parse_options=parsing,
            convert_options=converting,
        )


def _whole(column: pa.ChunkedArray) -> Any:
    """A column in one piece."""
    whole: Any = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
