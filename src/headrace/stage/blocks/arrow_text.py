"""Compiled loops between Arrow's columns and a block's: bitmaps, strings, dictionary codes."""

from __future__ import annotations

from headrace.stage.memory.records import (
    array,
    compiled,
    copy_bytes,
    i8s,
    i16s,
    i32s,
    i64,
    i64s,
    record,
    u8s,
)
from headrace.stage.strings.words import LENGTH_MASK, PREFIX, SHORT, make_words, views

# How a column is copied.
VALUES, BITS, STRINGS, LARGE_STRINGS, VIEWS, CODES = range(6)

BUFFER_MASK = 0xFFFFFFFF  # the number of a buffer in the tail of Arrow's view


@record
class FeedColumn:
    """One column of an Arrow batch: where it lies and how it is copied. Row 0 is the first row of
    the batch, whatever slice of larger buffers the batch is."""

    how: i64  # one of the constants above
    width: i64  # bytes of a value, an offset or a code
    source: i64  # address of the values, offsets, views or codes; of a bitmap: of its first byte
    source_bit: i64  # of a bitmap: the bit of row 0
    bitmap: i64  # address of the validity bitmap; 0: no row is null
    bitmap_bit: i64
    heap: i64  # STRINGS: address of the bytes; VIEWS: of the addresses of the data buffers
    table: i64  # CODES: address of the dictionary's values as views
    table_valid: i64  # and of their validity bytes


@record
class FeedRecord:
    """All columns of a batch."""

    count: i64
    columns: array(FeedColumn)


# ---- bits to bytes -------------------------------------------------------------------------

# Bit k of 7 goes to byte k: the product has bit k at every k + 7 j, and k + 7 j = 8 j if k = j.
SPREAD = 0x0002_0408_1020_4081
LOWEST_BITS = 0x0001_0101_0101_0101


@compiled
def expand_bits(bitmap, first, count, target):
    """Bits `first` ... of a bitmap to bytes 0 or 1; reads no byte in which no such bit lies."""
    bits, octets, octet = u8s(bitmap + first // 8), i64s(target), u8s(target)
    shift, whole = first % 8, count // 8
    if shift == 0:
        for k in range(whole):
            bits_8 = bits[k]
            octets[k] = (bits_8 & 0x7F) * SPREAD & LOWEST_BITS | bits_8 >> 7 << 56
    else:
        for k in range(whole):
            bits_8 = (bits[k] | bits[k + 1] << 8) >> shift & 0xFF
            octets[k] = (bits_8 & 0x7F) * SPREAD & LOWEST_BITS | bits_8 >> 7 << 56
    for i in range(8 * whole, count):
        octet[i] = bits[(shift + i) // 8] >> (shift + i) % 8 & 1


@compiled
def set_all(target, count):
    octet = u8s(target)
    for i in range(count):
        octet[i] = 1


# ---- strings to views ----------------------------------------------------------------------


@compiled
def blank_nulls(data, valid, count):
    """Nulls are empty views, so that no code ever follows their addresses."""
    made, is_valid = views(data), u8s(valid)
    for i in range(count):
        if is_valid[i] == 0:
            made[i].head = 0
            made[i].tail = 0


@compiled
def fill_strings(offsets, heap, data, count):
    """Views of the strings that begin and end at the offsets."""
    made = views(data)
    start = offsets[0]
    for i in range(count):
        end = offsets[i + 1]
        head, tail = make_words(heap + start, end - start)
        made[i].head = head
        made[i].tail = tail
        start = end


@compiled
def fill_views(source, buffers_address, data, valid, count):
    """Arrow's view has the number of a buffer and an offset where ours has an address."""
    given, buffers, made, is_valid = views(source), i64s(buffers_address), views(data), u8s(valid)
    for i in range(count):
        head, tail = given[i].head, given[i].tail
        if valid != 0 and is_valid[i] == 0:
            head, tail = 0, 0  # Arrow leaves open what a null view holds
        elif head & LENGTH_MASK > SHORT:
            tail = buffers[tail & BUFFER_MASK] + (tail >> 32)
        made[i].head = head
        made[i].tail = tail


@compiled
def code_at(codes, width, i):
    """A dictionary code; codes are not negative, so signed reads serve unsigned codes of half
    the range, and the mask the others."""
    if width == 1:
        return i8s(codes)[i] & 0xFF
    if width == 2:
        return i16s(codes)[i] & 0xFFFF
    if width == 4:
        return i32s(codes)[i] & 0xFFFFFFFF
    return i64s(codes)[i]


@compiled
def fill_codes(column, codes, data, valid, count):
    table, made, is_valid = views(column.table), views(data), u8s(valid)
    in_table = u8s(column.table_valid)
    width = column.width
    for i in range(count):
        head, tail = 0, 0
        if valid == 0 or is_valid[i] != 0:  # the code of a null may be anything
            code = code_at(codes, width, i)
            if column.table_valid == 0 or in_table[code] != 0:
                head, tail = table[code].head, table[code].tail
            elif valid != 0:
                is_valid[i] = 0
        made[i].head = head
        made[i].tail = tail


# ---- columns -------------------------------------------------------------------------------


@compiled
def fill_validity(column, valid, offset, count):
    if column.bitmap == 0:
        set_all(valid, count)
    else:
        expand_bits(column.bitmap, column.bitmap_bit + offset, count, valid)


@compiled
def fill_column(column, data, valid, offset, count):
    """Rows offset ... offset + count - 1 of a batch's column to a block's, from row 0 on."""
    if valid != 0:
        fill_validity(column, valid, offset, count)
    how = column.how
    source = column.source + offset * column.width
    if how == VALUES:
        copy_bytes(data, source, count * column.width)
    elif how == BITS:
        expand_bits(column.source, column.source_bit + offset, count, data)
    elif how == VIEWS:
        fill_views(source, column.heap, data, valid, count)
    elif how == CODES:
        fill_codes(column, source, data, valid, count)
    else:
        if how == STRINGS:
            fill_strings(i32s(source), column.heap, data, count)
        else:
            fill_strings(i64s(source), column.heap, data, count)
        if valid != 0 and column.bitmap != 0:
            blank_nulls(data, valid, count)


# ---- views to strings ----------------------------------------------------------------------


@compiled
def text_size(data, valid, rows):
    """How many bytes the texts of a column have together."""
    given, is_valid = views(data), u8s(valid)
    size = 0
    for i in range(rows):
        if valid == 0 or is_valid[i] != 0:
            size += given[i].head & LENGTH_MASK
    return size


@compiled
def write_text(data, valid, rows, offsets_address, target):
    """Arrow's offsets and bytes of a column of views. What lies behind the bytes is overwritten:
    `target` needs 16 bytes more than they have."""
    given, is_valid, offsets = views(data), u8s(valid), i32s(offsets_address)
    end = 0
    for i in range(rows):
        offsets[i] = end
        if valid == 0 or is_valid[i] != 0:
            view = given[i]
            size = view.head & LENGTH_MASK
            if size <= SHORT:
                copy_bytes(target + end, view.address + PREFIX, SHORT)
            else:
                copy_long(target + end, view.tail, size)
            end += size
    offsets[rows] = end


@compiled
def copy_long(target, source, size):
    """Copy more than 8 bytes, in pieces of constant size, which are instructions and not calls;
    the last piece may overlap the one before."""
    if size < 16:
        copy_bytes(target, source, 8)
    elif size > 256:
        copy_bytes(target, source, size)
    else:
        at = 0
        while at < size - 16:
            copy_bytes(target + at, source + at, 16)
            at += 16
        copy_bytes(target + size - 16, source + size - 16, 8)
    copy_bytes(target + size - 8, source + size - 8, 8)
