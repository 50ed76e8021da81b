"""Random tables of all types, and ways to read a channel."""

import datetime as dt
from decimal import Context

import pyarrow as pa
from hypothesis import strategies as st

from headrace.connect.json_decode import converted
from headrace.plan.schema import Field, Schema
from headrace.plan.types import SCALARS, as_type, optional

LONGEST = dt.timedelta(days=10**8)  # 64 bits of microseconds hold about as much
VALUES = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint8": st.integers(0, 2**8 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "float32": st.floats(width=32, allow_nan=False),
    "float64": st.floats(allow_nan=False),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(dt.UTC)),
    "duration": st.timedeltas(-LONGEST, LONGEST),
    "time": st.times(),
    "string": st.text(max_size=20),
    "binary": st.binary(max_size=20),
}

PRICE = as_type(pa.decimal128(38, 4))
VALUES[PRICE.name] = st.integers(1 - 10**38, 10**38 - 1).map(
    lambda units: (
        Context(prec=38).create_decimal(units).scaleb(-PRICE.arrow.scale, Context(prec=38))
    )
)
NUMBERS, POSITION = as_type(list[int]), as_type({"at": dt.datetime, "x y": float, "price": PRICE})
VISIT = as_type({"tags": list[str], "raw": bytes, "took": dt.timedelta})
VISITS = as_type(pa.list_(VISIT.arrow))
COMPOSITES = [PRICE, NUMBERS, POSITION, VISITS]


def values_of(kind):
    """Values of any type."""
    if kind.item is not None:
        return st.lists(st.none() | values_of(kind.item), max_size=3)
    if kind.parts:
        parts = {name: st.none() | values_of(part) for name, part in kind.parts.items()}
        return st.fixed_dictionaries(parts)
    return VALUES[kind.name]


def from_json(value, kind):
    """A value of a list or struct from its text; others as they are."""
    if not kind.is_nested or value is None:
        return value
    return converted(pa.array([value]), kind)[0].as_py()


@st.composite
def schemas(draw, among=(*SCALARS.values(), *COMPOSITES)):
    names = [f"c{i}" for i in range(draw(st.integers(1, 4)))]
    kinds = [draw(st.sampled_from(among)) for _ in names]
    return Schema(
        tuple(
            Field(name, optional(kind) if draw(st.booleans()) else kind)
            for name, kind in zip(names, kinds)
        )
    )


@st.composite
def tables(draw, max_rows=30, schemas=schemas()):
    """A schema, and an Arrow table of it in chunks."""
    schema = draw(schemas)
    count = draw(st.integers(0, max_rows))
    columns = []
    for field in schema:
        values = values_of(field.type)
        if field.type.nullable:
            values = st.none() | values
        drawn = draw(st.lists(values, min_size=count, max_size=count))
        columns.append(pa.array(drawn, field.type.to_arrow()))
    table = pa.table(columns, schema=schema.to_arrow())
    cut = draw(st.integers(0, count))
    return schema, pa.concat_tables([table.slice(0, cut), table.slice(cut)])


def read_all(reader, max_rows=7, timeout=0.0):
    """All rows of a reader, and the positions after each poll."""
    sizes = iter(max_rows if isinstance(max_rows, list) else [max_rows])
    size = next(sizes)
    rows, positions = [], []
    while True:
        batch = reader.poll(size, timeout)
        if batch.rows is not None:
            assert 0 < batch.rows.num_rows <= size
            rows += batch.rows.to_pylist()
        positions.append((len(rows), batch.position))
        if batch.ended:
            return rows, positions
        size = next(sizes, size)
