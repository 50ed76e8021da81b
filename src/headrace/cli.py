"""The command `headrace`: run, graph, top, demo, bench, simulate, cluster, dev, warm, doctor.

>>> main(["--version"])
Traceback (most recent call last):
SystemExit: 0
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .bench.arguments import add_bench, count, seconds, writable

DEFAULT_PLOT = "headrace-demo.png"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code. A user's mistake ends in a message, not a traceback."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, say `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if not _is_users(error):
            raise
        print(f"headrace: {error}", file=sys.stderr)
        return 1


def _is_users(error: Exception) -> bool:
    from .bench.harness import MissingPackage
    from .control.errors import ControlError
    from .plan.errors import HeadraceError

    return isinstance(error, HeadraceError | ControlError | MissingPackage | OSError)


def _version() -> str:
    try:
        return version("headrace")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown version"


# ---- arguments -------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headrace", description="Streams of events, written in Python, compiled by Numba."
    )
    parser.add_argument("--version", action="version", version=f"headrace {_version()}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="command")
    _add_run(commands)
    _add_graph(commands)
    _add_top(commands)
    _add_demo(commands)
    add_bench(commands)
    _add_simulate(commands)
    _add_cluster(commands)
    _add_dev(commands)
    warm = commands.add_parser("warm", help="make later starts faster; takes a minute, once")
    warm.set_defaults(command=_warm)
    doctor = commands.add_parser("doctor", help="versions, machine, cache, and whether it works")
    doctor.set_defaults(command=_doctor)
    return parser


def _add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=("spark", "node", "thread"),
        help="where to run (default: HEADRACE_ENGINE, or spark)",
    )


def _workers(text: str) -> int | str:
    return text if text == "auto" else count(text)


def _duration(text: str) -> float:
    """A time, which may be 0."""
    return 0.0 if text == "0" else seconds(text)


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser("run", help="run the outputs that a Python file makes")
    run.add_argument("file", type=Path, help="its outputs are variables: out = stream.write...")
    _add_engine(run)
    run.add_argument("--master", metavar="URL", help="Spark's (default: all cores here)")
    run.add_argument("--checkpoint", type=Path, metavar="FOLDER", help="to go on from")
    run.add_argument("--shards", type=count, help="owners of keys (default: one per core)")
    run.add_argument("--batch-rows", type=count, help="the most rows of a micro-batch")
    run.add_argument("--trigger", metavar="TIME", help="between micro-batches, e.g. '5 seconds'")
    run.add_argument("--workers", type=_workers, help='threads of the node engine, or "auto"')
    run.add_argument("--memory", metavar="BYTES", help="of the node engine, e.g. '2 GiB'")
    run.add_argument("--policy", metavar="NAME", help="who runs first on the node engine")
    run.add_argument("--scheduler", metavar="NAME", help="how its workers find what to run")
    run.add_argument("--idle", metavar="TIME", help="after which silent channels hold nothing back")
    run.add_argument("--seconds", type=seconds, help="stop reading after so long")
    run.add_argument("--explain", action="store_true", help="show the plan, and run nothing")
    run.set_defaults(command=_run)


def _add_graph(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    graph = commands.add_parser(
        "graph", help="draw the pipeline of a Python file, or jobs that run"
    )
    graph.add_argument(
        "file", type=Path, nargs="?", help="as in run (default: the jobs that run, with rates)"
    )
    graph.add_argument(
        "--svg", type=Path, metavar="PATH", help="a drawing, of the first one (default: Mermaid)"
    )
    graph.set_defaults(command=_graph)


def _add_top(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    top = commands.add_parser("top", help="what the jobs do that run in other processes, live")
    top.add_argument(
        "--seconds", type=_duration, help="how long; 0: one look (default: until Ctrl-C)"
    )
    top.add_argument("--json", action="store_true", help="one JSON line per job and second")
    top.set_defaults(command=_top)


def _add_simulate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    simulate = commands.add_parser("simulate", help="try scheduling policies on other machines")
    simulate.add_argument(
        "--machine", default="here", metavar="NAME", help="a preset (default: here)"
    )
    simulate.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="NAME",
        help="may be given again, to compare; all: every one (default: latency_optimized)",
    )
    simulate.add_argument(
        "--scheduler",
        choices=("priority", "assigned", "steered", "free_list", "dedicated", "manual"),
        default="assigned",
        help="who asks the policy (default: assigned; steered: as the node engine does); the last "
        "three ask none",
    )
    simulate.add_argument("--workers", type=count, help="threads (default: one per processor)")
    work = simulate.add_mutually_exclusive_group()
    work.add_argument(
        "--graph",
        choices=("chains", "pipeline", "wide", "mesh"),
        default="chains",
        help="Haren's chains, which rows reach at a rate, or one of Streams' (default: chains)",
    )
    work.add_argument(
        "--profile",
        type=Path,
        action="append",
        metavar="FILE",
        help="operators from a JSON file; given again, queries beside each other",
    )
    simulate.add_argument(
        "--priorities", type=_numbers, metavar="P,P", help="of the queries of profiles"
    )
    simulate.add_argument("--queries", type=count, default=8, help="that are chains (default: 8)")
    simulate.add_argument("--high", type=int, default=2, help="of them of class 1 (default: 2)")
    simulate.add_argument("--operators", type=count, help="in all (default: 12 a chain, or 1,000)")
    simulate.add_argument("--rate", type=seconds, default=1000.0, help="rows/s of each chain")
    simulate.add_argument(
        "--cost", type=seconds, default=20.0, help="µs per row: of a chain, or of an operator"
    )
    simulate.add_argument("--batch", type=count, help="rows of a run (default: the policy's)")
    simulate.add_argument("--period", type=seconds, help="P in seconds (default: the policy's)")
    simulate.add_argument("--seconds", type=seconds, default=1.0, help="simulated (default: 1)")
    simulate.add_argument("--seed", type=int, default=0, help="of all chance (default: 0)")
    simulate.add_argument("--plot", type=Path, metavar="PATH", help="draw a Gantt chart")
    simulate.add_argument("--json", action="store_true", help="one JSON line per policy, only")
    simulate.set_defaults(command=_simulate)


def _add_cluster(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    cluster = commands.add_parser("cluster", help="a Spark cluster to try, on this machine only")
    verbs = cluster.add_subparsers(title="what to do", required=True, metavar="what")
    up = verbs.add_parser("up", help="start a master and workers")
    up.add_argument("--workers", type=count, default=2, help="how many (default: 2)")
    up.add_argument("--cores", type=count, default=1, help="of each worker (default: 1)")
    up.add_argument("--memory", default="1g", help="of each worker (default: 1g)")
    up.add_argument("--port", type=count, help="where the master listens (default: 7077)")
    up.set_defaults(command=_cluster_up)
    down = verbs.add_parser("down", help="stop it and remove its files")
    down.set_defaults(command=_cluster_down)
    status = verbs.add_parser("status", help="does it run? exit code 1 if not")
    status.set_defaults(command=_cluster_status)


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser("demo", help="count ad views per campaign, live, for a few seconds")
    demo.add_argument("--seconds", type=seconds, help="how long (default: 8 on Spark, else 5)")
    demo.add_argument(
        "--plot",
        type=Path,
        default=Path(DEFAULT_PLOT),
        metavar="PATH",
        help=f"where the picture goes (default: {DEFAULT_PLOT} in this folder)",
    )
    _add_engine(demo)
    demo.set_defaults(command=_demo)


def _add_dev(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    dev = commands.add_parser("dev", help="servers to try things with, on this machine only")
    servers = dev.add_subparsers(title="servers", required=True, metavar="server")
    kafka = servers.add_parser("kafka", help="a real Kafka broker")
    verbs = kafka.add_subparsers(title="what to do", required=True, metavar="what")
    up = verbs.add_parser("up", help="start it; fetched from Maven Central the first time")
    up.add_argument("--port", type=count, help="where it listens (default: 9092)")
    up.set_defaults(command=_dev_kafka_up)
    down = verbs.add_parser("down", help="stop it and remove its data")
    down.set_defaults(command=_dev_kafka_down)
    status = verbs.add_parser("status", help="does it run? exit code 1 if not")
    status.set_defaults(command=_dev_kafka_status)


# ---- commands --------------------------------------------------------------------------------


def _demo(options: argparse.Namespace) -> int:
    from . import demo

    writable(options.plot)
    with _spark_ended():
        return 0 if demo.run(options.seconds, options.plot, engine=options.engine) else 1


def _simulate(options: argparse.Namespace) -> int:
    from . import simulate

    return simulate.run(options)


def _run(options: argparse.Namespace) -> int:
    from . import runner

    with _spark_ended():
        return runner.run(options)


def _graph(options: argparse.Namespace) -> int:
    from . import runner

    return runner.graph(options.file, options.svg)


def _top(options: argparse.Namespace) -> int:
    from .observe import top

    if top.watch(options.seconds, as_json=options.json):
        return 0
    print(top.NOBODY, file=sys.stderr)
    return 1


@contextmanager
def _spark_ended() -> Iterator[None]:
    """Leave no Java behind, not even for the moment after our end; one that ran before stays."""
    from .spark.session import close_session, is_running

    ran_before = is_running()
    try:
        yield
    finally:
        if not ran_before:
            close_session()


def _cluster_up(options: argparse.Namespace) -> int:
    from .dev import commands

    return commands.cluster_up(options.workers, options.cores, options.memory, options.port)


def _cluster_down(options: argparse.Namespace) -> int:
    from .dev import commands

    return commands.cluster_down()


def _cluster_status(options: argparse.Namespace) -> int:
    from .dev import commands

    return commands.cluster_status()


def _dev_kafka_up(options: argparse.Namespace) -> int:
    from .dev import commands

    return commands.kafka_up(options.port)


def _dev_kafka_down(options: argparse.Namespace) -> int:
    from .dev import commands

    return commands.kafka_down()


def _dev_kafka_status(options: argparse.Namespace) -> int:
    from .dev import commands

    return commands.kafka_status()


def _warm(options: argparse.Namespace) -> int:
    from .rehearsal import rehearse
    from .spark.archive import make_archive

    print("compiling the node engine", flush=True)
    rehearse()
    print("archiving Spark's Java classes", flush=True)
    path = make_archive()
    print(f"done: {path} ({path.stat().st_size >> 20} MiB)")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from . import doctor

    return doctor.run()


if __name__ == "__main__":
    sys.exit(main())
