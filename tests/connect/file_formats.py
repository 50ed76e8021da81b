"""The formats that files come in, for tests that hold for all of them."""

from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.connect.arrow_files import ArrowFormat, ArrowSource
from headrace.connect.csv_files import CsvFormat, CsvSource
from headrace.connect.csv_records import Dialect
from headrace.connect.csv_sink import CsvWriter
from headrace.connect.file_source import FileSource
from headrace.connect.json_lines import JsonFormat, JsonSource
from headrace.connect.kafka_encode import json_texts
from headrace.connect.parquet_format import ParquetFormat
from headrace.plan.schema import Schema


def write_parquet(path, table, size):
    pq.write_table(table, path, row_group_size=size)


def write_arrow(path, table, size, new=pa.ipc.new_file):
    with new(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=size)


def write_json(path, table, size):
    schema = Schema.of(table.schema)
    texts = [text for batch in table.to_batches() for text in json_texts(batch, schema)]
    path.write_bytes(b"".join(text + b"\n" for text in texts))


def write_csv(path, table, size):
    writer = CsvWriter(path, Schema.of(table.schema), Dialect())
    writer.add(writer.encoded(table))
    writer.close()


class Kind:
    """How to write and read one format."""

    def __init__(self, name, ending, form, write, source):
        self.name, self.ending, self.form, self.write, self.source = (
            name,
            ending,
            form,
            write,
            source,
        )

    def file(self, number):
        return f"part-{number}{self.ending}"

    def fill(self, folder, *parts, size=3):
        """A file for each table, or list of numbers in a column n; gives the source."""
        for number, part in enumerate(parts):
            self.add(folder, number, part, size)
        schema = Schema.of({"n": pa.int64()})
        if parts and isinstance(parts[0], pa.Table):
            schema = Schema.of(parts[0].schema)
        return self.source(folder, schema=schema)

    def add(self, folder, number, part, size=3):
        if not isinstance(part, pa.Table):
            kind = pa.schema([pa.field("n", pa.int64(), nullable=False)])
            part = pa.table([pa.array(part, pa.int64())], schema=kind)
        path = folder / self.file(number)
        hidden = path.with_name(f".{path.name}")
        self.write(hidden, part, size)
        hidden.rename(path)
        return path


KINDS = [
    Kind(
        "parquet",
        ".parquet",
        ParquetFormat,
        write_parquet,
        lambda path, schema=None: FileSource(path, ParquetFormat(), schema=schema),
    ),
    Kind("arrow", ".arrow", ArrowFormat, write_arrow, ArrowSource),
    Kind(
        "arrow stream",
        ".arrows",
        ArrowFormat,
        partial(write_arrow, new=pa.ipc.new_stream),
        ArrowSource,
    ),
    Kind("json", ".json", JsonFormat, write_json, JsonSource),
    Kind("csv", ".csv", CsvFormat, write_csv, CsvSource),
]


def numbers(reader, max_rows=7):
    """The column n of what a reader gives until it ends or has nothing for now; and where it is."""
    found = []
    while True:
        batch = reader.poll(max_rows, 0.05)
        if batch.rows is None:
            return found, batch.position
        found += batch.rows["n"].to_pylist()
