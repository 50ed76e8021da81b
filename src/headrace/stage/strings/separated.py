"""One pass over the bytes of separated values (CSV): where their records end."""

from __future__ import annotations

from ..memory.records import compiled, i64, i64s, record, u8s

NEWLINE, CARRIAGE_RETURN = 10, 13


@record
class Scan:
    """What is looked at, and what was found."""

    data: i64  # address of the bytes
    size: i64
    delimiter: i64
    quote: i64  # -1: nothing is quoted
    ends: i64  # address of an array with room for as many integers as there are newlines
    records: i64  # whole ones: the ends that were written
    lines: i64  # of these
    empty: i64  # how many of these have nothing in them
    bare_returns: i64  # carriage returns outside of quotes that end no line
    irregular: i64  # quotes that neither begin nor end a value: who knows where records end?


@compiled
def scan_records(address):
    """A newline ends a record where the number of quotes before it is even: that is so where all
    quotes are at the ends of values, or are doubled."""
    scan = Scan(address)
    codes, ends = u8s(scan.data), i64s(scan.ends)
    size, quote, delimiter = scan.size, scan.quote, scan.delimiter
    highest = max(quote, CARRIAGE_RETURN)
    inside, start, newlines, count = False, 0, 0, 0
    empty, bare, irregular = 0, 0, 0
    for at in range(size):
        code = codes[at]
        if code > highest:
            continue
        if code == NEWLINE:
            newlines += 1
            if not inside:
                length = at + 1 - start
                if length == 1 or (length == 2 and codes[start] == CARRIAGE_RETURN):
                    empty += 1
                ends[count] = at + 1
                count += 1
                start = at + 1
                scan.lines = newlines
        elif code == quote:
            if inside:
                behind = codes[at + 1] if at + 1 < size else NEWLINE
                if behind != delimiter and behind != NEWLINE and behind != quote:
                    irregular += behind != CARRIAGE_RETURN
            else:
                before = codes[at - 1] if at > 0 else NEWLINE
                if before != delimiter and before != NEWLINE and before != quote:
                    irregular += 1
            inside = not inside
        elif code == CARRIAGE_RETURN:
            if not inside and at + 1 < size and codes[at + 1] != NEWLINE:
                bare += 1
    scan.records, scan.empty, scan.bare_returns, scan.irregular = count, empty, bare, irregular
    return 0
