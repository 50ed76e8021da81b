"""The text of what depends on a store's layout: its record, find and insert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.plan.types import DataType

from ..blocks.layout import KIND_OF_TYPE
from ..memory.kinds import KINDS
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
    fields, text = [("hash", "i64"), ("epoch", "i64"), *layout.key_fields()], ""
    if layout.in_state:
        if layout.keeps_text_values:  # as functions.state_record lays it out
            values.insert(0, ("heap", "i64"))
        text = f"StateFields = make_record('StateFields', {values!r})\n"
        listed = f"[*{_packed(fields)!r}, ('state', State)]"
    else:
        listed = repr(_packed(fields + values))
    text += f"{layout.entry} = make_record({layout.entry!r}, {listed})\n"
    return f"{text}{size_name(layout)} = {layout.entry}.size\n"


def _packed(fields: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Fields in an order in which no bytes lie between them: wide ones first."""
    return sorted(fields, key=lambda field: -KINDS[field[1]].size)


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
    append(store, hash, key...): the same for a record that nobody looks for.

    `initial` gives the first words of value fields, the others start as zero; a user state starts
    as the record at `store.initial`.
    """
    writer = Writer()
    arguments = "".join(f", {name}" for name in layout.arguments())
    texts = [key for key in layout.key_values() if key.type.is_view]
    lacks = ""
    if texts:
        bytes_ = " + ".join(f"kept_bytes({key.words[0]})" for key in texts)
        lacks = f" or lacks_bytes(store, {bytes_})"
        writer.line("heap = Heap(store.heap)")
    writer.line(f"entry = {entry_code(layout, 'store', 'number')}")
    writer.line("entry.hash = key_hash")
    writer.line("entry.epoch = 0")
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
def {p}_begin(store, number, key_hash{arguments}):
{writer.text()}

@compiled
def {p}_insert(store, key_hash{arguments}):
    if is_full(store){lacks}:
        return -1
    return {p}_begin(store, add_number(store, key_hash), key_hash{arguments})


@compiled
def {p}_append(store, key_hash{arguments}):
    if lacks_records(store){lacks}:
        return -1
    return {p}_begin(store, take_number(store), key_hash{arguments})


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


def both_words(writer: Writer, pairs: Sequence[tuple[Value, Value]]) -> list[str]:
    """The words of new strings, each with those of the one whose place it takes, as arguments of
    `changed_bytes` and `keep_changed`. A string that is null has none."""
    for new, _ in pairs:
        if new.valid is not None:
            with writer.block(f"if not {new.valid}:"):
                writer.line(f"{new.words[0]} = 0")
                writer.line(f"{new.words[1]} = 0")
    return [", ".join(new.words + kept.words) for new, kept in pairs]
