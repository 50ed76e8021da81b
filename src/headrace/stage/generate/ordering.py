"""The text of how records are ordered: compared by key, and sorted.

Sorting is by a prefix of the key, one word; records with the same prefix are compared in full. It
is the first part of the key; where there are several parts, all numbers, whose values in a store
differ by so little that all fit into one word, it is the whole key.
"""

from __future__ import annotations

from .stores import StoreLayout, entry_code
from .writer import Value, Writer


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
    several = len(keys) - layout.spread > 1 and not leading
    packed = several and all(map(_is_integer, keys))
    fill = _packed_fill if packed else _fill
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

{fill(layout, keys, left_out)}

@compiled
def {p}_sort(store, task):
    address = task.order
    pairs = i64s(address)
    count = {p}_fill(store, pairs)
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
{merge_text(f"{p}_merge", "store", f"{p}_before", 2)}"""


def _fill(layout: StoreLayout, keys: list[Value], left_out: str) -> str:
    """fill(store, pairs): write the prefix and the number of each record; gives how many."""
    return f"""
@compiled
def {layout.prefix}_fill(store, pairs):
    count = 0
    for number in range(store.count):
        a = {entry_code(layout, "store", "number")}
        if {left_out}:
            continue
        pairs[2 * count], pairs[2 * count + 1] = {layout.prefix}_prefix(a), number
        count += 1
    return count
"""


def _packed_fill(layout: StoreLayout, keys: list[Value], left_out: str) -> str:
    """The same; prefixes are whole keys, if they fit: the distances of all parts from the least
    ones, side by side. Null comes before the least one."""
    limits, shifts, parts = Writer(indent=2), Writer(), []
    for k, key in enumerate(keys):
        word = limits.let(_order_word(key))
        with limits.block(f"if {key.valid or 'True'}:"):
            limits.line(f"low_{k}, high_{k} = min(low_{k}, {word}), max(high_{k}, {word})")
    shifts.line("bits = 0")
    for k, key in reversed(list(enumerate(keys))):
        shifts.line(f"shift_{k} = bits")
        shifts.line(f"bits = add_bits(bits, low_{k}, high_{k})")
        distance = f"{_order_word(key)} - low_{k} + 1"
        placed = f"(({distance}) << shift_{k})"
        parts.append(placed if key.valid is None else f"({placed} if {key.valid} else 0)")
    lows, highs = (", ".join(f"{end}_{k}" for k in range(len(keys))) for end in ("low", "high"))
    return f"""
@compiled
def {layout.prefix}_fill(store, pairs):
    {lows} = {", ".join(["HIGHEST"] * len(keys))}
    {highs} = {", ".join(["LOWEST"] * len(keys))}
    count = 0
    for number in range(store.count):
        a = {entry_code(layout, "store", "number")}
        if {left_out}:
            continue
        pairs[2 * count + 1] = number
        count += 1
{limits.text()}
{shifts.text()}
    for k in range(count):
        a = {entry_code(layout, "store", "pairs[2 * k + 1]")}
        if bits <= MOST_BITS:
            pairs[2 * k] = {" | ".join(parts)}
        else:
            pairs[2 * k] = {layout.prefix}_prefix(a)
    return count
"""


def _is_integer(key: Value) -> bool:
    return not key.type.is_view and not key.type.is_float


def merge_text(name: str, owner: str, before: str, size: int) -> str:
    """name(owner, address, first, second, count): merge sort of the items of so many words at
    `first`, with room for as many at `second`; they end at `first`."""
    return f"""

@compiled
def {name}({owner}, address, first, second, count):
    words = i64s(address)
    here, there = first, second
    width = 1
    while width < count:
        start = 0
        while start < count:
            middle, end = min(start + width, count), min(start + 2 * width, count)
            left, right = start, middle
            for at in range(start, end):
                one, other = here + left, here + right
                if right >= end or (left < middle and {before}({owner}, words, one, other)):
                    taken = left
                    left += 1
                else:
                    taken = right
                    right += 1
                for k in range({size}):
                    words[{size} * (there + at) + k] = words[{size} * (here + taken) + k]
            start = end
        here, there = there, here
        width *= 2
    if here != first:
        copy_words(address, {size} * here, {size} * first, {size} * count)
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
