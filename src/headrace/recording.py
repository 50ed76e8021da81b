"""Recording the input of a run, and running it again with the same input.

hr.run(*hr.record("monday", output))          # as always, and written down
hr.run(*hr.replay("monday", output))          # the same rows, at their own pace
hr.run(*hr.replay("monday", output, speed=None))  # as fast as possible
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .plan.checks import Place
from .plan.errors import DataError
from .plan.graph import transform
from .plan.located import stands_at
from .plan.nodes import Node, Source
from .write import Output

if TYPE_CHECKING:
    from .connect.clock import Clock


def record(
    folder: str | os.PathLike[str], *outputs: Output, clock: Clock | None = None
) -> list[Output]:
    """The same outputs, of a pipeline that writes down what its sources give, into a new folder.

    Not on Spark, where ranges may be read again.

    >>> import tempfile
    >>> from headrace import read, run
    >>> folder = tempfile.TemporaryDirectory()
    >>> out = read.memory({"n": [1, 2]}).write.collect()
    >>> _ = run(*record(f"{folder.name}/monday", out), engine="thread")
    >>> _ = run(*replay(f"{folder.name}/monday", out, speed=None), engine="thread")
    >>> out.result().to_pydict()
    {'n': [1, 2]}
    >>> folder.cleanup()
    """
    from .connect.recording import Beginning, RecordingSource

    beginning, root = Beginning(clock), Path(folder)
    return _with_sources(
        "record",
        outputs,
        lambda source, number: RecordingSource(source, root / str(number), beginning),
    )


def replay(
    folder: str | os.PathLike[str],
    *outputs: Output,
    speed: float | None = 1.0,
    clock: Clock | None = None,
) -> list[Output]:
    """The same outputs, of a pipeline that gets what its sources gave when it was recorded.

    `speed` is 1 for the pace of the recording, 10 for ten times as fast, None for no pace. The
    pipeline behind the sources may be another one; its sources must be those of before. Results
    are the same, since they follow from the rows of each channel, and not from when they come.

    >>> import tempfile
    >>> from headrace import read, run
    >>> folder = tempfile.TemporaryDirectory()
    >>> rows = read.memory({"n": [1, 2]})
    >>> _ = run(*record(f"{folder.name}/monday", rows.write.null()), engine="thread")
    >>> other = read.memory({"n": [0]}).write.collect()
    >>> _ = run(*replay(f"{folder.name}/monday", other, speed=None), engine="thread")
    >>> other.result().to_pydict()
    {'n': [1, 2]}
    >>> folder.cleanup()
    """
    from .connect.recording import Beginning, RecordedSource

    beginning, root = Beginning(clock), Path(folder)
    return _with_sources(
        "replay",
        outputs,
        lambda source, number: RecordedSource(
            root / str(number), source.schema(), speed, beginning
        ),
    )


def _with_sources(
    kind: str, outputs: Sequence[Output], make: Callable[[Any, int], Any]
) -> list[Output]:
    """The outputs of the same pipeline with other sources, which are made by their numbers."""
    place, count = Place(kind, None), 0

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        nonlocal count
        if not isinstance(node, Source):
            return node.with_inputs(*inputs)
        try:
            made = make(node.connector, count)
        except DataError as error:
            raise place.error(str(error)) from None
        stands_at(made, place)
        count += 1
        return replace(node, connector=made)

    if not outputs:
        raise place.error("there is no output", f"hr.{kind}(folder, stream.write.collect())")
    roots = transform([output.node for output in outputs], change)
    return [replace(output, node=root) for output, root in zip(outputs, roots)]  # type: ignore[arg-type]
