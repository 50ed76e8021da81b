"""The gate of a Spark session: which of its queries may begin the next micro-batch.

On Spark every query runs by itself, and all take the same cores. At a gate they ask: a policy ranks
those that wait, so many run at once, and batches are no longer than they have to be, since nothing
ends a batch that runs (docs/scheduling.md).
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from .options import AUTO, OptionError, chosen_count, chosen_policy, microseconds

if TYPE_CHECKING:
    from .control.admission import Standing
    from .spark.gate import Gatekeeper

WIDTH = 120


class Gate:
    """Queries on Spark that share a session, one before the other.

    Give it to each of them: `hr.start(..., engine="spark", gate=gate, priority="high")`.

    >>> import headrace as hr
    >>> with hr.Gate(policy="fcfs", running=2) as gate:
    ...     gate.running, gate.standings(), gate.scheduling()
    (2, [], "policy 'fcfs', 2 at once")
    """

    def __init__(
        self, policy: Any = None, *, running: int | str = AUTO, patience: Any = "5s"
    ) -> None:
        """A gate for queries that are still to be started.

        Args:
            policy: Who goes first of those that wait, as in `run`; by default queries with more
                `priority`, equals in turns. `use` changes it.
            running: How many micro-batches run at once, besides those of less important queries,
                which hold nobody up. "auto": as many as are worth it, by the
                rows that all queries read together, and batches as large as that takes.
            patience: A time such as "5s": who has waited for so long goes first whatever the policy
                says, though no two in a row do.
        """
        from .spark.gate import Gatekeeper

        chosen = None if running == AUTO else chosen_count("running", running, "batches")
        seconds = microseconds("patience", patience) / 1e6
        self._keeper: Gatekeeper = Gatekeeper(chosen_policy(policy), chosen, seconds)

    @property
    def running(self) -> int:
        """How many micro-batches may run at once, now.

        >>> Gate(running=3).running
        3
        """
        return self._keeper.running

    def use(self, policy: Any, *, batch: int | None = None) -> None:
        """Let another policy say who goes first, while queries run.

        Args:
            policy: As in `run`.
            batch: Rows that a micro-batch has, at most.

        >>> gate = Gate(running=1)
        >>> gate.use("highest_rate")
        >>> gate.scheduling()
        "policy 'highest_rate', 1 at once"
        """
        chosen = chosen_policy(policy, batch=batch)
        if chosen is None:
            raise OptionError("policy=None: this is not a policy\n  fix: name one")
        self._keeper.use(chosen)

    def scheduling(self) -> str:
        """Who decides, and how many batches run at once.

        >>> Gate(running=1).scheduling()
        "policy 'in_turns', 1 at once"
        """
        return self._keeper.said()

    def standings(self) -> list[Standing]:
        """What each query does and why: those that run, those that wait, the next first, and those
        that have no rows.

        >>> Gate().standings()
        []
        """
        return self._keeper.standings()

    def table(self) -> str:
        """The standings as text.

        >>> print(Gate(running=1).table())
        policy 'in_turns', 1 at once; no queries
        """
        from rich import box
        from rich.console import Console
        from rich.table import Table

        standings = self.standings()
        if not standings:
            return f"{self.scheduling()}; no queries"
        made = Table(title=self.scheduling(), box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in ("query", "", "seconds", "priority", "pending", "batches", "why"):
            made.add_column(heading, justify="left" if heading in ("query", "", "why") else "right")
        for line in standings:
            numbers = f"{line.seconds:.1f}", f"{line.priority:g}", f"{line.pending:,}"
            made.add_row(line.query, line.state, *numbers, f"{line.batches:,}", line.why)
        console = Console(file=io.StringIO(), width=WIDTH)
        console.print(made)
        return console.file.getvalue()  # type: ignore[attr-defined]

    def close(self) -> None:
        """Nobody waits any more: queries that still run go on without a gate.

        >>> Gate(running=1).close()
        """
        self._keeper.close()

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def chosen_gate(gate: Any, priority: Any) -> Gatekeeper | None:
    """The value of `gate=`; an OptionError where it is none, or where a priority needs one.

    >>> chosen_gate(None, "high")
    Traceback (most recent call last):
    headrace.options.OptionError: priority='high': on Spark queries have priorities at a gate
      fix: gate=hr.Gate(), the same for all of them
    """
    if gate is None:
        if priority is not None:
            raise OptionError(
                f"priority={priority!r}: on Spark queries have priorities at a gate\n"
                "  fix: gate=hr.Gate(), the same for all of them"
            )
        return None
    if not isinstance(gate, Gate):
        raise OptionError(f"gate={gate!r}: this is not a gate\n  fix: gate=hr.Gate()")
    return gate._keeper
