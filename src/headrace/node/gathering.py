"""GATHER units: what the owners of key groups give, brought together in order.

All owners read the same rows and marks, each works on the rows of its key groups, and each hands on
all marks. So what they give between two marks is merged row by row: the results of windows by
window and key, all else by the place of the row that it comes from (Ordered, definition 5.1: the
sequence is that of one owner).

An owner that has nothing to give for a while says how far it has come (PROGRESS) before it starves.
Without that, one owner's rows would wait for another one that may never give any, until every port
is full and nobody can go on.
"""

from __future__ import annotations

from headrace.node.blocks import NodeBlock
from headrace.node.emit import (
    finish_mark,
    finish_slice,
    keep_mark,
    publish,
    ready_to_write,
)
from headrace.node.port import PROGRESS, Mark, Port, Slice, peek
from headrace.node.port import ROWS as ROW_SLICE
from headrace.node.running import PLACES, pass_mark
from headrace.node.unit import (
    AGAIN,
    BLOCKED,
    FINISHED,
    GO_ON,
    MAIN,
    MARKING,
    STARVED,
    Edge,
    Output,
    Run,
    is_cancelled,
)
from headrace.stage.blocks.layout import BlockRecord
from headrace.stage.clock import FOREVER, NEVER
from headrace.stage.memory.arithmetic import float_order
from headrace.stage.memory.calls import call
from headrace.stage.memory.records import (
    compiled,
    f32s,
    f64s,
    flags,
    i8s,
    i16s,
    i32s,
    i64,
    i64s,
    line,
    record,
)
from headrace.stage.row_watermarks import may_have_watermarks
from headrace.stage.strings.heap import Heap, has_overflown
from headrace.stage.strings.words import compare_words, keep_words, views

# How values of a column are copied and compared.
BYTES_1, BYTES_2, BYTES_4, BYTES_8, FLOAT_4, FLOAT_8, TEXT = range(7)

EMPTY, HAS_ROWS, AT_MARK = range(3)  # how an edge stands


@record
class GatheredColumn:
    """A column of the rows that are given, and where it lies in those that come."""

    kind: i64
    source: i64  # its number in the blocks of owners; -1: it is the new place
    nullable: i64


@record
class Stand:
    """How an edge stands: its next rows, and how far its owner has come."""

    slice: Slice = line()
    state: i64 = line()
    next: i64  # row
    places: i64  # address of the places of its rows, where they decide, or of a part of the keys,
    head: i64  # and that of the next row; of places FOREVER: there is none
    passed: i64  # all rows up to this place have been given
    taken: i64  # rows of it that were given at last
    data: i64  # address of the column that is being copied,
    valid: i64  # and of its validity


@record
class GatherRecord:
    """What a gathering works on; written by who runs the unit."""

    place: i64 = line()  # fixed: the column of places in the rows that come; -1: keys decide
    keys: i64  # fixed: address of the numbers of the columns that decide, as GatheredColumns
    key_count: i64
    watermark: i64  # fixed: the column of watermarks in the rows that are given; -1: there is none
    count: i64  # fixed: of columns
    columns: i64  # fixed: address of a GatheredColumn for each
    stands: i64  # fixed: address of the Stand of each edge
    edges: i64  # memory for the edges of the rows that are picked,
    rows: i64  # and for their numbers
    merge: i64  # fixed: address of `merge_rows`
    block: i64 = line()  # that is being filled
    edge_count: i64
    serial: i64  # the split of the last row that was given,
    places: i64  # and how many it had before


@compiled
def run_gather(worker, unit):
    """See the top of this file."""
    run = Run(unit.run)
    while True:
        if is_cancelled(unit):
            return FINISHED
        if run.phase == MARKING:
            answer = pass_mark(worker, unit)
        else:
            answer = gather_rows(worker, unit, GatherRecord(run.task))
        if answer != GO_ON:
            return answer


@compiled
def look_at_edges(worker, unit, gather):
    """See what is next on every edge; gives how many have rows. Marks are taken in here."""
    run = Run(unit.run)
    edges, stands, with_rows = Edge(unit.edges), Stand(gather.stands), 0
    for k in range(unit.edge_count):
        edge, stand = edges[k], stands[k]
        stand.head = FOREVER
        if edge.waiting != 0:
            stand.state = AT_MARK
            continue
        port, slice = Port(edge.port), stand.slice
        stand.state = EMPTY
        while stand.state == EMPTY and peek(port, slice):
            if slice.kind == ROW_SLICE:
                if slice.first < slice.last:
                    stand.state, stand.next = HAS_ROWS, slice.first
                    with_rows += 1
                    if gather.place >= 0:
                        block = NodeBlock(slice.block).block
                        stand.places = block.columns[gather.place].data
                        stand.head = i64s(stand.places)[slice.first]
                else:
                    finish_slice(worker, port, slice, 0)
                    if slice.whole == 0:
                        break
            elif slice.kind == PROGRESS:
                stand.passed = Mark(slice.mark).value
                finish_mark(worker, port, slice)
            else:
                keep_mark(run.mark, slice)
                finish_mark(worker, port, slice)
                edge.waiting, stand.state = 1, AT_MARK
                unit.arrived += 1
    return with_rows


@compiled
def gather_rows(worker, unit, gather):
    """Give the next rows, or take the mark that all owners have come to."""
    run = Run(unit.run)
    with_rows = look_at_edges(worker, unit, gather)
    if unit.arrived == unit.edge_count:
        unit.arrived = 0
        for k in range(unit.edge_count):
            Edge(unit.edges)[k].waiting = 0
            Stand(gather.stands)[k].passed = NEVER
        run.phase = MARKING
        return GO_ON
    if with_rows == 0:
        return STARVED
    serial, due = serial_and_due(unit, gather)
    output = Output(run.outputs)[MAIN]
    if not ready_to_write(worker, output, serial):
        return BLOCKED
    gather.block, gather.edge_count = NodeBlock(output.block).block.address, unit.edge_count
    if serial != gather.serial:
        gather.serial, gather.places = serial, 0
    _, given = call(gather.merge, gather.address)
    if given == 0:
        return STARVED  # until another owner has come further
    leave_slices(worker, unit, gather)
    publish(worker, output, serial, due)
    return AGAIN


@compiled
def serial_and_due(unit, gather):
    """The split that the rows belong to, between two marks it is the same for all; and when the
    oldest of them was due."""
    stands, serial, due = Stand(gather.stands), 0, FOREVER
    for k in range(unit.edge_count):
        if stands[k].state == HAS_ROWS:
            serial, due = stands[k].slice.serial, min(due, stands[k].slice.due)
    return serial, due


@compiled
def merge_rows(address):
    """The next rows into the block that is being filled; gives how many. Called by its address: it
    is compiled also where the loop around it is not yet."""
    gather = GatherRecord(address)
    block = BlockRecord(gather.block)
    picked = pick_rows(gather, block.capacity - block.rows)
    given = copy_rows(gather, block, picked) if picked > 0 else 0
    count_taken(gather, picked, given)
    return given


# ---- which rows come next ------------------------------------------------------------------


@compiled
def pick_rows(gather, room):
    """Note the edge and number of the next rows, up to `room`, as far as it is sure that no owner
    will give one that comes before them."""
    return pick_by_place(gather, room) if gather.place >= 0 else pick_by_key(gather, room)


@compiled
def pick_by_place(gather, room):
    """Rows in the order of their places. Equal ones come from one row, and so from one owner."""
    edges, rows, stands = i32s(gather.edges), i32s(gather.rows), Stand(gather.stands)
    sure, picked = FOREVER - 1, 0
    for k in range(gather.edge_count):
        if stands[k].state == EMPTY:
            sure = min(sure, stands[k].passed)
    while picked < room:
        best, least, second = -1, FOREVER, FOREVER
        for k in range(gather.edge_count):
            head = stands[k].head
            if head < least:
                best, least, second = k, head, least
            elif head < second:
                second = head
        if best < 0 or least > sure:
            break
        stand, limit = stands[best], min(second, sure)
        places, row, last = i64s(stand.places), stand.next, stand.slice.last
        while row < last and picked < room and places[row] <= limit:
            edges[picked], rows[picked] = best, row
            picked += 1
            row += 1
        stand.next = row
        if row == last:
            stand.head = FOREVER
            break  # what follows on this edge has to be looked at first
        stand.head = places[row]
    return picked


@compiled
def pick_by_key(gather, room):
    """Results of windows, by window and key: each owner gives its own in that order."""
    edges, rows, stands = i32s(gather.edges), i32s(gather.rows), Stand(gather.stands)
    for k in range(gather.edge_count):
        if stands[k].state == EMPTY:
            return 0
    key = GatheredColumn(gather.keys)[deciding_part(gather)]
    has_words = is_word(key)
    for k in range(gather.edge_count):
        stand = stands[k]
        if stand.state == HAS_ROWS:
            stand.places = NodeBlock(stand.slice.block).block.columns[key.source].data
            stand.head = order_word(key.kind, stand.places, stand.next) if has_words else 0
    picked = 0
    while picked < room:
        best = -1
        for k in range(gather.edge_count):
            if stands[k].state == HAS_ROWS and (best < 0 or is_ahead(gather, k, best)):
                best = k
        if best < 0:
            break
        stand = stands[best]
        edges[picked], rows[picked] = best, stand.next
        picked += 1
        stand.next += 1
        if stand.next == stand.slice.last:
            break
        if has_words:
            stand.head = order_word(key.kind, stand.places, stand.next)
    return picked


@compiled
def deciding_part(gather):
    """The first part of the keys in which the rows that came differ: mostly they are all of one
    window. Rows of an edge are in order, so it is enough to look at its first and its last one."""
    stands, keys = Stand(gather.stands), GatheredColumn(gather.keys)
    for i in range(gather.key_count - 1):
        other = -1
        for k in range(gather.edge_count):
            stand = stands[k]
            if stand.state == HAS_ROWS:
                other = k if other < 0 else other
                before = stands[other]
                column = NodeBlock(stand.slice.block).block.columns[keys[i].source]
                first = NodeBlock(before.slice.block).block.columns[keys[i].source]
                if (
                    compare(keys[i], first, before.next, column, stand.next) != 0
                    or compare(keys[i], first, before.next, column, stand.slice.last - 1) != 0
                ):
                    return i
    return gather.key_count - 1


@compiled
def is_word(key):
    """Is a part of the keys a word, for every row?"""
    return key.kind != TEXT and key.nullable == 0


@compiled
def is_ahead(gather, k, other):
    """Does the next row of an edge come before that of another one, as far as is known of both?"""
    one, two = Stand(gather.stands)[k].head, Stand(gather.stands)[other].head
    return one < two or (one == two and comes_before(gather, k, other))


@compiled
def comes_before(gather, k, other):
    """Does the next row of an edge come before that of another one, by window and key?"""
    stands, keys = Stand(gather.stands), GatheredColumn(gather.keys)
    one, two = stands[k], stands[other]
    first, second = NodeBlock(one.slice.block).block, NodeBlock(two.slice.block).block
    for i in range(gather.key_count):
        key = keys[i]
        left, right = first.columns[key.source], second.columns[key.source]
        sign = compare(key, left, one.next, right, two.next)
        if sign != 0:
            return sign < 0
    return False


@compiled
def compare(key, left, row, right, other):
    """-1, 0 or 1 of two values; null comes first."""
    if key.nullable != 0:
        valid, also = flags(left.valid)[row], flags(right.valid)[other]
        if valid != also:
            return 1 if valid else -1
        if not valid:
            return 0
    if key.kind == TEXT:
        a, b = views(left.data)[row], views(right.data)[other]
        return compare_words(a.head, a.tail, b.head, b.tail)
    x, y = order_word(key.kind, left.data, row), order_word(key.kind, right.data, other)
    if x == y:
        return 0
    return -1 if x < y else 1


@compiled
def order_word(kind, data, row):
    """A value as an integer of the same order."""
    if kind == BYTES_8:
        return i64s(data)[row]
    if kind == BYTES_4:
        return i32s(data)[row]
    if kind == BYTES_2:
        return i16s(data)[row]
    if kind == BYTES_1:
        return i8s(data)[row]
    if kind == FLOAT_4:
        return float_order(float(f32s(data)[row]))
    return float_order(f64s(data)[row])


# ---- rows into the output ------------------------------------------------------------------


@compiled
def copy_rows(gather, block, picked):
    """Append the picked rows to the output; gives how many there was room for."""
    columns, stands, start = GatheredColumn(gather.columns), Stand(gather.stands), block.rows
    for i in range(gather.count):
        column, target = columns[i], block.columns[i]
        if column.source < 0:
            number_rows(gather, target.data, start, picked)
            continue
        for k in range(gather.edge_count):
            if stands[k].state == HAS_ROWS:
                source = NodeBlock(stands[k].slice.block).block.columns[column.source]
                stands[k].data, stands[k].valid = source.data, source.valid
        if column.kind == TEXT:
            picked = copy_texts(gather, Heap(block.heap), target.data, start, picked)
        else:
            copy_values(gather, column.kind, target.data, start, picked)
        if column.nullable != 0:
            copy_validity(gather, target.valid, start, picked)
    if gather.watermark >= 0:
        may_have_watermarks(block)
    gather.places += picked
    block.rows = start + picked
    return picked


@compiled
def number_rows(gather, data, start, count):
    """New places, in the order in which rows are given."""
    places, first = i64s(data), gather.serial * PLACES + gather.places
    for k in range(count):
        places[start + k] = first + k


@compiled
def copy_values(gather, kind, data, start, count):
    """A column of numbers."""
    edges, rows, stands = i32s(gather.edges), i32s(gather.rows), Stand(gather.stands)
    if kind == BYTES_8 or kind == FLOAT_8:
        to_8 = i64s(data)
        for k in range(count):
            to_8[start + k] = i64s(stands[edges[k]].data)[rows[k]]
    elif kind == BYTES_4 or kind == FLOAT_4:
        to_4 = i32s(data)
        for k in range(count):
            to_4[start + k] = i32s(stands[edges[k]].data)[rows[k]]
    elif kind == BYTES_2:
        to_2 = i16s(data)
        for k in range(count):
            to_2[start + k] = i16s(stands[edges[k]].data)[rows[k]]
    else:
        to_1 = i8s(data)
        for k in range(count):
            to_1[start + k] = i8s(stands[edges[k]].data)[rows[k]]


@compiled
def copy_validity(gather, valid, start, count):
    """Which values of a column are there."""
    edges, rows, stands = i32s(gather.edges), i32s(gather.rows), Stand(gather.stands)
    to = i8s(valid)
    for k in range(count):
        to[start + k] = i8s(stands[edges[k]].valid)[rows[k]]


@compiled
def copy_texts(gather, heap, data, start, count):
    """A column of strings; gives how many rows fit the heap of the block, at least one."""
    edges, rows, stands = i32s(gather.edges), i32s(gather.rows), Stand(gather.stands)
    given = views(data)
    for k in range(count):
        view = views(stands[edges[k]].data)[rows[k]]
        given[start + k].head = view.head
        given[start + k].tail = keep_words(view.head, view.tail, heap)
        if has_overflown(heap):
            return k + 1
    return count


@compiled
def count_taken(gather, picked, given):
    """How many rows of each edge were given; what was picked besides comes again."""
    edges, stands = i32s(gather.edges), Stand(gather.stands)
    for k in range(gather.edge_count):
        stand = stands[k]
        stand.taken = stand.next - stand.slice.first if stand.state == HAS_ROWS else 0
    for at in range(given, picked):
        stands[edges[at]].taken -= 1


@compiled
def leave_slices(worker, unit, gather):
    """Let go of the rows that were given."""
    stands = Stand(gather.stands)
    for k in range(unit.edge_count):
        taken = stands[k].taken
        unit.rows_in += taken
        if taken > 0:
            finish_slice(worker, Port(Edge(unit.edges)[k].port), stands[k].slice, taken)
