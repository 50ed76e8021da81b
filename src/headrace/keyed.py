"""Operators that keep a state for each key, or for all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from .beside import Beside
from .expr import Agg, plain
from .expr.functions import check_function
from .plan import build_by_time, build_chosen, build_functions, build_keyed, build_timed
from .plan.checks import Place
from .plan.rebalance import rebalance
from .time import Length
from .windowed import named_aggregates

if TYPE_CHECKING:
    from .stream import Stream

Output = str | Sequence[str] | Mapping[str, Any]
OnError = Literal["fail", "skip", "dead_letter"]


class Keyed(Beside):
    """What a stream gives by looking at the rows before."""

    __slots__ = ()

    def process(
        self,
        function: Callable[..., Any],
        *,
        state: Any,
        output: Output,
        columns: Sequence[str] | None = None,
        timers: Mapping[str, Callable[..., Any]] | None = None,
        ttl: Length | None = None,
        asides: Mapping[str, Output] | None = None,
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> Stream:
        """Zero or more rows for each row, by a compiled generator over a state for each key.

        The first parameter is the state record: a class with annotations and defaults, or a dict
        of names and types (or first values). The key's columns come first in the result.

        timers: names fields of the state, each with a function that is called when event time has
        come to what the field says; it is None then. Its first parameter is the state, the others
        are the key's columns and the event time, by name. ttl: a state is forgotten so much event
        time after its last row or timer. With either, rows wait until the watermark is behind them,
        and are worked on in the order of their times, timers before rows; those before the
        watermark are late (`late()`). A function of which nobody wants rows need not yield.

        asides: other outputs by name, each with its columns as in `output`: `yield hr.aside(name,
        ...)` gives a row to the stream `aside(name)` of the result.

        >>> from headrace.stream import example
        >>> def running(state, price):
        ...     state.total += price
        ...     yield state.total
        >>> keyed = example(user=str, price=float).key_by("user")
        >>> keyed.process(running, state={"total": float}, output="total")
        Stream(user: string, total: float64; key user)

        Users that have been silent for 60 units of time:

        >>> def seen(state, at):
        ...     state.visits += 1
        ...     state.due = at + 60
        >>> def silent(state, at):
        ...     yield at, state.visits
        >>> users = example(user=str, at=int).with_watermark("at", 5).key_by("user")
        >>> users.process(
        ...     seen, state={"visits": int, "due": int | None}, output=["at", "visits"],
        ...     timers={"due": silent}, ttl=1,
        ... )
        Stream(user: string, at: int64, visits: int64; key user; time at)
        """
        if timers is not None or ttl is not None:
            return self._made(
                build_timed.timed_process(
                    self._node,
                    plain(function),
                    state,
                    output,
                    check_function,
                    {} if timers is None else timers,
                    ttl,
                    on_error,
                    columns,
                    name,
                    asides,
                )
            )
        given = plain(function), state, output, check_function, columns, name, asides, on_error
        return self._made(build_functions.process(self._node, *given))

    def limit(self, rows: int, *, name: str | None = None) -> Stream:
        """The first `rows` rows, in their order; of several channels, any so many of them.

        Where all rows of the sources go through limits, a job ends when these have given theirs, as
        if the sources had ended. On Spark, what comes behind them is read and left out.

        >>> from headrace.stream import example
        >>> example(user=str).limit(100)
        Stream(user: string)
        """
        return self._made(build_chosen.limit(self._node, rows, check_function, name))

    def rebalance(self, width: int | None = None, *, name: str | None = None) -> Stream:
        """The same rows, shared anew by what follows: for a few rows that become many, or take
        long, and lie together.

        On a node, all workers, or at most `width`, then run each operator without state, and rows
        stay in order; on Spark rows go in turns to all shards, or to so many, and come behind them
        in any order. `explain()` shows both.

        >>> from headrace.stream import example
        >>> example(folder=str).rebalance(4)
        Stream(folder: string)
        """
        return self._made(rebalance(self._node, width, name))

    def sort_by_time(self, *, name: str | None = None) -> Stream:
        """The same rows in the order of event time; of equal times in their order.

        A row comes when the watermark is behind it, and waits until then: so the bound of
        `with_watermark` says how long. A row before the watermark is late (`late()`). There is one
        copy of the operator, as all rows meet; `merge` is the same for several streams.

        >>> from headrace.stream import example
        >>> example(at=int, said=str).with_watermark("at", 5).sort_by_time()
        Stream(at: int64, said: string; time at)
        """
        return self._made(build_by_time.sort_by_time(self._node, name))

    def dedup(self, *columns: str, within: Length | None = None, name: str | None = None) -> Stream:
        """The first row of those that are equal in these columns, or else in the key.

        within: a row is left out only if its event time is nearer than this to that of a row of
        its key that was given, before or behind it. Keys are then remembered as long as such rows
        may come; one that is farther than this before the watermark is late, and left out. Without
        it, keys are remembered as long as the job runs.

        The order is that of the rows, in a channel.

        >>> from headrace.stream import example
        >>> example(id=int, at=int).with_watermark("at", 10).dedup("id", within=60)
        Stream(id: int64, at: int64; time at)
        """
        return self._made(build_chosen.dedup(self._node, columns, within, check_function, name))

    def running(
        self, aggregates: Mapping[str, Agg] | None = None, *, name: str | None = None, **made: Agg
    ) -> Stream:
        """Every row, at once, with these aggregates over all rows of its key up to this one.

        >>> from headrace.expr import count, sum_
        >>> from headrace.stream import example
        >>> example(user=str, price=float).key_by("user").running(n=count(), spent=sum_("price"))
        Stream(user: string, price: float64, n: int64, spent: float64; key user)
        """
        given = named_aggregates(aggregates, made, Place("running", name))
        return self._made(build_keyed.running(self._node, given, check_function, name))
