"""The arguments of `headrace bench ...`, and what the commands do with them.

What measures is imported by the command that runs, so that the others start quickly.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

Commands = argparse._SubParsersAction  # of parsers; argparse has no public name for it

HALF = "half"


def add_bench(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command and its kinds."""
    bench = commands.add_parser("bench", help="measure")
    kinds = bench.add_subparsers(title="what to measure", required=True, metavar="what")
    _add_ysb(kinds)
    _add_chain(kinds)
    _add_node(kinds)
    _add_stage(kinds)
    _add_spark(kinds)
    _add_policies(kinds)


# ---- values ----------------------------------------------------------------------------------


def seconds(text: str) -> float:
    """A time above zero."""
    given = float(text)
    if not 0 < given < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a time above zero")
    return given


def count(text: str) -> int:
    """A whole number above zero; 1_000 is one, too."""
    given = int(text.replace("_", ""))
    if given < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return given


def writable(path: Path) -> None:
    """Say now, not after the run, that a picture cannot be written."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a picture in it")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} for the plot {path.name}")


def _rate(text: str) -> float | str:
    if text == HALF:
        return HALF
    rate = float(text.replace("_", ""))
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a rate: use events per second, or half")
    return rate


def _lengths(text: str) -> list[int]:
    return [count(part) for part in text.split(",")]


def _stage_figure(text: str) -> str:
    from .figures import FIGURES

    return _one_of(text, list(FIGURES))


def _node_figure(text: str) -> str:
    from .node_figures import FIGURES

    return _one_of(text, list(FIGURES))


def _policies_figure(text: str) -> str:
    from .policies import FIGURES

    return _one_of(text, list(FIGURES))


def _case(text: str) -> str:
    from .spark.cases import CASES

    return _one_of(text, list(CASES), "case")


def _scale(text: str) -> float:
    given = float(text)
    if not 0 < given < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above zero")
    return given


def _one_of(text: str, known: list[str], what: str = "figure") -> str:
    if text not in known:
        raise argparse.ArgumentTypeError(f"no {what} {text!r}; there are: {', '.join(known)}")
    return text


def _add_choice(parser: argparse.ArgumentParser, what: str, kind: Callable[[str], str]) -> None:
    parser.add_argument(
        f"--{what}",
        action="append",
        default=[],
        type=kind,
        metavar="NAME",
        help=f"only this {what}; may be given again",
    )


# ---- ysb -------------------------------------------------------------------------------------


def _add_ysb(kinds: Commands[argparse.ArgumentParser]) -> None:
    ysb = kinds.add_parser("ysb", help="the Yahoo benchmark on an engine, end to end")
    ysb.add_argument("--engine", choices=("node", "thread", "spark"), default="node")
    ysb.add_argument("--workers", type=count, default=2, help="threads that compute (default: 2)")
    ysb.add_argument("--seconds", type=seconds, default=5.0, help="measured time (default: 5)")
    ysb.add_argument("--queries", type=count, default=1, help="so many at once (default: 1)")
    ysb.add_argument("--fuse", choices=("auto", "none"), default="auto")
    ysb.add_argument(
        "--rate",
        type=_rate,
        metavar="R",
        help="events per second, of all queries together; half: of the maximum, measured first",
    )
    ysb.add_argument("--rows", type=count, help="rows of the table (default: 4 million)")
    ysb.add_argument("--windows", type=count, help="of 10 s that the table spans (default: 10)")
    ysb.add_argument("--prune", action="store_true", help="copy only the columns that are used")
    ysb.add_argument("--capacity", type=count, help="rows in a block (default: the engine's)")
    ysb.add_argument("--runs", type=count, default=1, help="so many in a row (default: 1)")
    ysb.add_argument("--against", choices=("polars",), help="measure it in the same run")
    ysb.add_argument("--watch", action="store_true", help="show the operators while it runs")
    ysb.add_argument("--json", action="store_true", help="one JSON line per run, nothing else")
    ysb.set_defaults(command=_ysb)


def _ysb(options: argparse.Namespace) -> int:
    from headrace.workloads.ysb import ROUND_WINDOWS

    from . import ysb_command
    from .queries import How
    from .ysb import ROWS, Load

    how = How(options.engine, options.workers, options.fuse, options.prune, options.capacity)
    rate = None if options.rate == HALF else options.rate
    load = Load(options.rows or ROWS, options.queries, options.seconds, rate)
    try:
        results = ysb_command.run(
            how,
            load,
            runs=options.runs,
            half=options.rate == HALF,
            against_polars=options.against is not None,
            watch=options.watch,
            windows=options.windows or ROUND_WINDOWS,
            as_json=options.json,
        )
    finally:
        if options.engine == "spark":
            from headrace.spark import close_session

            close_session()
    return 0 if all(result["correct"] for result in results) else 1


# ---- chain -----------------------------------------------------------------------------------


def _add_chain(kinds: Commands[argparse.ArgumentParser]) -> None:
    chain = kinds.add_parser("chain", help="what one more operator in a chain costs")
    chain.add_argument("--engine", choices=("node", "thread"), default="node")
    chain.add_argument("--workers", type=count, default=2, help="threads that compute (default: 2)")
    chain.add_argument(
        "--operators",
        type=_lengths,
        default=None,
        metavar="N,N",
        help="lengths of chains to compare (default: 10,1000)",
    )
    chain.add_argument("--rows", type=count, help="rows of the longest chain (default: 2 million)")
    chain.add_argument("--fuse", choices=("auto", "none"), default="none")
    chain.add_argument("--capacity", type=count, help="rows in a block (default: the engine's)")
    chain.add_argument("--repeat", type=count, default=3, help="timed rounds (default: 3)")
    chain.add_argument("--json", action="store_true", help="one JSON line, nothing else")
    chain.set_defaults(command=_chain)


def _chain(options: argparse.Namespace) -> int:
    from . import chain
    from .queries import How

    how = How(options.engine, options.workers, options.fuse, capacity=options.capacity)
    found = chain.run(
        how,
        lengths=options.operators or chain.LENGTHS,
        rows=options.rows or chain.ROWS,
        repeat=options.repeat,
        as_json=options.json,
    )
    return 0 if found["correct"] else 1


# ---- node ------------------------------------------------------------------------------------


def _add_node(kinds: Commands[argparse.ArgumentParser]) -> None:
    node = kinds.add_parser("node", help="all figures of the node engine; takes some minutes")
    _add_choice(node, "figure", _node_figure)
    node.add_argument(
        "--seconds", type=seconds, default=5.0, help="the measure of all times (default: 5)"
    )
    node.add_argument("--rows", type=count, help="rows of the table (default: 4 million)")
    node.add_argument("--plot", type=Path, metavar="PATH", help="draw how good the figures are")
    form = node.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON line per figure, nothing else")
    form.add_argument("--markdown", action="store_true", help="a table for the documentation")
    node.set_defaults(command=_node)


def _node(options: argparse.Namespace) -> int:
    from . import node
    from .node_figures import Settings
    from .ysb import ROWS

    if options.plot is not None:
        writable(options.plot)
    results = node.run(
        options.figure,
        settings=Settings.lasting(options.seconds, options.rows or ROWS),
        as_json=options.json,
        markdown=options.markdown,
        plot=options.plot,
    )
    # a missed figure is a finding, not a failure of the command; a wrong result is
    return 0 if all(result["correct"] for result in results) else 1


# ---- stage -----------------------------------------------------------------------------------


def _add_stage(kinds: Commands[argparse.ArgumentParser]) -> None:
    stage = kinds.add_parser("stage", help="one stage on one thread, as ratios to Polars on two")
    stage.add_argument("--json", action="store_true", help="one JSON line per figure, nothing else")
    _add_choice(stage, "figure", _stage_figure)
    stage.add_argument("--rows", type=count, help="rows of each figure (default: its own number)")
    stage.add_argument("--repeat", type=count, default=7, help="timed rounds (default: 7)")
    stage.add_argument("--plot", type=Path, metavar="PATH", help="draw the figures as bars")
    stage.set_defaults(command=_stage)


def _stage(options: argparse.Namespace) -> int:
    from . import stage
    from .figures import Settings

    if options.plot is not None:
        writable(options.plot)
    settings = Settings(rows=options.rows, repeat=options.repeat)
    stage.run(options.figure, settings=settings, as_json=options.json, plot=options.plot)
    return 0  # a missed figure is a finding, not a failure of the command


# ---- spark -----------------------------------------------------------------------------------


def _add_spark(kinds: Commands[argparse.ArgumentParser]) -> None:
    spark = kinds.add_parser("spark", help="pipelines on Spark, as ratios to Spark's own ways")
    spark.add_argument("--json", action="store_true", help="one JSON line per case, nothing else")
    _add_choice(spark, "case", _case)
    spark.add_argument(
        "--rows-scale",
        type=_scale,
        default=1.0,
        metavar="F",
        help="so many times the rows of each case (default: 1)",
    )
    spark.set_defaults(command=_spark)


def _spark(options: argparse.Namespace) -> int:
    from .spark import command

    results = command.run(options.case, scale=options.rows_scale, as_json=options.json)
    # a missed ratio is a finding, not a failure of the command; a wrong result is
    return 0 if all(result["correct"] is not False for result in results) else 1


# ---- policies --------------------------------------------------------------------------------


def _add_policies(kinds: Commands[argparse.ArgumentParser]) -> None:
    policies = kinds.add_parser("policies", help="threading models and policies, simulated")
    policies.add_argument("--json", action="store_true", help="one JSON line per figure, only")
    _add_choice(policies, "figure", _policies_figure)
    policies.set_defaults(command=_policies)


def _policies(options: argparse.Namespace) -> int:
    from . import policies

    policies.run(options.figure, as_json=options.json)
    return 0  # a missed figure is a finding, not a failure of the command
