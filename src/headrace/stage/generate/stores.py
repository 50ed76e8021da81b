"""The text of what depends on a store's layout: its record, find, insert and order."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.plan.types import DataType

from ..blocks.layout import KIND_OF_TYPE
from .values import hash_code, zero
from .writer import Value, Writer

# locals of a kernel, and the header fields they are loaded from
LOCATION = {"index": "index", "mask": "mask", "chunks": "chunks", "shift": "chunk_shift"}


@dataclass(frozen=True)
class StoreLayout:
    """The fields of a store's records: a key of some types, and values with their first words.

    With `in_state`, the values are the fields of an embedded user state record: the global State is
    its class, and StateFields reads the same memory with strings as words.
    """

    prefix: str
    keys: tuple[DataType, ...]
    values: tuple[tuple[str, DataType], ...] = ()
    in_state: bool = False
    is_static: bool = False  # a table, which is filled once
    spread: int = 0  # the last so many keys, numbers, do not count for the key group

    @property
    def keys_beside_slots(self) -> bool:
        """Does the index itself hold the keys?"""
        return self.is_static and len(self.keys) == 1 and self.keys[0].is_integer

    @property
    def entry(self) -> str:
        """The name of the record class."""
        return f"{self.prefix.capitalize()}Entry"

    @property
    def keeps_text(self) -> bool:
        """Do records hold strings?"""
        return self.keeps_text_values or any(kind.is_view for kind in self.keys)

    @property
    def keeps_text_values(self) -> bool:
        """Do the values of records hold strings?"""
        return any(kind.is_view for _, kind in self.values)

    def hash_code(self, keys: list[Value]) -> str:
        """Code of the hash of a key."""
        if not self.spread:
            return hash_code(keys)
        numbers = ", ".join(f"int({key.word})" for key in keys[-self.spread :])
        return f"spread_hash({hash_code(keys[: -self.spread])}, {numbers})"

    def key_fields(self) -> list[tuple[str, str]]:
        """(field name, kind) of the key."""
        return [f for k, kind in enumerate(self.keys) for f in fields_of(f"key_{k}", kind)]

    def arguments(self) -> list[str]:
        """The parameters that stand for a key."""
        return [name for name, _ in self.key_fields()]

    def key_values(self, record: str = "") -> list[Value]:
        """The key as values: parameters, or fields of a record variable."""
        return [value_of(f"key_{k}", kind, record) for k, kind in enumerate(self.keys)]

    def value(self, name: str, record: str) -> Value:
        """A value field of a record variable, which is a StateFields for values in a state."""
        return value_of(name, dict(self.values)[name], record)

    def values_of(self, entry: str) -> str:
        """Code of the record that has the values, given a record."""
        return f"StateFields({entry}.state.address)" if self.in_state else entry


def fields_of(name: str, kind: DataType) -> list[tuple[str, str]]:
    """(field name, kind) of what a value of a column type takes in a record."""
    if kind.is_view:
        made = [(f"{name}_head", "i64"), (f"{name}_tail", "i64")]
    else:
        made = [(name, KIND_OF_TYPE[kind.name])]
    return [*made, (f"{name}_valid", "flag")] if kind.nullable else made


def value_of(name: str, kind: DataType, record: str = "") -> Value:
    """The value that `fields_of` laid out, read from a record variable or from parameters."""
    dot = f"{record}." if record else ""
    names = [f"{dot}{field}" for field, _ in fields_of(name, kind)]
    valid = names.pop() if kind.nullable else None
    return Value(kind, tuple(names), valid)


def canonical(key: Value) -> Value:
    """A key as it is kept: -0.0 is 0.0, and null has zero words."""
    if key.type.is_float:
        return Value(key.type, (f"({key.word} + 0.0)",), key.valid)
    return key


def call_arguments(keys: list[Value]) -> list[str]:
    """The arguments that stand for a key in a call of find or insert."""
    made: list[str] = []
    for key in map(canonical, keys):
        made.extend(key.words)
        if key.valid is not None:
            made.append(key.valid)
    return made


def _same(left: Value, right: Value) -> str:
    if left.type.is_view:
        made = f"equal_words({', '.join(left.words + right.words)})"
    elif left.type.is_float:
        a, b = left.word, right.word
        made = f"({a} == {b} or ({a} != {a} and {b} != {b}))"
    else:
        made = f"{left.word} == {right.word}"
    if left.valid is None:
        return made
    return f"({left.valid} == {right.valid} and (not {left.valid} or {made}))"


def record_text(layout: StoreLayout) -> str:
    """The record class of a layout."""
    values = [f for name, kind in layout.values for f in fields_of(name, kind)]
    fields = [("hash", "i64"), ("epoch", "i64"), *layout.key_fields()]
    text = ""
    if layout.in_state:
        if layout.keeps_text_values:  # as functions.state_record lays it out
            values.insert(0, ("heap", "i64"))
        text = f"StateFields = make_record('StateFields', {values!r})\n"
        listed = f"[*{fields!r}, ('state', State)]"
    else:
        listed = repr(fields + values)
    text += f"{layout.entry} = make_record({layout.entry!r}, {listed})\n"
    return f"{text}{size_name(layout)} = {layout.entry}.size\n"


def size_name(layout: StoreLayout) -> str:
    """The global with the size of a record."""
    return f"{layout.prefix.upper()}_SIZE"


def entry_code(layout: StoreLayout, store: str, number: str) -> str:
    """Code of a record by its number."""
    return f"{layout.entry}(entry_address({store}, {number}, {size_name(layout)}))"


def located(layout: StoreLayout) -> str:
    """The locals that say where the records of a store are, as arguments."""
    return ", ".join(f"{layout.prefix}_{part}" for part in LOCATION)


def locate(writer: Writer, layout: StoreLayout, store: str) -> None:
    """Put into locals where the records of a store are; valid until the host makes room."""
    for part, field in LOCATION.items():
        writer.line(f"{layout.prefix}_{part} = {store}.{field}")
    if layout.keys_beside_slots:
        writer.line(f"{layout.prefix}_keys = i64s({store}.slot_keys)")


def local_entry(layout: StoreLayout, number: str) -> str:
    """Code of a record by its number, from the locals."""
    p = layout.prefix
    return f"{layout.entry}(entry_at({p}_chunks, {p}_shift, {number}, {size_name(layout)}))"


def find_text(layout: StoreLayout) -> str:
    """probe(index, mask, chunks, shift, hash, key...): the number of a record, or -1."""
    arguments = "".join(f", {name}" for name in layout.arguments())
    pairs = zip(layout.key_values("entry"), layout.key_values(), strict=True)
    # equal tags are equal keys but once in four billion: the hash itself need not be compared
    condition = " and ".join(_same(a, b) for a, b in pairs) or "True"
    p = layout.prefix
    return f"""
@compiled
def {p}_probe(index, mask, chunks, shift, key_hash{arguments}):
    slots = i64s(index)
    tag = key_hash & TAG
    at = tag & mask
    slot = slots[at]
    while slot != 0:
        if slot & TAG == tag:
            number = (slot >> NUMBER_SHIFT) - 1
            entry = {layout.entry}(entry_at(chunks, shift, number, {size_name(layout)}))
            if {condition}:
                return number
        at = (at + 1) & mask
        slot = slots[at]
    return -1


@compiled
def {p}_find(store, key_hash{arguments}):
    chunks, shift = store.chunks, store.chunk_shift
    number = {p}_probe(store.index, store.mask, chunks, shift, key_hash{arguments})
    if number < 0 and store.old_index != 0:
        number = {p}_probe(store.old_index, store.old_mask, chunks, shift, key_hash{arguments})
    return number
"""


def match_text(layout: StoreLayout) -> str:
    """match(index, mask, keys, hash, key): the same through the keys beside the slots."""
    return f"""
@compiled
def {layout.prefix}_match(index, mask, keys, key_hash, key_0):
    slots = i64s(index)
    at = first_slot(key_hash, mask)
    while slots[at] != 0:
        if keys[at] == key_0:
            return number_in(slots[at])
        at = (at + 1) & mask
    return -1
"""


def insert_text(layout: StoreLayout, initial: dict[str, tuple[str, ...]]) -> str:
    """insert(store, hash, key...): the number of a new record, or -1 where memory is needed.
    enter(store, hash, key...): the same for a key that was not found in the new index.

    `initial` gives the first words of value fields, the others start as zero; a user state starts
    as the record at `store.initial`.
    """
    writer = Writer()
    arguments = "".join(f", {name}" for name in layout.arguments())
    texts = [key for key in layout.key_values() if key.type.is_view]
    full = "is_full(store)"
    if texts:
        bytes_ = " + ".join(f"kept_bytes({key.words[0]})" for key in texts)
        full += f" or lacks_bytes(store, {bytes_})"
    with writer.block(f"if {full}:"):
        writer.line("return -1")
    writer.line("number = add_number(store, key_hash)")
    writer.line(f"entry = {entry_code(layout, 'store', 'number')}")
    writer.line("entry.hash = key_hash")
    writer.line("entry.epoch = 0")
    if texts:
        writer.line("heap = Heap(store.heap)")
    for given, kept in zip(layout.key_values(), layout.key_values("entry"), strict=True):
        keep(writer, given, kept)
    for name, kind in layout.values if not layout.in_state else ():
        first = Value(kind, initial.get(name, zero(kind)), "False")
        assign(writer, layout.value(name, "entry"), first)
    if layout.in_state:
        writer.line("copy_record(entry.state, State(store.initial))")
    writer.line("return number")
    p = layout.prefix
    return f"""

@compiled
def {p}_insert(store, key_hash{arguments}):
{writer.text()}

@compiled
def {p}_enter(store, key_hash{arguments}):
    number = -1
    if store.old_index != 0:
        number = {p}_find(store, key_hash{arguments})
    if number < 0:
        number = {p}_insert(store, key_hash{arguments})
    return number
"""


def assign(writer: Writer, target: Value, source: Value) -> None:
    """Store a value in fields of a record, or in columns of a row."""
    for place, word in zip(target.words, source.words, strict=True):
        writer.line(f"{place} = {word}")
    if target.valid is not None:
        writer.line(f"{target.valid} = {source.valid or 'True'}")


def keep(writer: Writer, given: Value, kept: Value, heap: str = "heap") -> None:
    """Store a value in a record or a row; the bytes of a long string go to a heap."""
    if not given.type.is_view:
        assign(writer, kept, given)
        return
    head, tail = given.words
    assign(
        writer, kept, Value(given.type, (head, f"keep_words({head}, {tail}, {heap})"), given.valid)
    )


def order_text(layout: StoreLayout, leading: str = "", left_out: str = "False") -> str:
    """order(a, b) -> -1, 0, 1 of two records by key, and prefix(record), which agrees with it;
    sort(store, task) puts the records of a store into order.

    leading: a value that comes before the key. left_out: which records `a` are not wanted.
    """
    p = layout.prefix
    first = [layout.value(leading, "a")] if leading else []
    keys = [*first, *layout.key_values("a")]
    others = [*([layout.value(leading, "b")] if leading else []), *layout.key_values("b")]
    prefix = "0"
    if keys:
        prefix = _order_word(keys[0])
        if keys[0].valid is not None:
            prefix = f"max({prefix}, LOWEST + 1) if {keys[0].valid} else LOWEST"
    return f"""{compare_text(f"{p}_order", keys, others)}

@compiled
def {p}_prefix(a):
    return {prefix}


@compiled
def {p}_before(store, pairs, i, j):
    if pairs[2 * i] != pairs[2 * j]:
        return pairs[2 * i] < pairs[2 * j]
    a = {entry_code(layout, "store", "pairs[2 * i + 1]")}
    b = {entry_code(layout, "store", "pairs[2 * j + 1]")}
    return {p}_order(a, b) <= 0


@compiled
def {p}_sort(store, task):
    address, count = task.order, 0
    pairs = i64s(address)
    for number in range(store.count):
        a = {entry_code(layout, "store", "number")}
        if {left_out}:
            continue
        pairs[2 * count] = {p}_prefix(a)
        pairs[2 * count + 1] = number
        count += 1
    here = sort_by_prefix(address, count, address + 4 * task.order_room * WORD_BYTES)
    there = count - here
    start = 0
    while start < count:  # records with the same prefix are compared in full
        end = start + 1
        while end < count and pairs[2 * (here + end)] == pairs[2 * (here + start)]:
            end += 1
        if end - start > 1:
            {p}_merge(store, address, here + start, there + start, end - start)
        start = end
    task.ordered, task.sorted = here, count


@compiled
def {p}_merge(store, address, first, second, count):
    # merge sort of the pairs at `first`, with room for as many at `second`; they end at `first`
    pairs = i64s(address)
    here, there = first, second
    width = 1
    while width < count:
        start = 0
        while start < count:
            middle, end = min(start + width, count), min(start + 2 * width, count)
            left, right = start, middle
            for at in range(start, end):
                one, other = here + left, here + right
                if right >= end or (left < middle and {p}_before(store, pairs, one, other)):
                    taken = left
                    left += 1
                else:
                    taken = right
                    right += 1
                pairs[2 * (there + at)] = pairs[2 * (here + taken)]
                pairs[2 * (there + at) + 1] = pairs[2 * (here + taken) + 1]
            start = end
        here, there = there, here
        width *= 2
    if here != first:
        copy_pairs(address, here, first, count)
"""


def compare_text(name: str, keys: list[Value], others: list[Value]) -> str:
    """name(a, b) -> -1, 0, 1 of two records by parts of a key."""
    writer = Writer()
    for left, right in zip(keys, others, strict=True):
        _compare_keys(writer, left, right)
    writer.line("return 0")
    return f"""

@compiled
def {name}(a, b):
{writer.text()}"""


def _order_word(key: Value) -> str:
    if key.type.is_view:
        return f"order_prefix({', '.join(key.words)})"
    if key.type.is_float:
        return f"float_order({key.word})"
    return f"int({key.word})" if key.type.name == "bool" else key.word


def _compare_keys(writer: Writer, left: Value, right: Value) -> None:
    """Return -1 or 1 where two parts of a key differ; null comes first."""
    if left.valid is not None:
        with writer.block(f"if {left.valid} != {right.valid}:"):
            writer.line(f"return 1 if {left.valid} else -1")
    if left.type.is_view:
        code = f"compare_words({', '.join(left.words + right.words)})"
        name = writer.let(code, "c")
        with writer.block(f"if {name} != 0:"):
            writer.line(f"return {name}")
        return
    a, b = writer.let(_order_word(left)), writer.let(_order_word(right))
    with writer.block(f"if {a} != {b}:"):
        writer.line(f"return -1 if {a} < {b} else 1")
