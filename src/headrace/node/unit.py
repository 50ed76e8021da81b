"""Units: what workers run. Each is a record that compiled code and the host share.

    SOURCE   claims splits of its channels and copies their rows into blocks
    KERNEL   runs a chain of operators over the blocks of its input ports
    PASS     hands on what several operators give, as one stream
    MERGE    hands on what the slots of a replicated stage give, in the order of their splits
    GATHER   brings together what the owners of key groups give, row by row

and *hosted* ones, which call Python and so run on threads of the host (`hosts`), never on a worker:

    READER   polls a channel's connector
    BATCHES  calls a user's function for rows (`map_batches`)
    SINK     gives rows to a connector

One worker at a time runs a unit (`free_list.UnitState`), so everything here has one writer, but
for what the query's control thread sets. A unit keeps its place in `phase`, so a run may end
anywhere and another worker goes on.
"""

from __future__ import annotations

from headrace.node.port import Slice
from headrace.stage.memory.atomics import load_relaxed
from headrace.stage.memory.records import compiled, i64, line, record

SOURCE, KERNEL, PASS, MERGE, GATHER, READER, BATCHES, SINK = range(8)
HOSTED = (READER, BATCHES, SINK)

# What a run answers.
STARVED = 0  # there is nothing to do until somebody says so
BLOCKED = 1  # an output lacks room; whoever makes some says so
AGAIN = 2  # there is more to do, once the readers of what was given have run
MORE = 3  # there is more to do, but others come first
HOST = 4  # Python has to help: see `request`
FINISHED = 5  # it will never have anything to do again
GO_ON = -1  # inside a run: it goes on

# Unit.phase
NEXT, ROWS, FLUSHING, FIRING, MARKING = range(5)

# Unit.sampling
NO_SAMPLE, SAMPLE_WANTED, SAMPLE_GIVEN = range(3)

# Unit.request
NO_REQUEST, POLL, CALL, WRITE, FINISH, FAILED, FAILED_TIME, NO_MEMORY = range(8)


@record
class QueryRecord:
    """What the units of a query share."""

    cancelled: i64 = line()  # written by the control thread: stop at once
    draining: i64  # written by the control thread: read no more


@compiled
def is_cancelled(unit):
    """Is the query of a unit to stop at once?"""
    cancelled = load_relaxed(QueryRecord(unit.query), "cancelled")
    return cancelled != 0


@record
class Edge:
    """An input of a unit: its port, and what is known of it. Written by who runs the unit."""

    port: i64 = line()
    watermark: i64
    ended: i64
    waiting: i64  # its split is over, and that of another edge is not


@record
class Output:
    """Where a unit writes rows, and who reads them. Written by who runs the unit."""

    block: i64 = line()  # the NodeBlock that is being filled; 0: none
    published: i64  # rows of it that the readers have
    open: i64  # the split, plus 1, whose rows the last slice holds, if it may grow; 0: it may not
    rows: i64  # that were published in all
    blocks: i64  # slices that were published in all
    pool: i64  # fixed: 0 where the unit only hands on the blocks of others
    count: i64  # fixed: of ports
    ports: i64  # fixed: address of their addresses
    ahead: i64  # fixed: of a source: the Ahead of the kernel that reads it; 0: none
    borrows: i64  # fixed: the bytes of its strings lie in batches of the host


@record
class Mark:
    """What came in a port and is no rows: it is handed on when the unit has done its part."""

    kind: i64 = line()
    value: i64
    serial: i64
    channel: i64  # of a SPLIT: whose it was,
    ended: i64  # and whether the channel ends with it (ENDED, STOPPED)
    due: i64  # and when its last row was due, in ns (0: it has none); of a MARKER: since when it is


@record
class Unit:
    """One unit."""

    kind: i64 = line()  # fixed, like all of this line
    number: i64
    query: i64
    task: i64  # of a kernel: its Task; of others: SplitRecord, MergeRecord, ChannelFeed, GivenRows
    rows: i64  # address of the kernel's functions
    advance: i64
    room: i64
    edge_count: i64
    edges: i64 = line()
    partial: i64  # fixed: the kernel gives its windows out after each split
    outputs: i64  # fixed: of a source unit: address of the Output of each source,
    sources: i64  # fixed: and how many there are
    latency: i64  # fixed: of a sink: histogram of how long splits took,
    result_latency: i64  # fixed: and of those that gave it rows
    markers: i64  # fixed: of a sink: histogram of how long markers took
    hosted: i64  # fixed: it runs on a thread of the host
    owned: i64  # fixed: its input has rows of other owners, too
    place_column: i64  # fixed: of an owner: the column of its input with the place; -1: none
    phase: i64 = line()
    request: i64  # what the host has to do
    turn: i64  # the edge that is looked at first
    reading: i64  # the edge whose slice is in work
    serial: i64  # of the split in work
    arrived: i64  # edges through which the mark of the split has come,
    least: i64  # and the least watermark that it brought
    ended: i64  # edges that have ended
    watermark: i64
    single: i64  # fixed: of partial results: rows may be given one by one instead
    reached: i64  # rows that have come to a window since the last split,
    tried: i64  # and splits in which none did
    place: i64  # of an owner: of the last row that it has worked on,
    told: i64  # and the last one that was told
    wake_at: i64 = line()  # run it again then, in ns; 0: no need
    patience: i64  # of a hosted unit: until when it waits for more rows, in ns; 0: it does not
    finished: i64
    seen: i64  # ns: the end of its last run
    begun: i64  # the kernel has been called for the slice in work
    rows_in: i64 = line()
    runs: i64
    busy: i64  # ns
    starved: i64  # ns between a run that found nothing more and the next run
    blocked: i64  # ns, likewise for an output that was full
    why: i64  # the last answer
    marked: i64  # of a sink: rows before the last split was settled
    cost: i64 = line()  # of a row, in parts of a ns (`hooks.COST_UNIT`), the last runs more
    last_rows: i64  # of the last run,
    last_ns: i64  # and how long it took
    sampling: i64 = line()  # the host wants rows of its input; who runs it keeps some aside
    sample_block: i64  # held for the host
    sample_first: i64
    sample_last: i64
    sample_ns: i64  # that the kernel took for them; 0: not known
    slice: Slice = line()
    mark: Mark = line()
    main: Output = line()
    late: Output = line()
