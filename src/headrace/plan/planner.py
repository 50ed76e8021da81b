"""From what the user wrote to stages: names, rewrites, and the cut at exchanges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from .fusion import chains
from .graph import transform, walk
from .nodes import OWNERS, Exchange, Node, Process, Received, Running, Source
from .rebalance import Shared, Turns, for_one_owner
from .rewrites.branches import join_branches
from .rewrites.clocks import place_clocks
from .rewrites.columns import compute_columns, lift_operands
from .rewrites.exchanges import insert_exchanges
from .rewrites.filters import hint_sources, push_filters
from .rewrites.naming import name_operators
from .rewrites.orders import Order, relax_exchanges, relax_windows, settle_orders, spark_orders
from .rewrites.owners import give_owners
from .rewrites.partitions import place_parts, settle_partitions
from .rewrites.pruning import prune_columns
from .rewrites.times import reuse_times


@dataclass(frozen=True)
class StagePlan:
    """A piece of the plan that one owner can run alone.

    `roots` are its outputs (Sink and Exchange nodes), `inputs` the Source and Received nodes.
    """

    number: int
    roots: tuple[Node, ...]
    fuse: str = "auto"
    partitioning: str = OWNERS

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        """Where its rows come from."""
        return tuple(node for node in walk(self.roots) if isinstance(node, Source | Received))

    @property
    def is_owned(self) -> bool:
        """Does it keep the state of keys by key group? Then several owners each run a copy of it,
        on the rows of their groups; what they give is brought together in order."""
        return self._has_state_by_key and not self.has_parts

    @cached_property
    def _has_state_by_key(self) -> bool:
        return any(isinstance(node, Received) and node.owned for node in self.inputs)

    @property
    def has_parts(self) -> bool:
        """Do workers share the key groups of its state by one queue (Ordered §4.1, §4.3)? It is
        one chain then, whose first operator keeps state and gives rows as they come."""
        return self.partitioning != OWNERS and self._has_state_by_key and not self.needs_owners

    @property
    def needs_owners(self) -> str:
        """Why no queue can share the key groups of its state; "": one can."""
        (chain, *others), nodes = chains(self.roots, self.fuse), list(walk(self.roots))
        if not isinstance(chain[0], Process | Running):
            return "windows give results by watermarks and keys, not by rows"
        around = len(nodes) - len(chain)  # what comes in and what goes out; more: rows aside
        return "it has several kernels, or gives rows aside" if others or around != 2 else ""

    @property
    def is_shared(self) -> bool:
        """Are its rows shared anew among workers (`rebalance`)?"""
        return any(isinstance(node, Shared) for node in self.inputs)

    @property
    def width(self) -> int | None:
        """How many workers may run one of its operators at once, if the user has said it."""
        said = [n.width for n in self.inputs if isinstance(n, Shared) and n.width is not None]
        return min(said, default=None)

    @property
    def is_replicated(self) -> bool:
        """Does it read sources? Then it keeps nothing but partial results, and every worker runs a
        copy of it on its own splits; only what it gives is brought together, in order."""
        return any(isinstance(node, Source) for node in self.inputs)


@dataclass(frozen=True)
class Plan:
    """A pipeline in three forms: as it was written, rewritten, and cut into stages."""

    logical: tuple[Node, ...]
    optimized: tuple[Node, ...]
    fuse: str = "auto"
    partitioning: str = OWNERS

    @property
    def whole(self) -> StagePlan:
        """Everything as one stage: what a single owner runs."""
        return StagePlan(0, for_one_owner(self.optimized), self.fuse)

    def orders_on_spark(self) -> dict[str, Order]:
        """By the name of each sink, the order in which it sees rows on Spark."""
        return spark_orders(insert_exchanges(self.optimized))

    def stages(self) -> list[StagePlan]:
        """The stages for many owners, each after those that feed it."""
        return cut(insert_exchanges(self.optimized), self.fuse)

    def owned_stages(self) -> list[StagePlan]:
        """The stages of the node engine with several workers: a stage behind an exchange by key
        has several owners, whose rows come together in order before anything else reads them."""
        parts = self.partitioning != OWNERS
        owned = give_owners(insert_exchanges(self.optimized), parts=parts, fuse=self.fuse)
        return cut(relax_exchanges(owned), self.fuse, self.partitioning)


def plan(
    sinks: Sequence[Node],
    *,
    fuse: str = "auto",
    prune: bool = True,
    ordering: str = "",
    partitioning: str = OWNERS,
) -> Plan:
    """Plan a pipeline.

    fuse: "auto" runs chains of operators as one kernel, "none" each operator by itself.
    prune: False lets sources read and copy all their columns.
    ordering: in which order sinks see rows whose streams do not say it.
    partitioning: how workers share the keys of an operator with state.
    """
    if fuse not in ("auto", "none"):
        raise ValueError(f'fuse={fuse!r}: use "auto" or "none"')
    logical = name_operators(sinks)
    roots = settle_partitions(logical)
    roots = settle_orders(roots, ordering)
    roots = lift_operands(roots)
    roots = place_clocks(roots)
    roots = push_filters(roots)
    roots = reuse_times(roots)
    roots = prune_columns(roots, sources=prune)
    roots = hint_sources(roots)
    roots = compute_columns(roots)
    roots = join_branches(roots)
    roots = relax_windows(roots)
    roots = place_parts(roots)
    return Plan(tuple(logical), tuple(roots), fuse, partitioning)


def cut(roots: Sequence[Node], fuse: str = "auto", partitioning: str = OWNERS) -> list[StagePlan]:
    """Stages, cut at the exchanges: the rows of exchange k are Received with that number."""
    exchanges = [node for node in walk(roots) if isinstance(node, Exchange)]
    number = {id(node): k for k, node in enumerate(exchanges)}
    sent: dict[int, Node] = {}  # the sending side of each exchange

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        made = node.with_inputs(*inputs)
        if not isinstance(node, Exchange):
            return made
        sent[number[id(node)]] = made
        received = Received(
            (),
            made.schema,
            made.name,
            site=made.site,
            key=made.key,
            time=made.time,
            exchange=number[id(node)],
            owned=node.owned,
        )
        return Shared(**vars(received), width=made.width) if isinstance(made, Turns) else received

    sinks = transform(roots, change)
    stages = _stages([*sent.values(), *sinks])
    return [StagePlan(k, tuple(roots), fuse, partitioning) for k, roots in enumerate(stages)]


def _stages(outputs: Sequence[Node]) -> list[list[Node]]:
    """Outputs that share operators belong to one stage."""
    groups: list[tuple[set[int], list[Node]]] = []
    for output in outputs:
        members = {id(node) for node in walk([output])}
        touching = [group for group in groups if group[0] & members]
        merged = [node for group in touching for node in group[1]]
        groups = [group for group in groups if group not in touching]
        groups.append((members.union(*(g[0] for g in touching)), [*merged, output]))
    return _after_their_senders([roots for _, roots in groups])


def _after_their_senders(stages: list[list[Node]]) -> list[list[Node]]:
    """The stages in an order in which rows come from stages before."""
    ordered: list[list[Node]] = []
    known: set[str] = set()
    while stages:
        ready = next(
            roots
            for roots in stages
            if all(n.name in known for n in walk(roots) if isinstance(n, Received))
        )
        stages.remove(ready)
        ordered.append(ready)
        known.update(node.name for node in ready if isinstance(node, Exchange))
    return ordered
