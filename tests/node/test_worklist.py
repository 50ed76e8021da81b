"""The worklist of an operator: claims over all interleavings, and whole pipelines row by row."""

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.choices import Seeded, choices
from tests.counts import count
from tests.node.explore import planted
from tests.node.schedulers import scheduled

import headrace as hr
from headrace.node import building, engine
from headrace.node.mode import Mode
from headrace.node.unit import GO_ON, STARVED, Run, Unit
from headrace.node.worklist import Worklist, claim_slice, next_serial, seal_next
from headrace.stage.memory.atomics import (
    exchange,
    fetch_add,
    load_acquire,
    pause,
    store_release,
)
from headrace.stage.memory.calls import call
from headrace.stage.memory.records import array, compiled, i64, interpreted, line, record

SECONDS = 120.0
ALL = {"sc", "tso", "weak"}

# ---- claims ----------------------------------------------------------------------------------

MOST = 4


@record
class Bell:
    """Rung when a unit may have something to do."""

    rung: i64 = line()


@record
class Desk:
    """What comes in, and who got it."""

    arrived: i64 = line()  # things so far; written by their sender
    taken: i64 = line()  # by who has the flag, without atomics: they do not overlap
    serials: array(i64, MOST)  # of each thing, plus 1; likewise
    all: i64 = line()  # things that were taken, for others to see


@record
class Hand:
    """A worker, as far as a claim asks."""

    left: i64 = line()
    desk: i64
    bells: i64


@compiled
def look(front):
    """For `running.next_input`."""
    desk = Desk(front.edges)
    arrived = load_acquire(desk, "arrived")
    return 0 if desk.taken < arrived else -1


def are_rows(worker, front):
    """For `running.at_rows`."""
    return True


def has_a_place(buffer, serial):
    """For `reorder.in_window`: the buffer is explored by itself."""
    return True


@compiled
def take(worker, unit, work):
    """For `seal_rows`."""
    desk = Desk(worker.desk)
    desk.serials[desk.taken] = next_serial(work) + 1
    desk.taken += 1
    fetch_add(desk, "all", 1)


@compiled
def left_over(work):
    """For `rows_left`."""
    desk = Desk(work.front.edges)
    taken = load_acquire(desk, "all")
    return load_acquire(desk, "arrived") - taken


@compiled
def ring(worker, unit):
    """For `hooks.ready`."""
    exchange(Bell(worker.bells)[unit], "rung", 1)


@compiled
def claim_all(worker, unit, work, desk, total):
    """A unit that claims until all is claimed; without anything to claim it waits to be told."""
    while True:
        worker.left = 1
        answer = claim_slice(worker, unit, work)
        while answer != GO_ON:
            claimed = load_acquire(desk, "all")
            if claimed == total:
                return
            rung = exchange(Bell(worker.bells)[unit.number], "rung", 0)
            if rung != 0:
                break
            pause()


@compiled
def send_things(worker, desk, total):
    """Who writes what comes in."""
    for k in range(total):
        store_release(desk, "arrived", k + 1)
        ring(worker, 0)


TOYS = {
    "next_input": look, "at_rows": are_rows, "in_window": has_a_place, "seal_rows": take,
    "rows_left": left_over, "ready": ring,
}  # fmt: skip


def claims(units, things, sent=0, **bugs):
    """Units that claim things; the last `sent` of them come meanwhile."""
    desk, work, bells = Desk.allocate(), Worklist.allocate(), Bell.allocate(units)
    crew, hands = Unit.allocate(units), Hand.allocate(units + 1)
    ahead = Run.allocate()
    desk.arrived = things - sent
    work.front.edges, work.front.run = desk.address, ahead.address
    for k in range(units + 1):
        hands[k].desk, hands[k].bells = desk.address, bells.address
    for k in range(units):
        crew[k].number, crew[k].peer = k, (k + 1) % units
    claim = interpreted(claim_all, **{**TOYS, **bugs})
    bodies = [lambda k=k: claim(hands[k], crew[k], work, desk, things) for k in range(units)]
    if sent:
        give = interpreted(send_things, **{**TOYS, **bugs})
        bodies.append(lambda: give(hands[units], desk, things))

    def check(results):
        assert ahead.phase == 0
        serials = [desk.serials[k] - 1 for k in range(things)]
        assert serials == list(range(things)), f"serials: {serials}"

    return bodies, check


def test_serials_are_in_the_order_of_arrival(explored):
    explored("two claim two", *claims(2, 2))
    explored("two claim what comes", *claims(2, 1, sent=1))
    explored("three claim two", *claims(3, 2), models=("tso", "sc"))


def test_claiming_without_a_second_look_is_found(found):
    bug = planted(claim_slice, "if left == 0 or not in_window(work.buffer, serial):", "if True:")
    failures = found(*claims(2, 1, sent=1, claim_slice=bug))
    assert set(failures) == ALL and failures["sc"].startswith("deadlock")


def test_two_claims_at_once_are_found(found):
    bug = planted(claim_slice, "if taken != 0:", "if False:")
    failures = found(*claims(2, 2, claim_slice=bug))
    assert "races" in failures["weak"]


def test_a_serial_that_is_taken_at_the_claim_is_found(found):
    """Before the flag, and so before it is known what it will be for."""
    early = planted(
        claim_slice,
        'taken = exchange(work, "sealing", 1)',
        'early = fetch_add(work, "serial", 1)\n        taken = exchange(work, "sealing", 1)\n'
        "        worker.left = early",
        fetch_add=fetch_add,
    )
    late = planted(take, "next_serial(work) + 1", "worker.left + 1")
    assert set(found(*claims(2, 2, claim_slice=early, seal_rows=late))) == ALL


def test_clearing_the_claim_with_a_store_is_found(found):
    bug = planted(
        claim_slice,
        'exchange(work, "sealing", 0)',
        'store_release(work, "sealing", 0)',
        store_release=store_release,
    )
    assert set(found(*claims(2, 1, sent=1, claim_slice=bug))) == {"tso", "weak"}
