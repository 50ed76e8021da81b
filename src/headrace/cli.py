"""The command `headrace`: demo, bench, dev, doctor.

>>> main(["--version"])
Traceback (most recent call last):
SystemExit: 0
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
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
    from .plan.errors import HeadraceError

    return isinstance(error, HeadraceError | MissingPackage | OSError)


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
    _add_demo(commands)
    add_bench(commands)
    _add_dev(commands)
    doctor = commands.add_parser("doctor", help="versions, machine, cache, and whether it works")
    doctor.set_defaults(command=_doctor)
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser("demo", help="count ad views per campaign, live, for a few seconds")
    demo.add_argument("--seconds", type=seconds, default=5.0, help="how long (default: 5)")
    demo.add_argument(
        "--plot",
        type=Path,
        default=Path(DEFAULT_PLOT),
        metavar="PATH",
        help=f"where the picture goes (default: {DEFAULT_PLOT} in this folder)",
    )
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
    return 0 if demo.run(options.seconds, options.plot) else 1


def _dev_kafka_up(options: argparse.Namespace) -> int:
    from .dev import commands

    return commands.kafka_up(options.port)


def _dev_kafka_down(options: argparse.Namespace) -> int:
    from .dev import commands

    return commands.kafka_down()


def _dev_kafka_status(options: argparse.Namespace) -> int:
    from .dev import commands

    return commands.kafka_status()


def _doctor(options: argparse.Namespace) -> int:
    from . import doctor

    return doctor.run()


if __name__ == "__main__":
    sys.exit(main())
