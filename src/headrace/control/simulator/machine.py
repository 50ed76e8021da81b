"""Machines to simulate: cores, SMT, caches, sockets, and what it costs to hand rows around.

The costs of a preset are plausible for its kind of processor, not measured on it: what a
simulation says about another machine is an ordering, not a rate. `Costs` can be replaced by
measured ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property

from ..errors import ControlError

NANO, MICRO, MILLI = 1e-9, 1e-6, 1e-3
LINE = 64  # bytes of a cache line


class Distance(IntEnum):
    """How far apart two logical processors are."""

    SAME = 0
    SIBLING = 1  # hardware threads of one core
    SOCKET = 2  # cores that share a last-level cache
    REMOTE = 3  # another NUMA node


@dataclass(frozen=True)
class Costs:
    """Seconds that single steps take.

    >>> Costs.none().push
    0.0
    """

    flop: float = 0.5 * NANO  # of a tuple's work, as Streams counts it
    call: float = 30 * NANO  # submitting a row by a function call (threading model manual)
    push: float = 20 * NANO  # copying a row into a queue
    pop: float = 12 * NANO  # reading a row from a queue
    lock: float = 12 * NANO  # an uncontended compare-and-swap and its release
    transfer: tuple[float, float, float, float] = (0.0, 8 * NANO, 45 * NANO, 110 * NANO)
    from_l3: float = 12 * NANO  # a line that no longer is in the core's own cache
    wake: float = 1.5 * MICRO  # what waking a thread costs who does it
    wake_latency: float = 5 * MICRO  # until the woken thread can run
    handoff: float = 1.5 * MICRO  # a contended lock that puts threads to sleep, per hand-over
    switch: float = 2 * MICRO  # a core goes on with another thread
    time_slice: float = 3 * MILLI  # of the operating system's scheduler
    feature: float = 30 * NANO  # reading one feature of one operator
    rank: float = 60 * NANO  # assigning, ranking and sorting one operator
    barrier: float = 1 * MICRO  # per thread that meets there

    @classmethod
    def none(cls) -> Costs:
        """Nothing but the operators' own work costs anything: for queueing theory."""
        zeros = {name: 0.0 for name in cls.__dataclass_fields__ if name != "transfer"}
        return cls(**{**zeros, "time_slice": float("inf")}, transfer=(0.0, 0.0, 0.0, 0.0))

    def beside_rows(self) -> Costs:
        """What is left where the costs of operators hold what moving their rows takes.

        >>> Costs().beside_rows().push, Costs().beside_rows().wake == Costs().wake
        (0.0, True)
        """
        moving = dict.fromkeys(("call", "push", "pop", "lock", "from_l3"), 0.0)
        return replace(self, **moving, transfer=(0.0, 0.0, 0.0, 0.0))


@dataclass(frozen=True)
class Machine:
    """Sockets of cores of hardware threads; logical processors are numbered like Linux does.

    That is: first one hardware thread of every core, sockets in turns, then the siblings.

    >>> machine = Machine("two sockets", sockets=2, cores=2, smt=2)
    >>> machine.processors, machine.socket_of(1), machine.distance(0, 4)
    (8, 1, <Distance.SIBLING: 1>)
    """

    name: str
    sockets: int = 1
    cores: int = 1  # of a socket
    smt: int = 1  # hardware threads of a core
    smt_gain: float = (
        1.3  # what a core does with all its hardware threads, to what it does with one
    )
    l2_bytes: int = 1 << 20  # of a core
    costs: Costs = field(default_factory=Costs)

    @property
    def processors(self) -> int:
        """Logical processors."""
        return self.sockets * self.cores * self.smt

    @property
    def physical(self) -> int:
        """Cores of all sockets."""
        return self.sockets * self.cores

    def core_of(self, processor: int) -> int:
        """The core that a logical processor belongs to."""
        return processor % self.physical

    def socket_of(self, processor: int) -> int:
        """The socket, and NUMA node, of a logical processor."""
        return self.core_of(processor) % self.sockets

    def distance(self, one: int, other: int) -> Distance:
        """How far a cache line travels between two logical processors."""
        if one == other:
            return Distance.SAME
        if self.core_of(one) == self.core_of(other):
            return Distance.SIBLING
        if self.socket_of(one) == self.socket_of(other):
            return Distance.SOCKET
        return Distance.REMOTE

    @cached_property
    def transfers(self) -> list[list[float]]:
        """Seconds that a cache line takes from one logical processor to another."""
        every = range(self.processors)
        return [[self.costs.transfer[self.distance(a, b)] for b in every] for a in every]

    def speed(self, busy_threads: int) -> float:
        """The speed of each of so many busy hardware threads of one core, to that of one alone.

        >>> Machine("smt", smt=2, smt_gain=1.3).speed(2)
        0.65
        """
        if busy_threads <= 1 or self.smt == 1:
            return 1.0
        gain = 1 + (self.smt_gain - 1) * (busy_threads - 1) / (self.smt - 1)
        return gain / busy_threads


MACHINES = {
    machine.name: machine
    for machine in (
        # Streams §5: 4 Xeon E7-8880 v4 at 2.2 GHz, 176 logical cores
        Machine("streams-xeon", 4, 22, 2, smt_gain=1.3, l2_bytes=256 << 10),
        # Streams §5: 2 Power8 at 3 GHz, 8-way SMT; one of 24 cores is disabled there, none here
        Machine("streams-power8", 2, 12, 8, smt_gain=2.2, l2_bytes=512 << 10),
        # Enjima §5.1: 2 Xeon E5-2620 v2, 6 cores and 12 hardware threads each
        Machine("enjima", 2, 6, 2, l2_bytes=256 << 10),
        # Haren §7.1: the four big cores of an Odroid-XU4
        Machine(
            "haren-odroid", 1, 4, 1, l2_bytes=512 << 10,
            costs=Costs(
                flop=1.5 * NANO, call=100 * NANO, push=80 * NANO, pop=50 * NANO, lock=50 * NANO,
                transfer=(0.0, 0.0, 120 * NANO, 120 * NANO), wake=8 * MICRO,
                wake_latency=20 * MICRO, switch=6 * MICRO, feature=200 * NANO, rank=400 * NANO,
                barrier=10 * MICRO,
            ),
        ),
        # Where headrace is developed: two cores of an EPYC in a virtual machine
        Machine("here", 1, 2, 1, costs=Costs(wake=4 * MICRO, wake_latency=15 * MICRO)),
        Machine("big", 4, 64, 1),
        Machine("ideal", 1, 256, 1, costs=Costs.none()),
    )
}  # fmt: skip


def machine_named(name: str) -> Machine:
    """A preset.

    >>> machine_named("streams-xeon").processors
    176
    >>> machine_named("laptop")
    Traceback (most recent call last):
    headrace.control.errors.ControlError: no machine 'laptop'; there are: streams-xeon, \
streams-power8, enjima, haren-odroid, here, big, ideal
    """
    if name not in MACHINES:
        raise ControlError(f"no machine {name!r}; there are: {', '.join(MACHINES)}")
    return MACHINES[name]
