"""What threads make comes in the order of the calls, and nothing behind an error."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect import behind as module
from headrace.connect.behind import Behind

WAIT = 60.0


class Broken(Exception):
    pass


def made(number, gates, broken):
    gates[number].wait(WAIT)
    if number == broken:
        raise Broken(number)
    return number


@given(st.permutations(range(4)), st.integers(1, 3), st.integers(0, 6))
def test_as_if_made_one_after_the_other(order, threads, broken):
    """Whatever is ready first; an error is raised by whoever asks next, and by all behind."""
    gates, found, behind = [threading.Event() for _ in order], [], Behind(threads)

    def open_gates():
        for number in order:
            gates[number].set()
            time.sleep(0.001)

    opening = threading.Thread(target=open_gates)
    opening.start()
    raised = False
    for number in range(len(order)):
        try:
            behind.do(lambda number=number: made(number, gates, broken), found.append)
        except Broken:
            raised = True
    if broken < len(order):
        for _ in range(2):
            with pytest.raises(Broken):
                behind.wait()
        assert found == list(range(len(found))) and len(found) <= broken
    else:
        behind.wait()
        assert not raised and found == [0, 1, 2, 3]
    opening.join()


def test_no_more_is_in_the_making_than_there_are_threads():
    gate, begun, behind = threading.Event(), [], Behind(2)

    def make():
        begun.append(None)
        gate.wait(WAIT)

    def ask():
        for _ in range(5):
            behind.do(make, lambda _: None)

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join(0.1)
    assert asking.is_alive() and len(begun) == 2
    gate.set()
    asking.join(WAIT)
    behind.wait()
    assert len(begun) == 5


def test_who_leaves_waits_but_a_moment(monkeypatch):
    monkeypatch.setattr(module, "LEAVING_SECONDS", 0.01)
    gate, over, behind = threading.Event(), threading.Event(), Behind(1)
    behind.do(lambda: gate.wait(WAIT), lambda _: None)
    behind.leave(over.set)
    assert not over.is_set()
    gate.set()
    assert over.wait(WAIT)
