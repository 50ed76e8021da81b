"""The text of what moves records: from blocks into a store, back into blocks, to another heap."""

from __future__ import annotations

from headrace.plan.types import DataType, uint8

from ..blocks.layout import KIND_OF_TYPE
from .stores import StoreLayout, assign, call_arguments, entry_code, keep
from .writer import Value, Writer


def load_text(layout: StoreLayout, grouped: bool) -> str:
    """load(store, block, row, replace): rows of a block, key columns first, become records.

    Gives the row at which memory is needed, the number of rows when all are done, or -1 where the
    key of row `store.repeated` was there already and may not be replaced. grouped: the column
    behind all others is the key group of a row.
    """
    writer = Writer()
    with writer.block("while row < block.rows:"):
        keys = [_column_value(writer, k, kind) for k, kind in enumerate(layout.keys)]
        hashed = layout.hash_code(keys)
        if grouped:
            hashed = f"in_group({hashed}, int(groups[row]))"
        arguments = ", ".join(["store", writer.let(hashed, "h"), *call_arguments(keys)])
        writer.line(f"number = {layout.prefix}_find({arguments})")
        with writer.block("if number >= 0 and not replace:"):
            writer.line("store.repeated = row")
            writer.line("return -1")
        first = len(layout.keys)
        values = [_column_value(writer, first + k, v) for k, (_, v) in enumerate(layout.values)]
        texts = [f"kept_bytes({v.words[0]})" for v in (*keys, *values) if v.type.is_view]
        if texts:  # asked for at once: a row is entered whole, or not yet
            with writer.block(f"if lacks_bytes(store, {' + '.join(texts)}):"):
                writer.line("return row")
            writer.line("heap = Heap(store.heap)")
        with writer.block("if number < 0:"):
            writer.line(f"number = {layout.prefix}_insert({arguments})")
            with writer.block("if number < 0:"):
                writer.line("return row")
        writer.line(f"entry = {entry_code(layout, 'store', 'number')}")
        writer.line(f"fields = {layout.values_of('entry')}")
        for (name, _), value in zip(layout.values, values, strict=True):
            keep(writer, value, layout.value(name, "fields"))
        if layout.spread:
            writer.line(f"store.numbered = max(store.numbered, {keys[-1].word} + 1)")
        writer.line("row += 1")
    writer.line("return row")
    place = f"block.columns[{len(_kinds(layout))}].data"
    groups = f"    groups = {KIND_OF_TYPE[uint8.name]}s({place})\n" if grouped else ""
    return f"""

@compiled
def load(store_address, block_address, row, replace):
    store, block = Store(store_address), BlockRecord(block_address)
{_bind_block(layout)}{groups}{writer.text()}"""


def save_text(layout: StoreLayout) -> str:
    """save(store, numbers, count, block): append records to a block: key, values, hash."""
    writer, last = Writer(), len(_kinds(layout))
    with writer.block("for k in range(count):"):
        writer.line(f"entry = {entry_code(layout, 'store', 'numbers[k]')}")
        writer.line(f"fields = {layout.values_of('entry')}")
        values = [*layout.key_values("entry")]
        values += [layout.value(name, "fields") for name, _ in layout.values]
        for k, value in enumerate(values):
            assign(writer, _column_place(writer, k, value.type, "block.rows + k"), value)
        writer.line(f"column_{last}[block.rows + k] = entry.hash")
    writer.line("block.rows += count")
    return f"""

@compiled
def save(store_address, numbers_address, count, block_address):
    store, block, numbers = Store(store_address), BlockRecord(block_address), i32s(numbers_address)
{_bind_block(layout)}    column_{last} = i64s(block.columns[{last}].data)
{writer.text()}"""


def compact_text(layout: StoreLayout) -> str:
    """room(task): `make_room`; where most bytes of a store's strings are of no use any more, those
    that are go to another heap first."""
    values = [*layout.key_values("entry")]
    values += [layout.value(name, "fields") for name, _ in layout.values]
    texts = [value for value in values if value.type.is_view]
    count = " + ".join(f"kept_bytes({value.words[0]})" for value in texts)
    writer = Writer(indent=2)
    for value in texts:
        head, tail = value.words
        writer.line(f"{tail} = keep_words({head}, {tail}, heap)")
    entry = entry_code(layout, "store", "number")
    return f"""

@compiled
def live_bytes(store):
    total = 0
    for number in range(store.count):
        entry = {entry}
        fields = {layout.values_of("entry")}
        total += {count}
    return total


@compiled
def copy_strings(store, heap):
    for number in range(store.count):
        entry = {entry}
        fields = {layout.values_of("entry")}
{writer.text()}

@compiled
def room(task_address):
    task = Task(task_address)
    if asks_for_records(task):
        store = Store(task.need)
        if wants_compaction(store):
            live = live_bytes(store)
            heap_address = begin_compaction(store, live)
            copy_strings(store, Heap(heap_address))
            end_compaction(store, heap_address, live)
    return make_room(task_address)
"""


def _kinds(layout: StoreLayout) -> list[DataType]:
    return [*layout.keys, *(kind for _, kind in layout.values)]


def _bind_block(layout: StoreLayout) -> str:
    writer = Writer()
    for k, kind in enumerate(_kinds(layout)):
        array = "views" if kind.is_view else f"{KIND_OF_TYPE[kind.name]}s"
        writer.line(f"column_{k} = {array}(block.columns[{k}].data)")
        if kind.nullable:
            writer.line(f"column_{k}_valid = flags(block.columns[{k}].valid)")
    return writer.text() if writer.lines else ""


def _column_place(writer: Writer, k: int, kind: DataType, row: str) -> Value:
    """A value of a row of a block, to be read or assigned."""
    valid = f"column_{k}_valid[{row}]" if kind.nullable else None
    if not kind.is_view:
        return Value(kind, (f"column_{k}[{row}]",), valid)
    view = writer.let(f"column_{k}[{row}]", "s")
    return Value(kind, (f"{view}.head", f"{view}.tail"), valid)


def _column_value(writer: Writer, k: int, kind: DataType) -> Value:
    return _column_place(writer, k, kind, "row")
