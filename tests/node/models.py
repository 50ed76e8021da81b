"""Models of memory for the explorer: what a load may give, and when a store is seen.

    sc     every access acts at once, in some order
    tso    x86: stores wait in a buffer for each thread, in order; updates and sc stores flush it
    weak   C11 without load buffering, as aarch64 needs it: a load may give any value that the
           thread has not seen to be out of date, among the last DEPTH; only release and acquire,
           and updates, hand on what a thread has seen. A plain access that races with a store is
           an error.

A state is a hashable value; addresses are numbers from 0 on; each access gives new states.
"""

from __future__ import annotations

from typing import Any

from tests.node.scripts import Operation

State = Any
DEPTH = 3


class Race(Exception):
    """Two threads, one of which stores, and an access that is not atomic."""


def with_item(values: tuple, index: int, value: Any) -> tuple:
    """The tuple with one item replaced."""
    return (*values[:index], value, *values[index + 1 :])


class SequentiallyConsistent:
    """Every access acts at once."""

    def __init__(self, initial: tuple, threads: int, users: tuple[frozenset[int], ...]) -> None:
        self.initial, self.threads, self.users = initial, threads, users

    def start(self) -> State:
        return self.initial

    def seen(self, state: State) -> Any:
        """What the stores of others are compared by: has anything changed?"""
        return state

    def values(self, state: State) -> tuple:
        """Memory at the end."""
        return state

    def load(self, state: State, thread: int, at: int, order: str) -> list[tuple[Any, State]]:
        return [(state[at], state)]

    def store(self, state: State, thread: int, at: int, value: Any, order: str) -> State:
        return with_item(state, at, value)

    def update(self, state: State, thread: int, at: int, op: Operation) -> list[tuple[Any, State]]:
        assert op.change is not None
        return [(state[at], with_item(state, at, op.change(state[at])))]

    def current(self, state: State, thread: int, at: int) -> tuple[Any, State]:
        """What the system sees at an address; a system call is a full barrier."""
        return state[at], state

    def barrier(self, state: State, thread: int) -> State:
        return state

    def flushes(self, state: State) -> list[tuple[int, State]]:
        """Stores that may reach memory now, by thread."""
        return []

    def refreshed(self, state: State, thread: int) -> State | None:
        """After a pause a thread sees all there is; None: it does already."""
        return None

    def ended(self, state: State, finished: frozenset[int]) -> State:
        return state


class TotalStoreOrder(SequentiallyConsistent):
    """State: (memory, a buffer of (address, value, order) for each thread)."""

    def start(self) -> State:
        return self.initial, ((),) * self.threads

    def seen(self, state: State) -> Any:
        return state[0]

    def values(self, state: State) -> tuple:
        return state[0]

    def load(self, state: State, thread: int, at: int, order: str) -> list[tuple[Any, State]]:
        for where, value, _ in reversed(state[1][thread]):
            if where == at:
                return [(value, state)]
        return [(state[0][at], state)]

    def store(self, state: State, thread: int, at: int, value: Any, order: str) -> State:
        if order == "sc":
            memory, buffers = self.barrier(state, thread)
            return with_item(memory, at, value), buffers
        memory, buffers = state
        return memory, with_item(buffers, thread, (*buffers[thread], (at, value, order)))

    def update(self, state: State, thread: int, at: int, op: Operation) -> list[tuple[Any, State]]:
        assert op.change is not None
        memory, buffers = self.barrier(state, thread)
        return [(memory[at], (with_item(memory, at, op.change(memory[at])), buffers))]

    def current(self, state: State, thread: int, at: int) -> tuple[Any, State]:
        state = self.barrier(state, thread)
        return state[0][at], state

    def ended(self, state: State, finished: frozenset[int]) -> State:
        """Plain stores at the very end have no atomic one behind them."""
        for thread in finished:
            if all(order == "plain" for _, _, order in state[1][thread]):
                state = self.barrier(state, thread)
        return state

    def barrier(self, state: State, thread: int) -> State:
        memory, buffers = state
        for at, value, _ in buffers[thread]:
            memory = with_item(memory, at, value)
        return memory, with_item(buffers, thread, ())

    def flushes(self, state: State) -> list[tuple[int, State]]:
        """Plain stores together with the atomic one behind them."""
        memory, buffers = state
        found = []
        for thread, buffer in enumerate(buffers):
            changed = memory
            for position, (at, value, order) in enumerate(buffer):
                changed = with_item(changed, at, value)
                if order != "plain":
                    rest = with_item(buffers, thread, buffer[position + 1 :])
                    found.append((thread, (changed, rest)))
                    break
        return found


class Weak(SequentiallyConsistent):
    """State: (messages, views, sc view).

    messages: for each address the stores that somebody may still read, as (value, view).
    views: for each thread, and address, the oldest message that it may read. A view is a tuple of
    indices; a message carries the view of the thread that released it.
    """

    def start(self) -> State:
        nothing = (0,) * len(self.initial)
        messages = tuple(((value, nothing),) for value in self.initial)
        return messages, (nothing,) * self.threads, nothing

    def seen(self, state: State) -> Any:
        return state[0]

    def values(self, state: State) -> tuple:
        return tuple(history[-1][0] for history in state[0])

    def load(self, state: State, thread: int, at: int, order: str) -> list[tuple[Any, State]]:
        messages, views, sc_view = state
        view, history = views[thread], messages[at]
        oldest = max(view[at], sc_view[at]) if order == "sc" else view[at]
        if order == "plain" and oldest < len(history) - 1:
            raise Race("a plain load races with a store")
        found = []
        for index in range(oldest, len(history)):
            value, released = history[index]
            seen = with_item(view, at, index)
            if order in ("acquire", "sc"):
                seen = _join(seen, released)
            if seen == view:
                found.append((value, state))
            else:
                after = self._tidy((messages, with_item(views, thread, seen), sc_view))
                found.append((value, after))
        return found

    def store(self, state: State, thread: int, at: int, value: Any, order: str) -> State:
        messages, views, sc_view = state
        if order == "plain" and views[thread][at] < len(messages[at]) - 1:
            raise Race("a plain store races with a store")
        view = with_item(views[thread], at, len(messages[at]))
        alone = with_item((0,) * len(view), at, len(messages[at]))
        released = view if order in ("release", "sc") else alone
        messages = with_item(messages, at, (*messages[at], (value, released)))
        if order == "sc":
            sc_view = with_item(sc_view, at, view[at])
        return self._tidy((messages, with_item(views, thread, view), sc_view))

    def update(self, state: State, thread: int, at: int, op: Operation) -> list[tuple[Any, State]]:
        assert op.change is not None
        messages, views, sc_view = state
        old, released = messages[at][-1]
        found = []
        if op.expected is not None:  # a swap that fails is a load, maybe of an old value
            found = [
                (value, after)
                for value, after in self.load(state, thread, at, "acquire")
                if value != op.expected
            ]
            if old != op.expected:
                return found
        view = _join(views[thread], released)
        view = with_item(view, at, len(messages[at]))
        messages = with_item(messages, at, (*messages[at], (op.change(old), view)))
        sc_view = with_item(sc_view, at, view[at])
        return [*found, (old, self._tidy((messages, with_item(views, thread, view), sc_view)))]

    def current(self, state: State, thread: int, at: int) -> tuple[Any, State]:
        return state[0][at][-1][0], state

    def refreshed(self, state: State, thread: int) -> State | None:
        messages, views, sc_view = state
        newest = tuple(
            len(history) - 1 if thread in users else index
            for history, users, index in zip(messages, self.users, views[thread])
        )
        if newest == views[thread]:
            return None
        return self._tidy((messages, with_item(views, thread, newest), sc_view))

    def ended(self, state: State, finished: frozenset[int]) -> State:
        """A thread that has ended reads nothing."""
        messages, views, sc_view = state
        last = tuple(len(history) - 1 for history in messages)
        views = tuple(last if t in finished else view for t, view in enumerate(views))
        return self._tidy((messages, views, sc_view))

    def _tidy(self, state: State) -> State:
        """Forget the messages that nobody can read any more, and number the others anew."""
        messages, views, sc_view = state
        unread = [
            max(min([views[t][at] for t in users]), len(messages[at]) - DEPTH)
            for at, users in enumerate(self.users)
        ]
        if max(unread, default=0) <= 0:
            return state

        unread = [max(by, 0) for by in unread]

        def moved(view: tuple) -> tuple:
            return tuple([index - by if index > by else 0 for index, by in zip(view, unread)])

        messages = tuple(
            [
                tuple([(value, moved(view)) for value, view in history[by:]])
                for history, by in zip(messages, unread)
            ]
        )
        return messages, tuple([moved(view) for view in views]), moved(sc_view)


def _join(left: tuple, right: tuple) -> tuple:
    return tuple(map(max, left, right))


MODELS = {"sc": SequentiallyConsistent, "tso": TotalStoreOrder, "weak": Weak}
