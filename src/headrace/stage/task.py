"""What a kernel works on: its task, and what it answers."""

from __future__ import annotations

from .memory.calls import call
from .memory.records import array, compiled, i64, line, record

# What a kernel answers. An error at a row is raised; `task.row` says which row it was.
CONSUMED = 0  # all input is done
OUTPUT_FULL = 1  # call again with an empty output block
NEED_MEMORY = 2  # make room where `task.need...` says, then call again

NOT_SELECTED = -1  # the filter in front has not looked at the block yet
MAIN, SIDE = 0, 1  # outputs: what the last operator gives, and rows that came too late or failed
MOST_OUTPUTS = 2
MOST_TABLES = 16  # static tables joined in one kernel

# task.suspended
RUNNING, IN_ROW, BEFORE_COMMIT = 0, 1, 2


@record
class Task:
    """The state of one kernel between calls. Written by the thread that runs the kernel."""

    input: i64  # address of the input block
    first: i64  # its rows [first, last) are the input: in a kernel, row 0 is `first`
    last: i64
    row: i64  # the row in work, as a place in the selection
    selected: i64  # rows that passed the filter in front
    outputs: array(i64, MOST_OUTPUTS)  # address of the block of each output
    written: array(i64, MOST_OUTPUTS)  # rows of it before the row in work
    way: i64  # the branch of the row in work that is next
    late: i64  # late rows so far
    failed: i64  # rows that failed and were left out
    skips: i64  # rows that fail are left out, and nobody wants to see them
    places: i64  # the place of the next row that it gives, where rows are numbered
    low_group: i64  # of a stage of owners: the key groups [low, high) are this one's
    high_group: i64

    suspended: i64 = line()  # the row in work stopped in the middle
    frame: i64  # where its generator lies
    scratch: i64  # its state record, as changed so far
    initial: i64  # a state record as it is in the beginning, where panes hold them
    calling: i64  # of the timers of one moment: the one whose turn it is
    went_off: i64  # has one of them gone off?
    levels: i64  # of panes of states that are open, as bits
    rounds: i64  # of timers, since the last row, where no row will come any more,
    round_left: i64  # and how many are left of this one
    number: i64  # the number of the state record
    need: i64  # address of the store that needs room, if any
    need_window: i64  # the pane that has no store yet,
    need_first: i64  # and the ends of the first
    need_last: i64  # and the last window it belongs to
    needs_window: i64
    needs_order: i64  # records that are to be sorted
    needs_sequence: i64  # the order of the records of the store `need` is to be kept
    needs_spare: i64  # an empty store, to bring panes together in
    needs_queue: i64  # rows that the queue of those that wait must have room for

    heap: i64 = line()  # for strings created in the row
    literals: i64  # views of string constants
    selection: i64  # numbers of the rows that passed the filter in front
    matches: i64  # numbers of the records of a static table that they match
    retry: i64  # places of rows whose match was not where it was first looked for
    hashes: i64  # of the keys of those rows
    single: i64  # a record for the partial result of one row,
    direct: i64  # which is given at once: so many keys that partial results do not reduce them
    known: i64  # for each record of that table: serial of a window, number of the key's record
    store: i64  # the state of `process`; with timers the pane of the state in work
    panes: i64  # the open windows
    tables: array(i64, MOST_TABLES)  # static tables

    watermark: i64 = line()  # windows are given out up to this one
    due: i64  # addresses of the panes to be given out, in order: those of one window,
    due_count: i64  # or, as partial results, all
    firing: i64  # place in that list
    place: i64  # of the next record of the window that is being fired
    order: i64  # scratch memory for sorting
    order_room: i64  # records it is large enough for
    ordered: i64  # where in it the sorted records lie; -1: not sorted yet
    sorted: i64  # how many there are
    partner: i64  # of a join: the next row of the other side for the row at `place`,
    matched: i64  # and whether it has had one


@compiled
def pass_over(task):
    """Go on behind the row that has failed."""
    task.failed += 1
    task.row += 1
    task.suspended = RUNNING


@compiled
def call_rows(rows, task_address):
    """(status, answer) of the kernel `rows`, over rows that fail where they are left out."""
    task = Task(task_address)
    status, answer = call(rows, task_address)
    while status != 0 and task.skips != 0:
        pass_over(task)
        status, answer = call(rows, task_address)
    return status, answer


@compiled
def asks_for_records(task):
    """Is it a store of records that needs room?"""
    asked = task.needs_window + task.needs_order + task.needs_sequence + task.needs_spare
    return asked + task.needs_queue == 0


@compiled
def window_start(time, size, offset):
    """The start of the tumbling window that a time falls into.

    >>> window_start(25, 10, 0), window_start(-1, 10, 0), window_start(25, 10, 7)
    (20, -10, 17)
    """
    return (time - offset) // size * size + offset
