"""Many cores of one machine: ports, pools, schedulers and workers, all of it compiled and GIL-free.

The lock-free parts are plain functions over `stage.memory.atomics`. Compiled they are the engine;
interpreted, `tests/node/explore.py` runs them through all interleavings for small bounds.

    port.py        the ring between two units                      Streams fig. 3; Enjima §3.1.2
    blocks.py      a block with its readers' count and its home    Enjima §3.1
    readers.py     who still reads a block; the last one recycles
    pool.py        the free blocks of a maker                      Enjima §3.1, fig. 3
    growth.py      taking a block, and asking for more in time
    memory.py      chunks of blocks, and the budget of a query     Enjima §3.1
    allocator.py   the thread that makes the next chunk            Enjima §3.1.1
    claims.py      who may run a unit                              Streams fig. 3, for whole units
    free_list.py   a queue of units that are ready                 Streams figs. 4-6
    permits.py     long rows leave a worker free
    parking.py     spin, prepare, scan again, park                 Streams §4.1.3
    futex.py       the system calls under parking
    unit.py        units, their runs, and the contract of both
    emit.py        what units give, and who is told
    running.py     one run of a kernel's unit                      Streams fig. 4; Enjima §3.1.2
    passing.py     units without a kernel: pass, merge, sink       Ordered, definition 5.1
    gathering.py   what owners give, brought together in order     Ordered, definition 5.1
    collecting.py  what owners give, as it comes
    worklist.py    several workers on one operator: its worklist   Ordered §1.1, §3
    reorder.py     what they give, put in order                    Ordered fig. 4
    appending.py   small slices, copied behind each other
    batches.py     a user's function over Arrow batches
    splits.py      rows of channels, claimed; reading.py: in blocks
    worker.py      the loop of a worker                            Streams figs. 4-6
    schedulers/    the hooks, and the schedulers                   Bobox §4.2; Streams figs. 4-6
    graph.py       a plan into operators; building.py: into records
    query.py       what the host does for units; channels.py: for sources
    hosts.py       threads for what calls Python
    engine.py      the threads, and queries that come and go
    loop.py        how the compiled loop is had soon
    mode.py        the loop compiled, or interpreted for tests and cold starts
    histogram.py   latencies, counted by compiled code
    pace.py        when the rows of a source are due

Inside compiled code a statement has at most one call that waits in a loop: the explorer merges
states by a function's locals and the results of the statement it is in.
"""
