"""Slices of a core, as the system tells them."""

import ctypes
import os
import platform
import threading

import pytest

from headrace.node import core_slices
from headrace.node.core_slices import ask_for_slices

SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}.get(platform.machine())
NICE, SLICE = 3, 5  # places among the attributes
pytestmark = pytest.mark.skipif(core_slices._NUMBER is None, reason="another system")


def told():
    """The nice value and the slice of the calling thread."""
    form = core_slices._ATTRIBUTES
    found = ctypes.create_string_buffer(form.size)
    assert ctypes.CDLL(None).syscall(SCHED_GETATTR, 0, found, form.size, 0) == 0
    attributes = form.unpack(found.raw)
    return attributes[NICE], attributes[SLICE]


def in_a_thread(function):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(function()))
    thread.start()
    thread.join()
    return answers[0]


def test_a_thread_gets_what_it_asks_for_and_stays_as_nice():
    def asked():
        os.setpriority(os.PRIO_PROCESS, 0, 7)  # of this thread alone
        assert ask_for_slices(300_000)
        return told()

    before = told()
    nice, length = in_a_thread(asked)
    assert nice == 7 and length in (0, 300_000)  # 0: the system knows no slices
    assert told() == before


def test_a_thread_that_is_scheduled_otherwise_stays_so():
    def asked():
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        return ask_for_slices(300_000), os.sched_getscheduler(0)

    assert in_a_thread(asked) == (False, os.SCHED_BATCH)


def test_a_system_without_it(monkeypatch):
    monkeypatch.setattr(core_slices, "_NUMBER", None)
    assert not ask_for_slices(300_000)
