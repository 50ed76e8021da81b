"""The queue of rows that wait for their time (`waiting`): which of them goes on next.

A row of the queue is three words: its time, the first bytes of its key, and its place. Most rows
stand in a *run*, which is in order; many that come together are sorted into it at once. Where few
come, as a timer that is set, they go to a binary heap beside it, and wait there until the next time
that many come. The first of the two comes next. How rows compare is generated
(`generate/waiting.py`): by time, key and place.

The memory has two halves of `queue_room` rows: that of the run, and that of the heap.
"""

from __future__ import annotations

from .memory.instructions import copy_bytes
from .memory.records import compiled, i64, i64s

QUEUE_WORDS = 3  # of a row
ROW_BYTES = QUEUE_WORDS * i64.size
FEW_SHARE = 8  # so many times as many must wait for new rows to be few


@compiled
def lacks_queue(panes, rows):
    """Is there no room for so many more rows in the queue?"""
    return panes.waiting + rows > panes.queue_room


@compiled
def are_many(panes, rows):
    """Are new rows so many that all are sorted, or few, which enter the heap?"""
    return FEW_SHARE * rows > panes.waiting


@compiled
def time_at(panes, at):
    """The time of a row of the queue."""
    return i64s(panes.queue)[QUEUE_WORDS * at]


@compiled
def next_time(panes):
    """The time of the row that goes on next; there is one."""
    return time_at(panes, panes.next_row)


@compiled
def next_place(panes):
    """The place of the row that goes on next."""
    return i64s(panes.queue)[QUEUE_WORDS * panes.next_row + 2]


@compiled
def is_due(panes, watermark):
    """Is there a row that goes on?"""
    return panes.waiting > 0 and next_time(panes) < watermark


@compiled
def put_row(panes, at, time, prefix, place):
    """Write a row of the queue."""
    words, first = i64s(panes.queue), QUEUE_WORDS * at
    words[first], words[first + 1], words[first + 2] = time, prefix, place


@compiled
def copy_row(panes, source, target):
    """Write a row of the queue once more, at another place."""
    words = i64s(panes.queue)
    for k in range(QUEUE_WORDS):
        words[QUEUE_WORDS * target + k] = words[QUEUE_WORDS * source + k]


@compiled
def copy_rows(panes, source, target, count):
    """The same for many; the two places do not overlap."""
    where = panes.queue
    copy_bytes(where + target * ROW_BYTES, where + source * ROW_BYTES, count * ROW_BYTES)


@compiled
def change_places(panes, one, other):
    """Let two rows of the heap change places."""
    words, first, second = i64s(panes.queue), QUEUE_WORDS * one, QUEUE_WORDS * other
    for k in range(QUEUE_WORDS):
        words[first + k], words[second + k] = words[second + k], words[first + k]


@compiled
def join_run(panes):
    """Let all rows that wait stand from the beginning on, in no order, for others to be added."""
    count = panes.run_end - panes.run
    if panes.run > 0:
        for k in range(count):
            copy_row(panes, panes.run + k, k)
    copy_rows(panes, panes.queue_room, count, panes.heaped)
    panes.run, panes.run_end, panes.heaped = 0, count + panes.heaped, 0


@compiled
def add_row(panes, time, prefix, place):
    """Put a row behind all others of the run, which is sorted later."""
    put_row(panes, panes.run_end, time, prefix, place)
    panes.run_end += 1
    panes.waiting += 1


@compiled
def clear_queue(panes):
    """Nothing waits."""
    panes.waiting, panes.run, panes.run_end, panes.heaped, panes.next_row = 0, 0, 0, 0, 0


@compiled
def move_queue(panes, queue, room):
    """Go over to other memory, which has room for so many rows in each half."""
    count = panes.run_end - panes.run
    if panes.waiting > 0:
        run, heap = panes.queue + panes.run * ROW_BYTES, panes.queue + panes.queue_room * ROW_BYTES
        copy_bytes(queue, run, count * ROW_BYTES)
        copy_bytes(queue + room * ROW_BYTES, heap, panes.heaped * ROW_BYTES)
    panes.next_row = 0 if panes.next_row < panes.queue_room else room
    panes.run, panes.run_end, panes.queue, panes.queue_room = 0, count, queue, room
