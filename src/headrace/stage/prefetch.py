"""Prefetching: a kernel asks for the memory that its source copies next.

Copying rows in waits for memory, and the kernel behind it hardly uses memory at all. So while the
kernel works on a block, it asks for the rows of the next one, a cache line with every row; when
they are copied, they are in the cache already.
"""

from __future__ import annotations

from .blocks.arrow_text import FeedRecord
from .memory.instructions import prefetch_for_later
from .memory.records import LINE, array, compiled, i64, line, record

MOST_COLUMNS = 32


@record
class Range:
    """Memory of one column."""

    at: i64
    stop: i64


@record
class Prefetch:
    """What is still to be asked for. Written by the thread that runs the source and the kernel."""

    at: i64 = line()
    stop: i64
    place: i64
    count: i64
    ranges: array(Range, MOST_COLUMNS) = line()


@compiled
def aim(prefetch, feed_address, offset, count):
    """The rows of a feed that come next."""
    feed = FeedRecord(feed_address)
    columns = min(feed.count, MOST_COLUMNS)
    for k in range(columns):
        column, wanted = feed.columns[k], prefetch.ranges[k]
        wanted.at = column.source + offset * column.width
        wanted.stop = wanted.at + count * column.width
    prefetch.place, prefetch.count = 0, columns
    prefetch.at, prefetch.stop = 0, 0


@compiled
def prefetch_lines(prefetch, at, stop, lines):
    """Ask for some more lines of a column; the last ones may lie behind its end.

    Gives what is left of the column. Kernels keep that in locals: in memory, each row would wait
    for what the row before it has written there.
    """
    if at >= stop:
        if prefetch.place >= prefetch.count:
            return at, stop
        wanted = prefetch.ranges[prefetch.place]
        prefetch.place += 1
        at, stop = wanted.at, wanted.stop
    for k in range(lines):
        prefetch_for_later(at + k * LINE)
    return at + lines * LINE, stop
