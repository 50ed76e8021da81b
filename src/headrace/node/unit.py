"""Units: what workers run. Each is a record that compiled code and the host share.

    SOURCE   claims splits of its channels and copies their rows into blocks
    KERNEL   runs a chain of operators over the blocks of its input ports
    PASS     hands on what several operators give, as one stream
    MERGE    hands on what the replicas of a replicated stage give, in the order of their splits
    GATHER   brings together what the owners of key groups give, row by row
    MIX      hands on what replicas give, in any order
    COLLECT  hands on what owners give, in any order

and *hosted* ones, which call Python and so run on threads of the host (`hosts`), never on a worker:

    READER   polls a channel's connector
    BATCHES  calls a user's function for rows (`map_batches`)
    SINK     gives rows to a connector

A unit is what the plan made of an operator: its code, its inputs, its place in the query, and what
was measured of it (`Unit`). What is under way, a slice on its way through the code into outputs, is
a `Run`.

Where several workers may run one operator at once, it has several units, a *crew*, which share its
inputs and the way to its readers (`worklist`). Who announces one of them while it runs announces
another one, too.

**The contract.** `worker.run_unit` calls the function of a unit's kind, and nobody else does; one
thread at a time has the unit (`claims.UnitState`), so everything here has one writer, but for what
the query's control thread sets. A run never waits: it goes on until it lacks something, its rows
for this time are used up (`worker.left`), or the query is cancelled, and answers why; all that it
has written by then is published. It keeps its place in `Run.phase`, so it may end anywhere and
another worker goes on. It asks whether its query is cancelled before it looks at anything else:
what belongs to a query that is over may be gone. Hosted units may be held up, but only by Python,
between two runs.

    STARVED   no input: whoever pushes announces the unit, or the clock does (`wake_at`)
    BLOCKED   an output lacks room: whoever consumes, or brings a block home, announces it
    AGAIN     more to do, once the readers of what was given have run: the worker lists it
    MORE      more to do, others first: the worker lists it
    HOST      Python has to do what `Run.request` says; then the unit is run again
    FINISHED  it will never have anything to do again, and nobody announces it
"""

from __future__ import annotations

from headrace.node.port import Mark, Slice
from headrace.stage.memory.atomics import load_relaxed
from headrace.stage.memory.records import compiled, i64, line, record

SOURCE, KERNEL, PASS, MERGE, GATHER, MIX, COLLECT, READER, BATCHES, SINK = range(10)
HOSTED = (READER, BATCHES, SINK)
SUFFIXES = {  # of the names of what only brings rows together
    MERGE: " (merge)", MIX: " (merge)", GATHER: " (gather)", COLLECT: " (gather)",
    PASS: " (union)",
}  # fmt: skip

# What a run answers; see above.
STARVED, BLOCKED, AGAIN, MORE, HOST, FINISHED = range(6)
GO_ON = -1  # inside a run: it goes on

MAIN, SIDE = 0, 1  # outputs of a kernel

# Run.phase
NEXT, ROWS, FLUSHING, FIRING, MARKING, ENDING, FAILING = range(7)

# Unit.sampling
NO_SAMPLE, SAMPLE_WANTED, SAMPLE_GIVEN = range(3)

# Run.request
NO_REQUEST, POLL, CALL, WRITE, FINISH, FAILED, FAILED_TIME, NO_MEMORY = range(8)


@record
class QueryRecord:
    """What the units of a query share."""

    cancelled: i64 = line()  # written by the control thread: stop at once
    draining: i64  # written by the control thread: read no more
    transit: i64 = line()  # ns: how long the last split was on its way; written by sinks


@compiled
def is_cancelled(unit):
    """Is the query of a unit to stop at once?"""
    cancelled = load_relaxed(QueryRecord(unit.query), "cancelled")
    return cancelled != 0


@record
class Edge:
    """An input of a unit: its port, and what is known of it. Written by who runs the unit."""

    port: i64 = line()
    rows: i64  # fixed: of a kernel: address of the function for rows of this input
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


@record
class Run:
    """What a unit has under way."""

    task: i64 = line()  # fixed: of a kernel: its Task; of others: SplitRecord, MergeRecord, ...
    outputs: i64  # fixed: address of the Output of each of the unit's outputs
    phase: i64
    request: i64  # what the host has to do
    reading: i64  # the edge whose slice is in work
    serial: i64  # of the split in work,
    due: i64  # and when the oldest row of the slice in work was, in ns
    begun: i64  # the kernel has been called for the slice in work
    ticket: i64  # the serial of the slice in work, where several units share an operator
    slice: Slice = line()
    mark: Mark = line()


@record
class Unit:
    """One unit."""

    kind: i64 = line()  # fixed, like all up to `own_run`, but for `run` where it works on parts
    number: i64
    query: i64
    run: i64  # address of its Run
    edge_count: i64
    edges: i64  # address of its Edges
    output_count: i64
    advance: i64  # of a kernel: address of the function that gives out windows,
    room: i64  # and of the one that takes memory
    partial: i64  # the kernel gives its windows out after each split,
    single: i64  # or, if that is better, its rows one by one
    latency: i64  # of a sink: histogram of how long splits took,
    result_latency: i64  # of those that gave it rows,
    markers: i64  # and of how long markers took
    hosted: i64  # it runs on a thread of the host
    owned: i64  # its input has rows of other owners, too
    place_column: i64  # of an owner: the column of its input with the place; -1: none
    worklist: i64  # of several units of one operator: address of what they share; 0: it is alone
    crew: i64  # how many they are,
    peer: i64  # and the number of the next one
    own_run: i64  # of one that works on parts (`parting`): its own Run; `run` is that of the part
    part: i64  # that it has, if it has one
    turn: i64 = line()  # the edge that is looked at first
    arrived: i64  # edges through which the mark of the split has come,
    least: i64  # and the least watermark that it brought
    ended: i64  # edges that have ended
    watermark: i64
    finished: i64
    reached: i64  # rows that have come to a window since the last split,
    tried: i64  # and splits in which none did
    place: i64  # of an owner: of the last row that it has worked on,
    told: i64  # and the last one that was told
    wake_at: i64 = line()  # run it again then, in ns; 0: no need
    patience: i64  # of a hosted unit: until when it waits for more rows, in ns; 0: it does not
    seen: i64  # ns: the end of its last run
    why: i64  # the last answer
    rows_in: i64 = line()
    runs: i64
    busy: i64  # ns
    starved: i64  # ns between a run that found nothing more and the next run
    blocked: i64  # ns, likewise for an output that was full
    marked: i64  # of a sink: rows before the last split was settled
    cost: i64  # of a row, in parts of a ns (`hooks.COST_UNIT`), the last runs more
    watched: i64  # runs of which the time on a core is taken for the cost
    last_rows: i64  # of the last run,
    last_ns: i64  # and how long it took
    sampling: i64 = line()  # the host wants rows of its input; who runs it keeps some aside
    sample_block: i64  # held for the host
    sample_first: i64
    sample_last: i64
    sample_ns: i64  # that the kernel took for them; 0: not known
