"""The node of `process` with timers and a time-to-live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .by_time import InTurn
from .functions import Function, Output, StateSpec
from .windows.waiting import Waiting


@dataclass(frozen=True, eq=False)
class Timer:
    """A timer of `process`: the field of the state that it is set by, and what is called then."""

    field: str
    function: Function
    arguments: tuple[str, ...] = ()  # columns of the key, and the event time: when it goes off

    def __str__(self) -> str:
        return f"{self.field}: {self.function.name}({', '.join(self.arguments)})"


@dataclass(frozen=True, eq=False)
class TimedProcess(InTurn):
    """Like `Process`, in the order of event time: rows wait for it, and so do timers."""

    function: Function = None  # type: ignore[assignment]
    arguments: tuple[str, ...] = ()
    timers: tuple[Timer, ...] = ()
    outputs: tuple[Output, ...] = ()
    kind: ClassVar[str] = "timed_process"

    @property
    def kept(self) -> tuple[str, ...]:
        """See InTurn."""
        return tuple(name for name in self.arguments if name != self.at)

    @property
    def state(self) -> StateSpec:
        """What is kept for a key."""
        assert self.function.state is not None
        return self.function.state

    def detail(self) -> str:
        """See Node."""
        said = f"{self.function.name}({', '.join(self.arguments)}) by {', '.join(self.key)}"
        ttl = self.window.kept if isinstance(self.window, Waiting) else None
        timers = [f"timer {timer}" for timer in self.timers]
        return ", ".join([said, *timers, *([] if ttl is None else [f"ttl {ttl}"])])
