"""Sleeping until a word changes: Linux' futex on x86-64 and aarch64, plain fall-backs elsewhere.

`wait(address, expected, ns)` sleeps while the 32-bit word at an address holds `expected`, at most
`ns` nanoseconds; `wake(address, count)` wakes up to `count` threads that sleep there. Compiled,
they are the system call, by the name of a C function, so that machine code can be cached. Where
there is no futex, compiled code sleeps in short naps and looks. Interpreted, all goes through
`current`, which a model checker replaces.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import threading

from llvmlite import ir

from headrace.stage.memory.instructions import WORD, intrinsic, register_instruction
from headrace.stage.memory.records import i32, record

SECOND = 1_000_000_000
ALL = (1 << 31) - 1

_SYSTEM_CALLS = {"x86_64": 202, "aarch64": 98}  # of futex
HAS_FUTEX = sys.platform == "linux" and platform.machine() in _SYSTEM_CALLS
_WAIT, _WAKE = 0 | 128, 1 | 128  # in this process only
_NAP = 50_000  # nanoseconds, where there is no futex


@record
class Word:
    """What threads sleep on."""

    value: i32


class System:
    """Sleeping threads of interpreted code."""

    def __init__(self) -> None:
        self._changed = threading.Condition()

    def wait(self, address: int, expected: int, ns: int) -> int:
        """0: woken, or the word has another value. -1: the time is over."""
        with self._changed:
            if ctypes.c_int32.from_address(address).value != expected:
                return 0
            return 0 if self._changed.wait(ns / SECOND) else -1

    def wake(self, address: int, count: int) -> int:
        """Wakes them all, which the caller of wait must expect anyway."""
        with self._changed:
            self._changed.notify_all()
        return 0


current = System()


def wait(address: int, expected: int, ns: int) -> int:
    """Sleep while the word holds `expected`; also returns after `ns`, or for no reason.

    >>> word = Word.allocate()
    >>> wait(word.address, 1, SECOND)  # it holds 0
    0
    """
    return current.wait(address, expected, ns)


def wake(address: int, count: int) -> int:
    """Wake up to `count` threads.

    >>> wake(Word.allocate().address, 1)
    0
    """
    return current.wake(address, count)


def _timespec(b, ns):
    """The address of a struct timespec on the stack."""
    from headrace.stage.memory.numba_internals import cgutils

    place = cgutils.alloca_once(b, ir.ArrayType(WORD, 2))
    first = b.bitcast(place, WORD.as_pointer())
    b.store(b.sdiv(ns, WORD(SECOND)), first)
    b.store(b.srem(ns, WORD(SECOND)), b.gep(first, [WORD(1)], source_etype=WORD))
    return b.ptrtoint(place, WORD)


def _emit_futex(b, operation, address, value, timeout):
    call = intrinsic(b, "syscall", WORD, *[WORD] * 7)
    number = WORD(_SYSTEM_CALLS[platform.machine()])
    zero = WORD(0)
    return b.call(call, [number, address, WORD(operation), value, timeout, zero, zero])


def _emit_wait(context, b, address, expected, ns):
    if HAS_FUTEX:
        return _emit_futex(b, _WAIT, address, expected, _timespec(b, ns))
    nap = b.select(b.icmp_signed("<", ns, WORD(_NAP)), ns, WORD(_NAP))
    half = ir.IntType(32)
    value = b.load_atomic(b.inttoptr(address, half.as_pointer()), "acquire", 4)
    with b.if_then(b.icmp_signed("==", b.sext(value, WORD), expected)):
        b.call(intrinsic(b, "nanosleep", half, WORD, WORD), [_timespec(b, nap), WORD(0)])
    return WORD(0)


def _emit_wake(context, b, address, count):
    return _emit_futex(b, _WAKE, address, count, WORD(0)) if HAS_FUTEX else WORD(0)


register_instruction(wait, 3, "int64", _emit_wait)
register_instruction(wake, 2, "int64", _emit_wake)
