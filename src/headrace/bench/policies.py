"""`headrace bench policies`: figures about scheduling, on the node engine and simulated."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.control.simulator import (
    Dedicated,
    FreeList,
    Manual,
    Profile,
    Simulation,
    machine_named,
    mesh,
    pipeline,
    wide,
)

from . import report
from .figure import Figure, Found, by_name
from .node.ablation import ablation
from .node.agreement import agreement
from .node.bench import Bench, Settings
from .node.classes import classes
from .node.policies import cost, mixed
from .node.steps import steps

Rates = dict[str, float]  # rows per second by threading model


@dataclass(frozen=True)
class Case:
    """A graph of Streams' experiments, the floating-point operations of a tuple, and what the
    paper's text says about threading models: each before what it beats.
    """

    name: str
    graph: Callable[[float], Profile]
    flops: int
    orderings: tuple[tuple[str, str], ...]
    seconds: float  # simulated; dear rows and full queues take longer to show
    levels: tuple[int, ...]  # threads of dynamic that are tried


def _pipeline(cost: float) -> Profile:
    return pipeline(1000, cost)


def _wide(cost: float) -> Profile:
    return wide(1000, cost)


def _mesh(cost: float) -> Profile:
    return mesh(10, 100, cost)


# §5.1: "The manual model always performs the worst ... The dedicated model always performs best"
PIPELINE = (("dedicated", "dynamic"), ("dynamic", "manual"))
# §5.2, cost 1: "much faster to execute all sequentially"; "the dynamic model fares better" than
# dedicated. "As the cost increases, the relationships flip": dynamic first; the text does not
# say how dedicated and manual compare then.
WIDE_CHEAP = (("manual", "dynamic"), ("dynamic", "dedicated"))
WIDE_DEAR = (("dynamic", "dedicated"), ("dynamic", "manual"))
# §5.3: "dynamic threading is always the best ... Manual is worst ... Dedicated better than manual"
MESH = (("dynamic", "dedicated"), ("dedicated", "manual"))

MANY, FEW = (175, 88), (8, 1)  # of 176 processors, one is the source's
CASES = (
    Case("pipeline", _pipeline, 1, PIPELINE, 0.05, MANY),
    Case("pipeline", _pipeline, 100, PIPELINE, 0.05, MANY),
    Case("pipeline", _pipeline, 1000, PIPELINE, 0.2, MANY),
    Case("wide", _wide, 1, WIDE_CHEAP, 0.01, FEW),
    Case("wide", _wide, 10_000, WIDE_DEAR, 0.02, (32, 8)),
    Case("wide", _wide, 100_000, WIDE_DEAR, 0.02, (88, 32)),
    Case("mesh", _mesh, 1, MESH, 0.03, MANY),
    Case("mesh", _mesh, 100, MESH, 0.03, MANY),
    Case("mesh", _mesh, 1000, MESH, 0.1, MANY),
)


def rates(case: Case, machine_name: str, levels: Sequence[int] = ()) -> Rates:
    """Rows per second at the sink under each threading model; dynamic with its best level."""
    machine = machine_named(machine_name)
    profile = case.graph(case.flops * machine.costs.flop)

    def rate(scheduler: Any) -> float:
        simulation = Simulation(profile, machine, scheduler)
        return simulation.simulate(case.seconds, warm_up=case.seconds / 2).throughput

    tried = sorted({min(level, machine.processors - 1) for level in levels or case.levels})
    return {
        "manual": rate(Manual(batch=64)),
        "dedicated": rate(Dedicated()),
        "dynamic": max(rate(FreeList(level)) for level in tried),
    }


def simulated(bench: report.Bench, machine: str = "streams-xeon") -> dict[str, Found]:
    """The share of the orderings of Streams figs. 9 and 10 that hold in the simulator."""
    found, held = [], 0
    for case in CASES:
        bench.say(f"{case.name}, {case.flops:,} flops")
        measured = rates(case, machine)
        right = [measured[first] > measured[second] for first, second in case.orderings]
        held += sum(right)
        found.append(
            {
                "graph": case.name,
                "flops": case.flops,
                **{model: round(rate) for model, rate in measured.items()},
                "orderings": [" > ".join(pair) for pair in case.orderings],
                "held": right,
            }
        )
    total = sum(len(case.orderings) for case in CASES)
    details = {"held": held, "orderings": total, "machine": machine, "cases": found}
    return {"simulated": Found(held / total, True, details)}


def whole_second(bench: report.Bench, machine_name: str = "streams-xeon") -> dict[str, Found]:
    """CPU seconds that one simulated second of 1,000 operators on all processors takes."""
    bench.say("a whole second")
    machine = machine_named(machine_name)
    profile = pipeline(1000, 1000 * machine.costs.flop)
    started = time.process_time()
    result = Simulation(profile, machine, FreeList(machine.processors - 1)).simulate(1.0)
    spent = time.process_time() - started
    details = {"machine": machine_name, "runs": result.decisions, "rows": result.processed}
    return {"simulated_second": Found(spent, True, details)}


FIGURES = by_name(
    Figure("ablation", "YSB: state-based and blocks to threads and queues (Enjima fig. 9)", 4.0),
    Figure("cost", "YSB, fused: the slowest policy against none", 0.97),
    Figure("mixed", "8 queries: mean latency of latency_optimized to the lowest", 1.05, True),
    Figure("multi_class", "HIGH queries' worst latency: dedicated threads to classes", 20.0),
    Figure("steps", "until throughput follows a step (Enjima fig. 6)", 1.0, True, "s"),
    Figure("agreement", "policies that the simulator ranks as the node engine does", 1.0),
    Figure("agreement_rates", "rates simulated and on the engine: the difference", 0.15, True),
    Figure("simulated", "orderings of manual, dedicated, dynamic (Streams figs. 9, 10)", 1.0),
    Figure("simulated_second", "one of 176 cores, 1,000 operators", 60.0, True, "s of CPU"),
)

SUITE = report.Suite(
    "headrace bench policies: threading models and policies",
    FIGURES,
    {
        ("ablation",): ablation,
        ("cost",): cost,
        ("mixed",): mixed,
        ("multi_class",): classes,
        ("steps",): steps,
        ("agreement", "agreement_rates"): agreement,
        ("simulated",): simulated,
        ("simulated_second",): whole_second,
    },
)


def run(
    names: Sequence[str] = (), *, settings: Settings | None = None, **shown: Any
) -> list[report.Result]:
    """Measure figures (all, without names), print them as `report.run` does, and give them."""
    return report.run(SUITE, Bench(settings or Settings()), names, **shown)
