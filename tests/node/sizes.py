"""Sizes in the node engine, chosen at random: full ports, tiny windows, short runs."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.choices import Choices

from headrace.node import building, engine, graph

SIZES = {
    (building, "RING"): [1, 2, 16],
    (building, "SPLIT_BLOCKS"): [1, 2, 8],
    (building, "WINDOW"): [1, 2, 8],
    (building, "PLACE_RING"): [1, 2, 4],
    (building, "PART_ROWS"): [1, 3, 64],
    (graph, "PARTS_PER_WORKER"): [1, 2, 4],
    (engine, "OWNERS"): [1, 2, 7],
    (engine, "INTERPRETED_RUN_NS"): [0, 20_000, 5_000_000],
    (engine, "RUN_NS"): [0, 1_000, 200_000],
}


@contextmanager
def any_sizes(choose: Choices) -> Iterator[None]:
    """Inside, what is started has some of these sizes."""
    with pytest.MonkeyPatch.context() as patch:
        for (module, name), values in SIZES.items():
            patch.setattr(module, name, choose.pick(values))
        yield
