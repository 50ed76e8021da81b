"""The reorder buffer over all interleavings: everything is sent, once, in order, by whoever comes.

Makers put what they have into the places of their serials, as rows or as a mark, and send; a log
stands for the readers behind. Nobody comes back: what is left in the buffer at the end was lost.
"""

import numpy as np
import pytest
from tests.node.explore import planted

from headrace.node.port import (
    DONE,
    MARKER,
    Mark,
    Port,
    close_rows,
    has_room,
    new_port,
    open_rows,
    pending,
    push_mark,
    room_wanted,
    want_room,
)
from headrace.node.reorder import (
    ReorderBuffer,
    await_turn,
    await_window,
    can_go_on,
    in_window,
    place_of,
    send,
    send_in_order,
    send_locked,
    send_serial,
)
from headrace.node.unit import MAIN, Output
from headrace.stage.memory.atomics import (
    cas,
    load_acquire,
    load_relaxed,
    pause,
    store_relaxed,
    store_release,
)
from headrace.stage.memory.records import array, compiled, i64, i64s, interpreted, line, record

MOST = 4  # serials
ROWS = 100  # that a log says of rows: added to their number


@record
class Log:
    """What was sent; written by who sends, without atomics: they do not overlap."""

    count: i64 = line()
    things: array(i64, 2 * MOST)
    rung: array(i64, MOST) = line()  # by unit: it was told that it may go on


# ---- in the place of what lies behind the buffer ---------------------------------------------


@compiled
def note(log, thing):
    log.things[log.count] = thing
    log.count += 1


@compiled
def note_rows(worker, output, block, first, last, limit, serial, due):
    """For `emit.hand_on`."""
    note(worker, ROWS + first)


@compiled
def note_mark(worker, output, mark):
    """For `emit.give_mark`."""
    note(worker, mark.value)


@compiled
def note_ready(worker, unit):
    """For `hooks.ready`."""
    worker.rung[unit] = 1


@compiled
def keep_value(mark, slice):
    """For `emit.keep_mark`: one field is enough."""
    mark.value = Mark(slice.mark).value


def no_block(worker, block):
    """For `emit.let_go`."""


def always_room(worker, output):
    """For `emit.full_port`."""
    return 0


def no_clock():
    """For `ticks.now`."""
    return 0


def copy_nothing(worker, output, rows, slice):
    """For `appending.append`."""
    return 0


TOYS = {
    "hand_on": note_rows, "give_mark": note_mark, "ready": note_ready, "keep_mark": keep_value,
    "let_go": no_block, "full_port": always_room, "now": no_clock, "append": copy_nothing,
}  # fmt: skip


class Setting:
    """A buffer and a log."""

    def __init__(self, size=MOST, ring=2):
        self.buffer, self.log, outputs = ReorderBuffer.allocate(), Log.allocate(), Output.allocate()
        places = [new_port(ring, producer=k) for k in range(size)]
        addresses = np.array([port.address for port in places], np.int64)
        self.kept = [outputs, places, addresses]
        buffer = self.buffer
        buffer.size, buffer.output_count, buffer.unit = size, 1, MOST - 1
        buffer.ports, buffer.outputs = addresses.ctypes.data, outputs.address

    @property
    def things(self):
        return [self.log.things[k] for k in range(self.log.count)]


# ---- order, and that nothing is left ---------------------------------------------------------


@compiled
def give_marks(log, buffer, first, step, total):
    """A maker of marks: those of every `step`-th serial."""
    serial = first
    while serial < total:
        while not in_window(buffer, serial):
            pause()
        push_mark(place_of(buffer, serial, MAIN), MARKER, 0, serial, 0, 0, 0)
        send(log, buffer)
        serial += step


@compiled
def give_rows(log, buffer, serial):
    """A maker of the rows of one slice, which takes two steps."""
    port = place_of(buffer, serial, MAIN)
    open_rows(port, 0, serial, serial + 1, serial + 2, 0, 0)
    send(log, buffer)
    push_mark(port, DONE, 0, 0, 0, 0, 0)
    send(log, buffer)


def makers(count, total, size=MOST, **bugs):
    made = Setting(size)
    give = interpreted(give_marks, **TOYS, **bugs)
    bodies = [
        lambda first=first: give(made.log, made.buffer, first, count, total)
        for first in range(count)
    ]

    def check(results):
        assert made.things == list(range(total)), f"sent: {made.things}"
        assert made.buffer.next == total

    return bodies, check


def rows_and_a_mark(**bugs):
    """A slice of rows, and a watermark behind it that another worker has come to."""
    made = Setting()
    rows, marks = interpreted(give_rows, **TOYS, **bugs), interpreted(give_marks, **TOYS, **bugs)
    bodies = [
        lambda: rows(made.log, made.buffer, 0),
        lambda: marks(made.log, made.buffer, 1, MOST, 2),
    ]

    def check(results):
        assert made.things == [ROWS, 1], f"sent: {made.things}"
        assert made.buffer.next == 2

    return bodies, check


def test_all_is_sent_in_order(explored):
    explored("two makers, two marks", *makers(2, 2))
    explored("two makers, three marks", *makers(2, 3), models=("tso", "sc"))


def test_a_place_is_used_again_when_it_is_sent(explored):
    explored("two makers, three marks, two places", *makers(2, 3, size=2), models=("tso", "sc"))
    explored("two makers, two marks, one place", *makers(2, 2, size=1))


def test_a_mark_stays_behind_the_slice_before_it(explored):
    explored("rows and a mark", *rows_and_a_mark(), models=("sc",))


@pytest.mark.soak
def test_a_mark_stays_behind_the_slice_before_it_with_store_buffers(explored):
    explored("rows and a mark", *rows_and_a_mark())


# Three workers are too many for all that a port does: in a light one there is one mark, ever.


@compiled
def put_light(port, kind, serial, value, channel, ended, due):
    """For `port.push_mark`."""
    port.ring[0].mark.value = value
    store_release(port, "tail", 1)


@compiled
def peek_light(port, slice):
    """For `port.peek`."""
    tail, head = load_acquire(port, "tail"), load_relaxed(port, "head")
    slice.kind, slice.mark = MARKER, port.ring[0].mark.address
    return tail > head


@compiled
def finish_light(worker, port, slice):
    """For `emit.finish_mark`."""
    store_relaxed(port, "head", 1)


@compiled
def more_light(port):
    """For `port.has_more`."""
    head = load_relaxed(port, "head")
    return load_acquire(port, "tail") > head


LIGHT = {
    "push_mark": put_light, "peek": peek_light, "finish_mark": finish_light,
    "has_more": more_light,
}  # fmt: skip


def test_three_workers_send_in_order(explored):
    explored("three makers, three marks", *makers(3, 3, **LIGHT), models=("tso", "sc"))


def test_all_is_sent_in_order_with_a_lock(explored):
    explored("two makers, two marks", *makers(2, 2, send=send_locked, **LIGHT))
    explored("three makers", *makers(3, 3, send=send_locked, **LIGHT), models=("sc",))


def test_leaving_when_the_lock_is_taken_is_found(found):
    """Nobody looks twice, so who does not wait loses what he has."""
    bug = planted(
        send_locked,
        "acquire(buffer.lock)",
        'if cas(buffer.lock.word, "value", 0, 1) == False:\n        return',
        cas=cas,
    )
    assert set(found(*makers(2, 2, send=bug, **LIGHT))) == ALL


# ---- who waits is told -----------------------------------------------------------------------


@compiled
def wait_for_a_place(log, buffer, serial):
    """A claim that finds no place; gives whether it found one after all."""
    return in_window(buffer, serial) or await_window(buffer, serial)


@compiled
def wait_for_its_turn(log, buffer, serial):
    """A row of this serial has failed; gives whether it is its turn."""
    return await_turn(buffer, serial)


@compiled
def give_mark_of(log, buffer, serial):
    """A maker of one mark."""
    push_mark(place_of(buffer, serial, MAIN), MARKER, 0, serial, 0, 0, 0)
    send(log, buffer)


def one_waits(wait, serial, size, told, **bugs):
    """One waits for a mark to be sent; gives what is explored. told: the unit that is told."""
    made = Setting(size)
    wait, give = interpreted(wait, **TOYS, **bugs), interpreted(give_mark_of, **TOYS, **bugs)
    bodies = [
        lambda: wait(made.log, made.buffer, serial),
        lambda: give(made.log, made.buffer, 0),
    ]

    def check(results):
        assert made.things == [0]
        assert results[0] or made.log.rung[told] == 1, "nobody tells who waits"

    return bodies, check


def test_a_claim_that_waits_for_a_place_is_told(explored):
    explored("a claim waits", *one_waits(wait_for_a_place, 1, 1, MOST - 1))


def test_an_error_waits_for_its_turn(explored):
    explored("an error waits", *one_waits(wait_for_its_turn, 1, 2, 1))


@compiled
def lacks_room(worker, output):
    """For `emit.full_port`: of the one port of an output."""
    port = Port(i64s(output.ports)[0])
    if has_room(port) or want_room(port):
        return 0
    return port.address


@compiled
def note_and_push(worker, output, mark):
    """For `emit.give_mark`."""
    note(worker, mark.value)
    push_mark(Port(i64s(output.ports)[0]), MARKER, 0, 0, 0, 0, 0)


@compiled
def make_room(log, buffer, port):
    """The reader behind takes what fills its port; if that is awaited, a unit runs and sends."""
    head = load_relaxed(port, "head")
    store_release(port, "head", head + 1)
    if room_wanted(port):
        send(log, buffer)


def sending_into_a_full_port(**bugs):
    """The reader's port is full; room is made while a mark is put in."""
    made, behind = Setting(2), new_port(1)
    words = np.array([behind.address], np.int64)
    output = Output(made.buffer.outputs)
    output.count, output.ports = 1, words.ctypes.data
    made.kept += [behind, words]
    push_mark(behind, MARKER, 0, 0, 0, 0, 0)
    toys = {**TOYS, "full_port": lacks_room, "give_mark": note_and_push, **bugs}
    give, room = interpreted(give_mark_of, **toys), interpreted(make_room, **toys)
    bodies = [
        lambda: give(made.log, made.buffer, 0),
        lambda: room(made.log, made.buffer, behind),
    ]

    def check(results):
        assert made.things == [0], "there is room, and nobody sends"

    return bodies, check


def test_sending_goes_on_when_there_is_room(explored):
    explored("a full port", *sending_into_a_full_port())


@compiled
def give_and_close(log, buffer):
    """A maker whose place is full of a slice that may grow: it closes it, to have room again."""
    port = place_of(buffer, 0, MAIN)
    open_rows(port, 0, 0, 1, 2, 0, 0)
    send(log, buffer)
    close_rows(port)
    want_room(port)
    send(log, buffer)


@compiled
def send_only(log, buffer):
    """Another one, who sends what there is."""
    send(log, buffer)


def closing_what_was_read(**bugs):
    made = Setting(size=2, ring=1)
    give, other = (interpreted(each, **TOYS, **bugs) for each in (give_and_close, send_only))
    bodies = [lambda: give(made.log, made.buffer), lambda: other(made.log, made.buffer)]

    def check(results):
        place = place_of(made.buffer, 0, MAIN)
        assert made.things == [ROWS] and place.head == place.tail, "nobody takes it out"

    return bodies, check


def test_a_slice_that_was_read_is_taken_out_when_it_is_closed(explored):
    explored("a slice is closed", *closing_what_was_read(), models=("tso", "sc"))


def test_looking_for_rows_only_is_found(found):
    bug = planted(
        can_go_on,
        "if has_more(place_of(buffer, serial, k)):",
        "if pending(place_of(buffer, serial, k)) > 0:",
        pending=pending,
    )
    assert found(*closing_what_was_read(can_go_on=bug), models=("tso", "sc"))


# ---- planted bugs ----------------------------------------------------------------------------

ALL = {"sc", "tso", "weak"}


def test_no_second_look_is_found(found):
    bug = planted(send, "if not can_go_on(buffer, how, lacks):", "if True:")
    assert set(found(*makers(2, 2, send=bug, **LIGHT))) == ALL


def test_no_second_look_for_room_is_found(found):
    bug = planted(can_go_on, "return has_room_now(Port(lacks))", "return False")
    assert set(found(*sending_into_a_full_port(can_go_on=bug))) == ALL


def test_looking_before_the_flag_is_cleared_is_found(found):
    bug = planted(
        send,
        """exchange(buffer, "sending", 0)  # an update: it sees what those have put in who came
        if not can_go_on(buffer, how, lacks):
            return""",
        """more = can_go_on(buffer, how, lacks)
        exchange(buffer, "sending", 0)
        if not more:
            return""",
    )
    assert set(found(*makers(2, 2, send=bug, **LIGHT))) == ALL


def test_clearing_the_flag_with_a_store_is_found(found):
    """It may be seen only after the second look."""
    bug = planted(
        send,
        'exchange(buffer, "sending", 0)',
        'store_release(buffer, "sending", 0)',
        store_release=store_release,
    )
    assert set(found(*makers(2, 2, send=bug, **LIGHT))) == {"tso", "weak"}


def test_sending_without_the_flag_is_found(found):
    bug = planted(send, "if taken != 0:", "if False:")
    assert "weak" in found(*makers(2, 2, send=bug, **LIGHT))


def test_a_relaxed_publish_is_found(found):
    bug = planted(put_light, "store_release(", "store_relaxed(", store_relaxed=store_relaxed)
    failures = found(*makers(2, 2, **{**LIGHT, "push_mark": bug}))
    assert set(failures) == {"weak"} and "races" in failures["weak"]


def test_leaving_out_the_window_is_found(found):
    bug = planted(
        in_window, 'return serial - load_acquire(buffer, "next") < buffer.size', "return True"
    )
    assert found(*makers(2, 2, 1, in_window=bug))


def test_a_mark_ahead_of_its_slice_is_found(found):
    """Who sends takes a place that is empty for one that is done."""
    too_early = "if at_mark else (SENT if serial == 0 else NOTHING)"
    bug = planted(send_serial, "if at_mark else NOTHING", too_early)
    assert set(found(*rows_and_a_mark(send_serial=bug), models=("tso", "sc"))) == {"tso", "sc"}


def test_moving_on_before_all_is_read_is_found(found):
    """The place is given to a later serial while its mark is still being sent."""
    bug = planted(
        send_in_order,
        """how = send_serial(worker, buffer, serial)
        if how != SENT:
            return how
        serial += 1
        store_release(buffer, "next", serial)""",
        """store_release(buffer, "next", serial + 1)
        how = send_serial(worker, buffer, serial)
        if how != SENT:
            return how
        serial += 1""",
    )
    assert found(*makers(2, 2, 1, send_in_order=bug))


def test_waiting_without_a_second_look_is_found(found):
    bug = planted(await_window, "return in_window(buffer, serial)", "return False")
    assert set(found(*one_waits(wait_for_a_place, 1, 1, MOST - 1, await_window=bug))) == ALL
    bug = planted(
        await_window,
        """exchange(buffer, "awaited", 1)  # an update: either who sends sees it, or we see `next`
    return in_window(buffer, serial)""",
        """there = in_window(buffer, serial)
    exchange(buffer, "awaited", 1)
    return there""",
    )
    assert set(found(*one_waits(wait_for_a_place, 1, 1, MOST - 1, await_window=bug))) == ALL


def test_an_error_without_a_second_look_is_found(found):
    bug = planted(
        await_turn,
        """# likewise
    return load_acquire(buffer, "next") == serial""",
        """
    return False""",
    )
    assert set(found(*one_waits(wait_for_its_turn, 1, 2, 1, await_turn=bug))) == ALL
