"""`headrace simulate`: what a policy would do on a machine that one does not have."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from .bench.arguments import writable
from .bench.harness import needed
from .control import ControlError
from .control.policies import POLICIES, make_policy
from .control.simulator import (
    Assigned,
    Dedicated,
    FreeList,
    Machine,
    Manual,
    PriorityQueue,
    Profile,
    Result,
    Simulation,
    Steered,
    chains,
    machine_named,
    mesh,
    pipeline,
    wide,
)
from .control.simulator.gantt import draw

POLICY_FREE = ("manual", "dedicated", "free_list")  # schedulers that ask no policy
MOST_CHARTS = 6


def run(options: argparse.Namespace) -> int:
    """Simulate, print, draw."""
    if options.plot is not None:
        writable(options.plot)
        needed("matplotlib.figure", "a plot", "plot")  # now, not after the run
    machine = machine_named(options.machine)
    profile = _profile(options)
    workers = options.workers or machine.processors
    names = [options.scheduler] if options.scheduler in POLICY_FREE else _policies(options.policy)
    results = {}
    for name in names:
        scheduler = _scheduler(options, name, workers)
        simulation = Simulation(
            profile, machine, scheduler, seed=options.seed, trace=options.plot is not None
        )
        # a fifth as long beforehand, so that queues and measurements are what they will be
        results[name] = simulation.simulate(options.seconds, warm_up=options.seconds / 5)
        if options.json:
            print(json.dumps(_figures(name, options, machine, results[name])), flush=True)
    if not options.json:
        console = Console()
        # what is piped into a file has the width of the table, not of a terminal that is not there
        Console(width=None if console.is_terminal else 100).print(table(results, options, machine))
    if options.plot is not None:
        plot(results, options.plot, f"{machine.name}, {options.scheduler}")
        if not options.json:
            print(f"plot: {options.plot}")
    return 0


def _policies(given: Sequence[str]) -> list[str]:
    names = list(POLICIES) if "all" in given else list(given) or ["latency_optimized"]
    for name in names:
        make_policy(name)  # refuses what there is not
    return names


def _profile(options: argparse.Namespace) -> Profile:
    if options.profile:
        given = [Profile.load(path) for path in options.profile]
        profile = given[0] if len(given) == 1 else Profile.together(given)
        return profile.with_priorities(options.priorities) if options.priorities else profile
    cost = options.cost * 1e-6
    if options.graph == "chains":
        if not 0 <= options.high <= options.queries:
            raise ControlError(f"--high {options.high}: there are {options.queries} queries")
        length = max((options.operators or 12 * options.queries) // options.queries, 1)
        return chains(
            options.queries, length, base_cost=cost, rate=options.rate, high_rate=options.rate,
            high=options.high, seed=options.seed,
        )  # fmt: skip
    operators = options.operators or 1000
    graphs: dict[str, Callable[[], Profile]] = {
        "pipeline": lambda: pipeline(operators, cost),
        "wide": lambda: wide(operators, cost),
        "mesh": lambda: mesh(10, max(operators // 10, 1), cost),
    }
    return graphs[options.graph]()


def _scheduler(options: argparse.Namespace, name: str, workers: int) -> Any:
    if options.scheduler == "manual":
        return Manual()
    if options.scheduler == "dedicated":
        return Dedicated()
    if options.scheduler == "free_list":
        return FreeList(workers, seed=options.seed)
    policy = make_policy(name)
    period, batch = options.period or policy.period, options.batch or policy.batch
    policy = replace(policy, period=period, batch=batch)
    if options.scheduler == "priority":
        return PriorityQueue(policy, workers)
    if options.scheduler == "steered":
        return Steered(policy, workers)
    return Assigned(policy, workers, seed=options.seed)


def _figures(
    name: str, options: argparse.Namespace, machine: Machine, result: Result
) -> dict[str, Any]:
    latency = result.latency()
    return {
        "policy": name,
        "scheduler": options.scheduler,
        "machine": machine.name,
        "threads": result.threads,
        "seconds": result.seconds,
        "rows_in": result.rows_in,
        "rows_out": result.rows_out,
        "rows_per_s": result.throughput,
        "latency_mean_s": latency.mean,
        "latency_p95_s": latency.percentile(0.95),
        "latency_max_s": latency.largest,
        "cores_busy": result.busy / result.seconds,
        "scheduling_share": result.scheduling / (result.threads * result.seconds),
        "runs": result.decisions,
        "context_switches": result.switches,
        "most_rows_queued": result.most_queued,
    }


def table(results: dict[str, Result], options: argparse.Namespace, machine: Machine) -> Table:
    """One line per policy, and one per class where there are several."""
    made = Table(
        title=f"{machine.name}: {machine.processors} processors, {options.scheduler}, simulated",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    made.add_column("policy", style="bold", no_wrap=True)
    for heading in ("rows/s", "mean", "p95", "max", "busy", "sched.", "runs", "queued"):
        made.add_column(heading, justify="right", no_wrap=True)
    for name, result in results.items():
        figures = _figures(name, options, machine, result)
        made.add_row(
            name,
            f"{result.throughput:,.0f}",
            *_latencies(result.latency()),
            f"{figures['cores_busy']:.1f}",
            f"{figures['scheduling_share']:.1%}",
            f"{result.decisions:,}",
            f"{result.most_queued:,}",
        )
        classes = sorted({query.query_class for query in result.queries}, reverse=True)
        for each in classes if len(classes) > 1 else ():
            latency = result.latency(each)
            rate = f"{latency.rows / result.seconds:,.0f}"
            made.add_row(f"  class {each}", rate, *_latencies(latency), "", "", "", "")
    return made


def _latencies(latency: Any) -> list[str]:
    if not latency.rows:
        return ["–", "–", "–"]
    return [
        f"{value * 1e3:,.3g} ms" if value < 1 else f"{value:,.3g} s"
        for value in (latency.mean, latency.percentile(0.95), latency.largest)
    ]


def plot(results: dict[str, Result], path: Path, title: str) -> None:
    """Gantt charts, one below the other."""
    figure = needed("matplotlib.figure", "a plot", "plot")
    chosen = list(results.items())[:MOST_CHARTS]
    threads = min(max(result.threads for _, result in chosen), 48)
    height = (0.9 + 0.28 * threads) * len(chosen) + 0.6
    drawing = figure.Figure(figsize=(11, max(height, 2.4)), layout="constrained")
    axes = drawing.subplots(len(chosen), 1, squeeze=False)[:, 0]
    for axis, (name, result) in zip(axes, chosen):
        draw(axis, result.spans, f"{name} on {title}")
    axes[-1].set_xlabel("ms")
    drawing.savefig(path, dpi=130)
