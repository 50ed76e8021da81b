"""Strings as 16-byte views, and what user code sees of them.

    head: length in bytes (32 bits), first 4 bytes
    tail: length <= 12: the other 8 bytes, else the address of all bytes

This is Arrow's string_view with an absolute address.  Unused bytes of a short string are zero, so
short strings are equal exactly if their words are.  A view owns nothing: a block keeps the bytes of
its strings alive, and who keeps a string longer copies its bytes (`keep_words`).  The machine is
little-endian.

Generated code handles a string as its two words.  A user's function gets a *Text* or *Blob*
(compiled) or a plain `str` or `bytes` (interpreted): `text(head, tail)` and `blob(head, tail)` make
one, `words(value, heap)` takes it apart again.
"""

from __future__ import annotations

import ctypes
import operator
import weakref
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_new_ref, lower_cast
from numba.core.typeconv import Conversion
from numba.core.typing.templates import signature
from numba.cpython.unicode import (
    _codepoint_to_kind,
    _empty_string,
    _get_code_point,
    _set_code_point,
)
from numba.extending import (
    box,
    lower_builtin,
    make_attribute_wrapper,
    models,
    overload,
    overload_method,
    register_jitable,
    register_model,
    type_callable,
)
from numba.extending import intrinsic as numba_intrinsic

from headrace.stage.arithmetic import add, float_bits, multiply
from headrace.stage.record_types import (
    BYTE,
    BYTES,
    MEANINGS,
    WORD,
    Meaning,
    intrinsic,
    teach_instruction,
    teach_place,
)
from headrace.stage.records import (
    KINDS,
    Kind,
    array,
    compiled,
    copy_bytes,
    i64,
    interpreted,
    record,
    u8s,
)

SHORT = 12  # bytes that fit into a view
PREFIX = 4  # bytes of them in the head
LENGTH_MASK = 0xFFFFFFFF
SIGN = -(2**63)
HIGH_BITS = 0x8080808080808080 - 2**64
HIGH_BITS_OF_HEAD = (0x80808080 << 32) - 2**64
K0, K1 = 0x2D358DCCAA6C78A5, 0x0BB8A3DB0B8F3A11  # part of every stored hash: never change them


@record
class View:
    """A string: see the module."""

    head: i64
    tail: i64


@record
class Heap:
    """Memory for created bytes, owned by one thread: handed out from the front, given back at once.

    What does not fit comes from malloc, in a chain, so that no kernel fails for lack of room."""

    base: i64
    used: i64
    capacity: i64
    overflow: i64  # the youngest block of the chain; its first word is the next
    overflow_bytes: i64


@record
class OverflowBlock:
    """A block of the chain; the bytes lie behind it."""

    next: i64


BLOCK_HEADER = OverflowBlock.size


def views(address: int) -> array:
    """The views from an address on.

    >>> column = View.allocate(3)
    >>> views(column.address)[2].head
    0
    """
    return array(View, address=address)


teach_place(views, array(View).numba_type)


# ---- instructions that Numba does not offer ------------------------------------------------


def signed(value: int) -> int:
    """The low 64 bits as an int64, which is what compiled code computes with anyway."""
    return (value - SIGN) % 2**64 + SIGN


def word(address: int) -> int:
    """8 bytes at any address, aligned or not."""
    return ctypes.c_int64.from_address(address).value


def half_word(address: int) -> int:
    """4 bytes at any address, as a signed integer."""
    return ctypes.c_int32.from_address(address).value


def shift_right(value: int, bits: int) -> int:
    """Shift in zeros; bits < 64.

    >>> shift_right(-1, 60)
    15
    """
    return signed(value % 2**64 >> bits)


def swap_bytes(value: int) -> int:
    """The bytes in reverse order.

    >>> swap_bytes(1) == 1 << 56
    True
    """
    return int.from_bytes(value.to_bytes(8, "little", signed=True), "big", signed=True)


def mix(a: int, b: int) -> int:
    """The 128-bit product of two words (as unsigned), its halves folded.

    >>> mix(3, 5), mix(-1, -1)
    (15, -1)
    """
    product = (a % 2**64) * (b % 2**64)
    return signed(product ^ product >> 64)


def prefetch(address: int) -> None:
    """A hint that the cache line at an address will be needed."""


_libc = ctypes.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_libc.free.restype, _libc.free.argtypes = None, [ctypes.c_void_p]


def malloc(count: int) -> int:
    """Memory of the C library; 0 if there is none."""
    return _libc.malloc(count) or 0


def free(address: int) -> None:
    """Give back what malloc gave."""
    _libc.free(address)


def _emit_mix(context, b, x, y):
    wide = ir.IntType(128)
    product = b.mul(b.zext(x, wide), b.zext(y, wide))
    return b.xor(b.trunc(product, WORD), b.trunc(b.lshr(product, wide(64)), WORD))


def _emit_prefetch(context, b, address):
    number = ir.IntType(32)
    hint = intrinsic(b, "llvm.prefetch.p0", ir.VoidType(), BYTES, number, number, number)
    b.call(hint, [b.inttoptr(address, BYTES), number(0), number(3), number(1)])


def _emit_half_word(context, b, address):
    half = ir.IntType(32)
    return b.sext(b.load(b.inttoptr(address, half.as_pointer()), align=1), WORD)


def _emit_malloc(context, b, count):
    return b.ptrtoint(b.call(intrinsic(b, "malloc", BYTES, WORD), [count]), WORD)


def _emit_free(context, b, address):
    b.call(intrinsic(b, "free", ir.VoidType(), BYTES), [b.inttoptr(address, BYTES)])


teach_instruction(signed, 1, types.int64, lambda context, b, x: x)
teach_instruction(
    word,
    1,
    types.int64,
    lambda context, b, a: b.load(b.inttoptr(a, WORD.as_pointer()), align=1),
)
teach_instruction(half_word, 1, types.int64, _emit_half_word)
teach_instruction(shift_right, 2, types.int64, lambda context, b, x, bits: b.lshr(x, bits))
teach_instruction(swap_bytes, 1, types.int64, lambda context, b, x: b.bswap(x))
teach_instruction(mix, 2, types.int64, _emit_mix)
teach_instruction(prefetch, 1, types.none, _emit_prefetch)
teach_instruction(malloc, 1, types.int64, _emit_malloc)
teach_instruction(free, 1, types.none, _emit_free)


# ---- heaps ---------------------------------------------------------------------------------


@compiled
def take(heap, count):
    """The address of `count` fresh bytes.

    >>> heap = new_heap(100)
    >>> first = take(heap, 60)
    >>> take(heap, 60) == first + 60, heap.overflow_bytes    # does not fit: from malloc
    (False, 60)
    """
    used = heap.used
    if used + count <= heap.capacity:
        heap.used = used + count
        return heap.base + used
    address = malloc(BLOCK_HEADER + count)
    if address == 0:
        raise MemoryError("no memory for text")
    OverflowBlock(address).next = heap.overflow
    heap.overflow = address
    heap.overflow_bytes += count
    return address + BLOCK_HEADER


@compiled
def release_overflow(heap):
    """Free what came from malloc; strings in it are gone.

    >>> heap = new_heap(0)
    >>> _ = take(heap, 10)
    >>> release_overflow(heap); heap.overflow_bytes
    0
    """
    address = heap.overflow
    while address != 0:
        following = OverflowBlock(address).next
        free(address)
        address = following
    heap.overflow = 0
    heap.overflow_bytes = 0


_interpreted_take = interpreted(take)
_interpreted_release = interpreted(release_overflow)


def new_heap(capacity: int) -> Heap:
    """A heap that owns its memory, as long as the record that is returned lives.

    >>> new_heap(1000).capacity
    1000
    """
    heap = Heap.allocate(behind=capacity)
    heap.base, heap.capacity = heap.address + Heap.size, capacity
    weakref.finalize(heap, _release_buried, heap._buffer, heap.address)
    return heap


def _release_buried(buffer: Any, address: int) -> None:
    """Free the chain of a heap whose record is gone; the buffer is kept until then."""
    _interpreted_release(Heap(address))


# ---- words ---------------------------------------------------------------------------------


@compiled
def byte_length(head):
    """
    >>> byte_length(make_words(0, 0)[0])
    0
    """
    return head & LENGTH_MASK


@compiled
def byte_at(head, tail, index):
    """One byte of a string; the index is not checked.

    >>> byte_at(*words("abc", new_heap(0)), 2) == ord("c")
    True
    """
    if head & LENGTH_MASK > SHORT:
        return u8s(tail)[index]
    if index < PREFIX:
        return (head >> (32 + 8 * index)) & 0xFF
    return (tail >> (8 * (index - PREFIX))) & 0xFF


@compiled
def make_words(address, count):
    """The string of `count` bytes at an address; a long one goes on pointing there.

    Reads nothing beyond the bytes.

    >>> heap = new_heap(100)
    >>> head, tail = words("a long enough text", heap)
    >>> text(*make_words(tail + 2, 4))
    'long'
    """
    if count > SHORT:
        return half_word(address) << 32 | count, address
    if count >= 8:
        rest = shift_right(word(address + count - 8), 8 * (SHORT - count))
        return half_word(address) << 32 | count, rest
    if count >= PREFIX:
        last = half_word(address + count - PREFIX) & LENGTH_MASK
        return half_word(address) << 32 | count, last >> (8 * (8 - count))
    head = count
    for k in range(count):
        head |= u8s(address)[k] << (32 + 8 * k)
    return head, 0


@compiled
def _put(head, tail, at, byte):
    """A short string's words with a byte added at a place that was zero."""
    if at < PREFIX:
        return signed(head | byte << (32 + 8 * at)), tail
    return head, signed(tail | byte << (8 * (at - PREFIX)))


@compiled
def slice_words(head, tail, start, stop):
    """The bytes from start to stop, without copying; the bounds are not checked.

    >>> text(*slice_words(*words("headrace", new_heap(0)), 4, 8))
    'race'
    """
    count = stop - start
    if head & LENGTH_MASK > SHORT:
        return make_words(tail + start, count)
    new_head, new_tail = count, 0
    for k in range(count):
        new_head, new_tail = _put(new_head, new_tail, k, byte_at(head, tail, start + k))
    return new_head, new_tail


@compiled
def write_words(head, tail, address):
    """Write a string's bytes to an address.

    >>> heap = new_heap(100)
    >>> write_words(*words("abc", heap), heap.base)
    >>> text(*make_words(heap.base, 3))
    'abc'
    """
    count = head & LENGTH_MASK
    if count > SHORT:
        copy_bytes(address, tail, count)
        return
    for k in range(count):
        u8s(address)[k] = byte_at(head, tail, k)


@compiled
def keep_words(head, tail, heap):
    """Copy a long string's bytes to a heap: its new tail.

    >>> head, tail = words("a long enough text", new_heap(100))
    >>> heap = new_heap(100)
    >>> keep_words(head, tail, heap) == heap.base
    True
    """
    count = head & LENGTH_MASK
    if count <= SHORT:
        return tail
    address = take(heap, count)
    copy_bytes(address, tail, count)
    return address


@compiled
def hash_words(head, tail):
    """A hash of the bytes, stable for ever.

    >>> heap = new_heap(0)
    >>> hash_words(*words("key", heap)) == hash_words(*words(b"key", heap))
    True
    """
    count = head & LENGTH_MASK
    if count <= SHORT:
        return mix(head ^ K0, tail ^ K1)
    if count < 16:
        return mix(word(tail) ^ K0, word(tail + count - 8) ^ K1 ^ count)
    h = count ^ K1
    at, last = tail, tail + count - 16  # the last 16 bytes may overlap those before
    while at < last:
        h = mix(word(at) ^ K0, word(at + 8) ^ h)
        at += 16
    return mix(word(last) ^ K0, word(last + 8) ^ h)


@compiled
def hash_int(value):
    """A hash of an integer, stable for ever.

    >>> hash_int(1) == hash_int(1), hash_int(1) == hash_int(2)
    (True, False)
    """
    return mix(mix(value ^ K0, K1) ^ K0, K1)


@compiled
def hash_float(value):
    """A hash of a float, stable for ever; all NaN are equal, and -0.0 is 0.0.

    >>> hash_float(0.0) == hash_float(-0.0)
    True
    """
    if value != value:
        return hash_int(-1)
    return hash_int(float_bits(value + 0.0))  # -0.0 + 0.0 is 0.0


@compiled
def combine(h1, h2):
    """The hash of a pair, from the hashes of its parts; the order matters.

    >>> combine(1, 2) == combine(2, 1)
    False
    """
    return mix(h1 ^ K0, mix(h2 ^ K1, K0) ^ K1)


@compiled
def equal_words(h1, t1, h2, t2):
    """
    >>> heap = new_heap(100)
    >>> equal_words(*words("a long enough text", heap), *words("a long enough text", heap))
    True
    """
    if h1 != h2:
        return False
    if t1 == t2:
        return True
    count = h1 & LENGTH_MASK
    if count <= SHORT:
        return False
    difference = word(t1 + count - 8) ^ word(t2 + count - 8)
    for at in range(PREFIX, count - 8, 8):
        difference |= word(t1 + at) ^ word(t2 + at)
    return difference == 0


@compiled
def _byte_order(value):
    """From 8 bytes as stored to an int64 whose order is that of the bytes."""
    return swap_bytes(value) ^ SIGN


@compiled
def order_prefix(head, tail):
    """An int64 whose order agrees with that of the strings, as far as 8 bytes tell.

    >>> heap = new_heap(0)
    >>> order_prefix(*words("a", heap)) < order_prefix(*words("é", heap))
    True
    """
    if head & LENGTH_MASK > SHORT:
        return _byte_order(word(tail))
    return _byte_order(signed(tail << 32) | (head >> 32) & LENGTH_MASK)


@compiled
def compare_words(h1, t1, h2, t2):
    """-1, 0 or 1: the order of the bytes, which for UTF-8 is that of the code points.

    >>> heap = new_heap(0)
    >>> compare_words(*words("ab", heap), *words("b", heap))
    -1
    """
    p1, p2 = order_prefix(h1, t1), order_prefix(h2, t2)
    if p1 != p2:
        return -1 if p1 < p2 else 1
    n1, n2 = h1 & LENGTH_MASK, h2 & LENGTH_MASK
    common = min(n1, n2)
    at = 8
    if common > SHORT:
        while at + 8 <= common:
            p1, p2 = _byte_order(word(t1 + at)), _byte_order(word(t2 + at))
            if p1 != p2:
                return -1 if p1 < p2 else 1
            at += 8
    while at < common:
        p1, p2 = byte_at(h1, t1, at), byte_at(h2, t2, at)
        if p1 != p2:
            return -1 if p1 < p2 else 1
        at += 1
    if n1 == n2:
        return 0
    return -1 if n1 < n2 else 1


@compiled
def char_length(head, tail):
    """The number of code points.

    >>> char_length(*words("né", new_heap(0)))
    2
    """
    count = head & LENGTH_MASK
    chars = 0
    if count > SHORT:
        source = u8s(tail)
        for k in range(count):
            chars += (source[k] & 0xC0) != 0x80
        return chars
    for k in range(count):
        chars += (byte_at(head, tail, k) & 0xC0) != 0x80
    return chars


@compiled
def starts_with_words(head, tail, needle_head, needle_tail):
    """
    >>> heap = new_heap(0)
    >>> starts_with_words(*words("headrace", heap), *words("head", heap))
    True
    """
    count = needle_head & LENGTH_MASK
    if count > head & LENGTH_MASK:
        return False
    front_head, front_tail = slice_words(head, tail, 0, count)
    return equal_words(front_head, front_tail, needle_head, needle_tail)


@compiled
def ends_with_words(head, tail, needle_head, needle_tail):
    """
    >>> heap = new_heap(0)
    >>> ends_with_words(*words("headrace", heap), *words("race", heap))
    True
    """
    whole, count = head & LENGTH_MASK, needle_head & LENGTH_MASK
    if count > whole:
        return False
    end_head, end_tail = slice_words(head, tail, whole - count, whole)
    return equal_words(end_head, end_tail, needle_head, needle_tail)


@compiled
def find_words(head, tail, needle_head, needle_tail):
    """The index of the byte where the needle is found first, or -1.

    >>> heap = new_heap(0)
    >>> find_words(*words("headrace", heap), *words("race", heap))
    4
    """
    count = needle_head & LENGTH_MASK
    if count == 0:
        return 0
    first = byte_at(needle_head, needle_tail, 0)
    for start in range((head & LENGTH_MASK) - count + 1):
        if byte_at(head, tail, start) == first:
            part_head, part_tail = slice_words(head, tail, start, start + count)
            if equal_words(part_head, part_tail, needle_head, needle_tail):
                return start
    return -1


@compiled
def contains_words(head, tail, needle_head, needle_tail):
    """
    >>> heap = new_heap(0)
    >>> contains_words(*words("headrace", heap), *words("rac", heap))
    True
    """
    return find_words(head, tail, needle_head, needle_tail) >= 0


@compiled
def concat_words(h1, t1, h2, t2, heap):
    """The words of the two strings joined.

    >>> heap = new_heap(100)
    >>> text(*concat_words(*words("head", heap), *words("race", heap), heap))
    'headrace'
    """
    n1, n2 = h1 & LENGTH_MASK, h2 & LENGTH_MASK
    if n1 + n2 > SHORT:
        address = take(heap, n1 + n2)
        write_words(h1, t1, address)
        write_words(h2, t2, address + n1)
        return make_words(address, n1 + n2)
    head, tail = (h1 & ~LENGTH_MASK) | (n1 + n2), t1
    for k in range(n2):
        head, tail = _put(head, tail, n1 + k, byte_at(h2, t2, k))
    return head, tail


@compiled
def is_ascii_words(head, tail):
    """Are all bytes below 128?

    >>> is_ascii_words(*words("né", new_heap(0)))
    False
    """
    count = head & LENGTH_MASK
    if count <= SHORT:
        return (head & HIGH_BITS_OF_HEAD) | (tail & HIGH_BITS) == 0
    seen = 0
    source = u8s(tail)
    for k in range(count):
        seen |= source[k]
    return seen < 0x80


@compiled
def _map_ascii(head, tail, heap, first, last, change):
    """Add `change` to the bytes from first to last of an ASCII string."""
    count = head & LENGTH_MASK
    if count > SHORT:
        address = take(heap, count)
        source, target = u8s(tail), u8s(address)
        for k in range(count):
            byte = source[k]
            target[k] = byte + change if first <= byte <= last else byte
        return make_words(address, count)
    new_head, new_tail = count, 0
    for k in range(count):
        byte = byte_at(head, tail, k)
        byte = byte + change if first <= byte <= last else byte
        new_head, new_tail = _put(new_head, new_tail, k, byte)
    return new_head, new_tail


@compiled
def upper_words(head, tail, heap):
    """As str.upper.

    >>> heap = new_heap(100)
    >>> text(*upper_words(*words("straße", heap), heap))
    'STRASSE'
    """
    if is_ascii_words(head, tail):
        return _map_ascii(head, tail, heap, 97, 122, -32)
    return words(text(head, tail).upper(), heap)


@compiled
def lower_words(head, tail, heap):
    """As str.lower.

    >>> heap = new_heap(100)
    >>> text(*lower_words(*words("ÉCLUSE", heap), heap))
    'écluse'
    """
    if is_ascii_words(head, tail):
        return _map_ascii(head, tail, heap, 65, 90, 32)
    return words(text(head, tail).lower(), heap)


# ---- between words and values: interpreted -------------------------------------------------


def _bytes_of(head: int, tail: int) -> bytes:
    count = head & LENGTH_MASK
    if count > SHORT:
        return ctypes.string_at(tail, count)
    both = head.to_bytes(8, "little", signed=True) + tail.to_bytes(8, "little", signed=True)
    return both[PREFIX : PREFIX + count]


def text(head: int, tail: int) -> str:
    """The value that a user's function gets for a string.

    >>> text(*words("né", new_heap(0)))
    'né'
    """
    return _bytes_of(head, tail).decode()


def blob(head: int, tail: int) -> bytes:
    """The value that a user's function gets for bytes.

    >>> blob(*words(b"abc", new_heap(0)))
    b'abc'
    """
    return _bytes_of(head, tail)


def words(value: str | bytes, heap: Heap) -> tuple[int, int]:
    """The two words of a value; the bytes of a long one that is no view yet go to the heap.

    >>> heap = new_heap(100)
    >>> words("a long enough text", heap)[1] == heap.base
    True
    """
    data = value.encode() if isinstance(value, str) else bytes(value)
    count = len(data)
    if count > SHORT:
        address = _interpreted_take(heap, count)
        ctypes.memmove(address, data, count)
        return int.from_bytes(data[:PREFIX], "little", signed=True) << 32 | count, address
    padded = count.to_bytes(4, "little") + data.ljust(SHORT, b"\0")
    return (
        int.from_bytes(padded[:8], "little", signed=True),
        int.from_bytes(padded[8:], "little", signed=True),
    )


# ---- between words and values: compiled ----------------------------------------------------


class WordsType(types.Hashable):
    """A value of two words in compiled code."""


class TextType(WordsType, types.IterableType):
    """A string in compiled code; `str(x)` makes a Numba str of it."""

    def __init__(self) -> None:
        super().__init__("Text")

    @property
    def iterator_type(self):
        return types.unicode_type.iterator_type

    # A cast cannot own what it makes (Numba would leak it), so Text never becomes a Numba str by
    # itself: users write str(x).  A literal's bytes lie in the code, and it does become a Text.

    def can_convert_from(self, typingctx, other):
        if isinstance(other, types.StringLiteral):
            return Conversion.safe

    def unify(self, typingctx, other):
        if isinstance(other, types.StringLiteral):
            return self


class BlobType(WordsType):
    """Bytes in compiled code."""

    def __init__(self) -> None:
        super().__init__("Blob")


text_type, blob_type = TextType(), BlobType()


@register_model(TextType)
@register_model(BlobType)
class WordsModel(models.StructModel):
    """The two words."""

    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, [("head", types.int64), ("tail", types.int64)])


for _class in (TextType, BlobType):
    make_attribute_wrapper(_class, "head", "head")
    make_attribute_wrapper(_class, "tail", "tail")


def _teach_maker(function: Callable, result: WordsType) -> None:
    @type_callable(function)
    def type_maker(context):
        def typed(head, tail):
            if isinstance(head, types.Integer) and isinstance(tail, types.Integer):
                return signature(result, types.int64, types.int64)

        return typed

    @lower_builtin(function, types.int64, types.int64)
    def lower_maker(context, b, sig, args):
        made = cgutils.create_struct_proxy(result)(context, b)
        made.head, made.tail = args
        return made._getvalue()


_teach_maker(text, text_type)
_teach_maker(blob, blob_type)


@box(TextType)
@box(BlobType)
def _box_words(typ, value, c):
    b = c.builder
    made = cgutils.create_struct_proxy(typ)(c.context, b, value=value)
    count = b.and_(made.head, WORD(LENGTH_MASK))
    inside = b.gep(b.bitcast(made._getpointer(), BYTES), [WORD(PREFIX)], source_etype=BYTE)
    is_short = b.icmp_unsigned("<=", count, WORD(SHORT))
    start = b.select(is_short, inside, b.inttoptr(made.tail, BYTES))
    # Numba's own string_from_string_and_size calls a function of Python 2.
    name = "PyUnicode" if isinstance(typ, TextType) else "PyBytes"
    make = intrinsic(b, f"{name}_FromStringAndSize", c.pyapi.pyobj, BYTES, WORD)
    return b.call(make, [start, count])


@numba_intrinsic
def _data_address(typingctx, value):
    """The address of the characters of a Numba str; good while the str lives."""

    def emit(context, b, sig, args):
        made = cgutils.create_struct_proxy(sig.args[0])(context, b, value=args[0])
        return b.ptrtoint(made.data, WORD)

    if isinstance(value, types.UnicodeType | types.Bytes):
        return signature(types.int64, value), emit


# The functions below take a Numba str as an argument where they use its memory: the caller holds
# it until they return.  Inside one function Numba may free a str after its last mention.


@register_jitable
def _utf8_width(code):
    if code < 0x80:
        return 1
    if code < 0x800:
        return 2
    return 3 if code < 0x10000 else 4


@register_jitable
def _utf8_length(value):
    total = 0
    for k in range(len(value)):
        total += _utf8_width(_get_code_point(value, k))
    return total


@register_jitable
def _utf8_byte(code, width, k):
    """Byte k of the UTF-8 form of a code point."""
    code = types.int64(code)
    rest = (code >> (6 * (width - 1 - k))) & 0x3F
    if k > 0:
        return 0x80 | rest
    if width == 1:
        return code
    return (0xF00 >> width) & 0xFF | code >> (6 * (width - 1))


@register_jitable
def _encode_to(value, address):
    """Write a Numba str as UTF-8."""
    target = u8s(address)
    at = 0
    for i in range(len(value)):
        code = _get_code_point(value, i)
        width = _utf8_width(code)
        for k in range(width):
            target[at] = _utf8_byte(code, width, k)
            at += 1


@register_jitable
def _encode_short(value, count):
    """The words of a Numba str of at most 12 bytes."""
    head, tail = types.int64(count), types.int64(0)
    at = 0
    for i in range(len(value)):
        code = _get_code_point(value, i)
        width = _utf8_width(code)
        for k in range(width):
            head, tail = _put(head, tail, at, _utf8_byte(code, width, k))
            at += 1
    return head, tail


@register_jitable
def _keep_bytes(value, heap):
    """Words of bytes that lie in a Python or Numba object; long ones are copied."""
    head, tail = make_words(_data_address(value), len(value))
    return head, keep_words(head, tail, heap)


@register_jitable
def _encode(value, heap):
    """Words of a Numba str."""
    if value._is_ascii:
        return _keep_bytes(value, heap)
    count = _utf8_length(value)
    if count <= SHORT:
        return _encode_short(value, count)
    address = take(heap, count)
    _encode_to(value, address)
    return make_words(address, count)


@overload(words)
def _words(value, heap):
    if isinstance(value, WordsType):
        return lambda value, heap: (value.head, value.tail)
    if isinstance(value, types.UnicodeType):
        return lambda value, heap: _encode(value, heap)
    if isinstance(value, types.Bytes):
        return lambda value, heap: _keep_bytes(value, heap)


@register_jitable
def _code_point_at(head, tail, at, width):
    """The code point whose UTF-8 form begins at a byte."""
    code = byte_at(head, tail, at)
    if width == 1:
        return code
    code &= 0xFF >> (width + 1)
    for k in range(1, width):
        code = code << 6 | byte_at(head, tail, at + k) & 0x3F
    return code


@register_jitable
def _width_at(head, tail, at):
    """Bytes of the code point that begins at a byte, at most those that are left."""
    first = byte_at(head, tail, at)
    width = 1
    if first >= 0xC0:
        width = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    return min(width, (head & LENGTH_MASK) - at)


@register_jitable
def _decode(head, tail):
    """A Numba str."""
    count = head & LENGTH_MASK
    if is_ascii_words(head, tail):
        made = _empty_string(1, count, 1)
        _write_data(head, tail, made)
        return made
    highest, chars, at = 0, 0, 0
    while at < count:
        width = _width_at(head, tail, at)
        highest = max(highest, _code_point_at(head, tail, at, width))
        chars += 1
        at += width
    made = _empty_string(_codepoint_to_kind(types.uint32(highest)), chars, 0)
    at = 0
    for k in range(chars):
        width = _width_at(head, tail, at)
        _set_code_point(made, k, types.uint32(_code_point_at(head, tail, at, width)))
        at += width
    return made


@register_jitable
def _write_data(head, tail, made):
    write_words(head, tail, _data_address(made))


@overload_method(TextType, "__str__")
def _text_str(value):
    return lambda value: _decode(value.head, value.tail)


@lower_builtin("getiter", TextType)
def _iterate_text(context, b, sig, args):
    made = context.compile_internal(
        b, lambda x: str(x), signature(types.unicode_type, text_type), args
    )
    iterate = context.get_function("getiter", signature(sig.return_type, types.unicode_type))
    iterator = iterate(b, (made,))
    context.nrt.decref(b, types.unicode_type, made)  # the iterator holds its own
    return impl_ret_new_ref(context, b, sig.return_type, iterator)


# ---- what user code may do with a Text or Blob ---------------------------------------------


@register_jitable
def _utf8(value):
    """A Numba str whose characters are the UTF-8 bytes of a str."""
    made = _empty_string(1, _utf8_length(value), 0)
    _encode_into(value, made)
    return made


@register_jitable
def _encode_into(value, made):
    _encode_to(value, _data_address(made))


@numba_intrinsic(prefer_literal=True)
def _literal_words(typingctx, value):
    """The words of a str that is known at compile time."""
    if not isinstance(value, types.StringLiteral):
        return None
    data = value.literal_value.encode()
    pair = types.UniTuple(types.int64, 2)

    def emit(context, b, sig, args):
        head, tail = (WORD(part) for part in words(data[:SHORT], None))
        if len(data) > SHORT:
            head = WORD(int.from_bytes(data[:PREFIX], "little", signed=True) << 32 | len(data))
            tail = b.ptrtoint(context.insert_const_bytes(b.module, data), WORD)
        return context.make_tuple(b, pair, [head, tail])

    return signature(pair, value), emit


@lower_cast(types.StringLiteral, TextType)
def _literal_to_text(context, b, given, target, value):
    def make(value):
        head, tail = _literal_words(value)
        return text(head, tail)

    return context.compile_internal(b, make, signature(target, given), [value])


STRS = (types.UnicodeType, types.StringLiteral)


def _compatible(a: types.Type, b: types.Type) -> bool:
    """Two Texts, a Text and a str, two Blobs, or a Blob and bytes; at least one of ours."""
    texts, blobs = (TextType, *STRS), (BlobType, types.Bytes)
    same = any(isinstance(a, side) and isinstance(b, side) for side in (texts, blobs))
    return same and (isinstance(a, WordsType) or isinstance(b, WordsType))


def _teach_pair(taught: Any, on_words: Any, method: bool = False) -> None:
    """taught(a, b) for Text and str, in any order, is on_words(a's words, b's words)."""

    @register_jitable
    def bytes_right(head, tail, right):
        right_head, right_tail = make_words(_data_address(right), len(right))
        return on_words(head, tail, right_head, right_tail)

    @register_jitable
    def bytes_left(left, head, tail):
        left_head, left_tail = make_words(_data_address(left), len(left))
        return on_words(left_head, left_tail, head, tail)

    def literal_right(a, b):
        head, tail = _literal_words(b)
        return on_words(a.head, a.tail, head, tail)

    def literal_left(a, b):
        head, tail = _literal_words(a)
        return on_words(head, tail, b.head, b.tail)

    def str_right(a, b):
        if b._is_ascii:
            return bytes_right(a.head, a.tail, b)
        return bytes_right(a.head, a.tail, _utf8(b))

    def str_left(a, b):
        if a._is_ascii:
            return bytes_left(a, b.head, b.tail)
        return bytes_left(_utf8(a), b.head, b.tail)

    def choose(a, b):
        if not _compatible(a, b):
            return None
        if isinstance(a, WordsType) and isinstance(b, WordsType):
            return lambda a, b: on_words(a.head, a.tail, b.head, b.tail)
        if isinstance(a, STRS):
            return literal_left if isinstance(a, types.StringLiteral) else str_left
        if isinstance(b, STRS):
            return literal_right if isinstance(b, types.StringLiteral) else str_right
        if isinstance(b, types.Bytes):
            return lambda a, b: bytes_right(a.head, a.tail, b)
        return lambda a, b: bytes_left(a, b.head, b.tail)

    if method:
        for cls in (TextType, BlobType):
            overload_method(cls, taught, prefer_literal=True)(choose)
    else:
        overload(taught, prefer_literal=True)(choose)


@register_jitable
def _differ(h1, t1, h2, t2):
    return not equal_words(h1, t1, h2, t2)


@register_jitable
def _less(h1, t1, h2, t2):
    return compare_words(h1, t1, h2, t2) < 0


@register_jitable
def _less_or_equal(h1, t1, h2, t2):
    return compare_words(h1, t1, h2, t2) <= 0


@register_jitable
def _greater(h1, t1, h2, t2):
    return compare_words(h1, t1, h2, t2) > 0


@register_jitable
def _greater_or_equal(h1, t1, h2, t2):
    return compare_words(h1, t1, h2, t2) >= 0


_teach_pair(operator.eq, equal_words)
_teach_pair(operator.ne, _differ)
_teach_pair(operator.lt, _less)
_teach_pair(operator.le, _less_or_equal)
_teach_pair(operator.gt, _greater)
_teach_pair(operator.ge, _greater_or_equal)
_teach_pair(operator.contains, contains_words)
_teach_pair("startswith", starts_with_words, method=True)
_teach_pair("endswith", ends_with_words, method=True)


@overload(len)
def _len(value):
    if isinstance(value, TextType):
        return lambda value: char_length(value.head, value.tail)
    if isinstance(value, BlobType):
        return lambda value: byte_length(value.head)


@overload(bool)
def _bool(value):
    if isinstance(value, WordsType):
        return lambda value: byte_length(value.head) != 0


@overload(operator.not_)
def _not(value):
    if isinstance(value, WordsType):
        return lambda value: byte_length(value.head) == 0


@overload_method(TextType, "__hash__")
@overload_method(BlobType, "__hash__")
def _hash(value):
    return lambda value: hash_words(value.head, value.tail)


@register_jitable
def _byte_of_char(head, tail, index):
    """The byte where a code point begins; the end for an index beyond."""
    count = head & LENGTH_MASK
    if is_ascii_words(head, tail):
        return min(index, count)
    at = 0
    for _ in range(index):
        if at >= count:
            break
        at += _width_at(head, tail, at)
    return at


@register_jitable
def _checked_index(index, count):
    if index < 0:
        index += count
    if index < 0 or index >= count:
        raise IndexError("index out of range")
    return index


@register_jitable
def _char(value, index):
    index = _checked_index(index, char_length(value.head, value.tail))
    start = _byte_of_char(value.head, value.tail, index)
    stop = start + _width_at(value.head, value.tail, start)
    head, tail = slice_words(value.head, value.tail, start, stop)
    return text(head, tail)


@register_jitable
def _slice_text(value, index):
    start, stop, step = index.indices(char_length(value.head, value.tail))
    if step != 1:
        raise ValueError("slices of text have step 1: use str(text)[::step]")
    first = _byte_of_char(value.head, value.tail, start)
    last = max(first, _byte_of_char(value.head, value.tail, stop))
    head, tail = slice_words(value.head, value.tail, first, last)
    return text(head, tail)


@register_jitable
def _slice_blob(value, index):
    start, stop, step = index.indices(byte_length(value.head))
    if step != 1:
        raise ValueError("slices of bytes have step 1")
    head, tail = slice_words(value.head, value.tail, start, max(start, stop))
    return blob(head, tail)


@overload(operator.getitem)
def _getitem(value, index):
    is_slice = isinstance(index, types.SliceType)
    if isinstance(value, TextType) and is_slice:
        return lambda value, index: _slice_text(value, index)
    if isinstance(value, TextType) and isinstance(index, types.Integer):
        return lambda value, index: _char(value, index)
    if isinstance(value, BlobType) and is_slice:
        return lambda value, index: _slice_blob(value, index)
    if isinstance(value, BlobType) and isinstance(index, types.Integer):
        return lambda value, index: byte_at(
            value.head, value.tail, _checked_index(index, byte_length(value.head))
        )


@overload(operator.add)
@overload(operator.iadd)
def _add(a, b):
    if isinstance(a, TextType) or isinstance(b, TextType):
        if _compatible(a, b):
            return lambda a, b: _as_plain(a) + _as_plain(b)


@overload(operator.mul)
def _repeat(a, b):
    if isinstance(a, TextType) and isinstance(b, types.Integer):
        return lambda a, b: str(a) * b


@overload(ord)
def _ord(value):
    if isinstance(value, TextType):
        return lambda value: ord(str(value))


@register_jitable
def _is_space(byte):
    return byte == 32 or 9 <= byte <= 13


@overload(int)
def _int(value):
    """ASCII digits with sign and surrounding space, as Python; no other digits, no underscores."""
    if not isinstance(value, TextType):
        return None

    def parse(value):
        head, tail = value.head, value.tail
        at, stop = 0, byte_length(head)
        while at < stop and _is_space(byte_at(head, tail, at)):
            at += 1
        while stop > at and _is_space(byte_at(head, tail, stop - 1)):
            stop -= 1
        sign = 1
        if at < stop and (byte_at(head, tail, at) == 45 or byte_at(head, tail, at) == 43):
            sign = -1 if byte_at(head, tail, at) == 45 else 1
            at += 1
        if at == stop:
            raise ValueError("invalid literal for int()")
        number = 0
        while at < stop:
            digit = byte_at(head, tail, at) - 48
            if digit < 0 or digit > 9:
                raise ValueError("invalid literal for int()")
            number = add(multiply(number, 10), sign * digit)
            at += 1
        return number

    return parse


def _as_plain(value: Any) -> Any:
    """A Text as a Numba str, everything else as it is."""
    return value


@overload(_as_plain)
def _overload_as_plain(value):
    if isinstance(value, TextType):
        return lambda value: str(value)
    return lambda value: value


# Methods of str that are done on `str(text)`, with their parameters.
DELEGATED = {
    "capitalize": "", "casefold": "", "center": "width, fillchar=' '",
    "count": "sub, start=None, end=None", "expandtabs": "tabsize=8",
    "find": "sub, start=None, end=None", "index": "sub, start=None, end=None",
    "isalnum": "", "isalpha": "", "isascii": "", "isdecimal": "", "isdigit": "",
    "isidentifier": "", "islower": "", "isnumeric": "", "isprintable": "", "isspace": "",
    "istitle": "", "isupper": "", "join": "parts", "ljust": "width, fillchar=' '",
    "lower": "", "lstrip": "chars=None", "partition": "sep",
    "replace": "old, new, count=-1", "rfind": "sub, start=None, end=None",
    "rindex": "sub, start=None, end=None", "rjust": "width, fillchar=' '",
    "rpartition": "sep", "rsplit": "sep=None, maxsplit=-1", "rstrip": "chars=None",
    "split": "sep=None, maxsplit=-1", "splitlines": "keepends=False", "strip": "chars=None",
    "swapcase": "", "title": "", "upper": "", "zfill": "width",
}  # fmt: skip


def _is_given(argument: Any) -> bool:
    return isinstance(argument, types.Type) and not isinstance(argument, types.Omitted)


def _delegate(name: str, parameters: str) -> None:
    """Text.name(...) is str(text).name(...).

    Arguments that were left out are left out again, because Numba's own methods are typed by
    which ones are there; hence one small generated function for each number of arguments."""
    names = [parameter.split("=")[0] for parameter in parameters.split(", ") if parameter]
    declared = ", ".join(["value", parameters] if parameters else ["value"])

    def choose(**given):
        count = max((k + 1 for k, n in enumerate(names) if _is_given(given[n])), default=0)
        arguments = ", ".join(f"_as_plain({n})" for n in names[:count])
        return _function(f"lambda {declared}: str(value).{name}({arguments})")

    passed = ", ".join(f"{n}={n}" for n in names)
    outer = _function(f"lambda {declared}: choose({passed})", choose=choose)
    overload_method(TextType, name)(outer)


def _function(source: str, **names: Any) -> Callable:
    return eval(source, {"_as_plain": _as_plain, "__name__": __name__, **names})


for _name, _parameters in DELEGATED.items():
    _delegate(_name, _parameters)


# ---- fields of records ---------------------------------------------------------------------


class WordsKind(Kind):
    """A field of two words.

    Bytes that a write creates go to the record's heap; a Text or Blob is stored as the view it is,
    and who keeps the record longer than the block copies its bytes (`keep_words`)."""

    size, align = View.size, View.align

    def __init__(self, name: str, make: Callable[[int, int], Any]) -> None:
        self.tag, self.make = (name,), make

    def read(self, address: int, order: str = "plain") -> Any:
        view = View(address)
        return self.make(view.head, view.tail)

    def write_field(self, record_address: int, address: int, value: Any) -> None:
        view = View(address)
        view.head, view.tail = words(value, Heap(i64.read(record_address)))


class WordsMeaning(Meaning):
    """The same, compiled."""

    def __init__(self, own: WordsType, other: type[types.Type]) -> None:
        self.own, self.other = own, other

    def value_type(self, tag):
        return self.own

    def accepts(self, tag, given):
        given = given.type if isinstance(given, types.Optional) else given
        given = types.unliteral(given)
        return given if given == self.own or isinstance(given, self.other) else None

    def _cell(self, b, pointer):
        return b.bitcast(pointer, ir.LiteralStructType([WORD, WORD]).as_pointer())

    def load(self, context, b, tag, pointer):
        return b.load(self._cell(b, pointer))

    def store(self, context, b, tag, pointer, value, given, owner):
        if given != self.own:
            value = self._created(context, b, value, given, owner)
        b.store(value, self._cell(b, pointer))

    def _created(self, context, b, value, given, owner):
        heap = b.load(b.bitcast(owner, WORD.as_pointer()))  # the first field, checked in records
        make = text if isinstance(self.own, TextType) else blob

        def create(value, heap):
            head, tail = words(value, Heap(heap))
            return make(head, tail)

        return context.compile_internal(
            b, create, signature(self.own, given, types.int64), [value, heap]
        )


text_kind, blob_kind = WordsKind("text", text), WordsKind("blob", blob)
KINDS["text"], KINDS["blob"] = text_kind, blob_kind
MEANINGS["text"] = WordsMeaning(text_type, types.UnicodeType)
MEANINGS["blob"] = WordsMeaning(blob_type, types.Bytes)
