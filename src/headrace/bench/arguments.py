"""The arguments of `headrace bench ...`, and what the commands do with them.

What measures is imported by the command that runs, so that the others start quickly.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .node.bench import Settings

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
    _add_operators(kinds)
    _add_ordered(kinds)
    _add_spark(kinds)
    _add_policies(kinds)
    _add_elastic(kinds)
    _add_gate(kinds)
    _add_surface(kinds)


# ---- values ----------------------------------------------------------------------------------


def _above_zero(text: str, what: str) -> float:
    given = float(text.replace("_", ""))
    if not 0 < given < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not {what}")
    return given


def seconds(text: str) -> float:
    """A time above zero."""
    return _above_zero(text, "a time above zero")


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
    return HALF if text == HALF else _above_zero(text, "a rate: use events per second, or half")


def _scale(text: str) -> float:
    return _above_zero(text, "a number above zero")


def _lengths(text: str) -> list[int]:
    return [count(part) for part in text.split(",")]


def _known(what: str, names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Names out of those that there are, with commas between them."""

    def parsed(text: str) -> list[str]:
        known, given = list(names()), text.split(",")
        for name in given:
            if name not in known:
                raise argparse.ArgumentTypeError(
                    f"no {what} {name!r}; there are: {', '.join(known)}"
                )
        return given

    return parsed


def _spark_cases() -> Iterable[str]:
    from .spark.cases import CASES

    return CASES


# ---- what suites of figures have in common ---------------------------------------------------


def _add_suite(
    kinds: Commands[argparse.ArgumentParser],
    name: str,
    help: str,
    *,
    what: str,
    names: Callable[[], Iterable[str]],
    command: Callable[[argparse.Namespace], list[dict[str, Any]]],
) -> argparse.ArgumentParser:
    parser = kinds.add_parser(name, help=help)
    parser.add_argument(
        "--only",
        f"--{what}",
        action="extend",
        default=[],
        type=_known(what, names),
        metavar="NAME[,NAME]",
        help=f"only these {what}s; may be given again",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help=f"one JSON line per {what}, nothing else")
    form.add_argument("--markdown", action="store_true", help="a table for the documentation")
    parser.add_argument("--plot", type=Path, metavar="PATH", help=f"draw how good the {what}s are")

    def run(options: argparse.Namespace) -> int:
        if options.plot is not None:
            writable(options.plot)
        # one that is missed or skipped is a finding, not a failure of the command; a wrong one is
        return 1 if any(result["correct"] is False for result in command(options)) else 0

    parser.set_defaults(command=run)
    return parser


def _add_figures(
    kinds: Commands[argparse.ArgumentParser],
    name: str,
    help: str,
    settings: Callable[[argparse.Namespace, Any], Any],
    module: str | None = None,
) -> argparse.ArgumentParser:
    """A suite of figures: a module of this package (or of a package in it) with FIGURES and `run`.
    settings: from what was given, and the module."""
    path = f"{__package__}.{module or name}"

    def names() -> Iterable[str]:
        return list(import_module(path).FIGURES)

    def command(options: argparse.Namespace) -> list[dict[str, Any]]:
        suite = import_module(path)
        given = settings(options, suite)
        return list(suite.run(options.only, settings=given, **_shown(options)))

    return _add_suite(kinds, name, help, what="figure", names=names, command=command)


def _shown(options: argparse.Namespace) -> dict[str, Any]:
    return {"as_json": options.json, "markdown": options.markdown, "plot": options.plot}


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
    ysb.add_argument("--prune", action="store_true", help="give only the columns that are used")
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
    chain.add_argument("--rows", type=count, help="rows of the longest chain (default: 8 million)")
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


# ---- suites of figures, spark --------------------------------------------------------------------


def _add_node(kinds: Commands[argparse.ArgumentParser]) -> None:
    says = "all figures of the node engine; takes some minutes"
    _add_sizes(_add_figures(kinds, "node", says, _sizes, "node.suite"))


def _add_policies(kinds: Commands[argparse.ArgumentParser]) -> None:
    says = "policies on the node engine, threading models simulated"
    _add_sizes(_add_figures(kinds, "policies", says, _sizes))


def _add_elastic(kinds: Commands[argparse.ArgumentParser]) -> None:
    says = 'workers="auto" on graphs of many operators'
    _add_sizes(_add_figures(kinds, "elastic", says, _sizes))


def _add_gate(kinds: Commands[argparse.ArgumentParser]) -> None:
    says = "important queries on Spark beside others, with and without a gate"
    _add_sizes(_add_figures(kinds, "gate", says, _sizes))


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    """How much an engine is given to do."""
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--seconds", type=seconds, default=5.0, help="the measure of all times (default: 5)"
    )
    size.add_argument(
        "--quick", action="store_true", help="the smallest sizes: does it work, not how fast"
    )
    parser.add_argument("--rows", type=count, help="rows of the table (default: 4 million)")


def _sizes(options: argparse.Namespace, suite: Any) -> Settings:
    from .node.bench import Settings

    settings = Settings.quick() if options.quick else Settings.lasting(options.seconds)
    return settings if options.rows is None else replace(settings, rows=options.rows)


def _add_stage(kinds: Commands[argparse.ArgumentParser]) -> None:
    def settings(options: argparse.Namespace, suite: Any) -> Any:
        return suite.Settings(rows=options.rows, repeat=options.repeat)

    stage = _add_figures(
        kinds, "stage", "one stage on one thread, as ratios to Polars on two", settings
    )
    stage.add_argument("--rows", type=count, help="rows of each figure (default: its own number)")
    stage.add_argument("--repeat", type=count, default=7, help="timed rounds (default: 7)")


def _add_operators(kinds: Commands[argparse.ArgumentParser]) -> None:
    says = "operators on the node engine, as ratios to simpler ones and Polars"
    _add_rounds(_add_figures(kinds, "operators", says, _rounds))


def _add_ordered(kinds: Commands[argparse.ArgumentParser]) -> None:
    says = "several workers on one operator, rows in order"
    _add_rounds(_add_figures(kinds, "ordered", says, _rounds))


def _add_rounds(suite: argparse.ArgumentParser) -> None:
    suite.add_argument("--rows", type=count, help="rows of each figure (default: its own)")
    suite.add_argument("--repeat", type=count, default=5, help="timed rounds (default: 5)")
    suite.add_argument("--workers", type=count, default=2, help="threads (default: 2)")


def _rounds(options: argparse.Namespace, suite: Any) -> Any:
    return suite.Settings(options.rows, options.repeat, options.workers)


def _add_spark(kinds: Commands[argparse.ArgumentParser]) -> None:
    says = "pipelines on Spark, as ratios to Spark's own ways"
    spark = _add_suite(kinds, "spark", says, what="case", names=_spark_cases, command=_spark)
    spark.add_argument(
        "--rows-scale",
        type=_scale,
        default=1.0,
        metavar="F",
        help="so many times the rows of each case (default: 1)",
    )
    spark.add_argument("--plain", action="store_true", help="files without dictionaries")


def _spark(options: argparse.Namespace) -> list[dict[str, Any]]:
    from .spark import command

    given = {"scale": options.rows_scale, "dictionaries": not options.plain}
    return command.run(options.only, **given, **_shown(options))


def _add_surface(kinds: Commands[argparse.ArgumentParser]) -> None:
    def settings(options: argparse.Namespace, suite: Any) -> Any:
        return suite.Settings(rows=options.rows or suite.Settings.rows, repeat=options.repeat)

    says = "expressions, files and databases, as ratios to Polars and others"
    made = _add_figures(kinds, "surface", says, settings)
    made.add_argument("--rows", type=count, help="rows of each figure (default: 4 million)")
    made.add_argument("--repeat", type=count, default=3, help="timed rounds (default: 3)")
