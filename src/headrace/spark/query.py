"""The query of a pipeline, up to its results: source stages, then one level of stages for another.

Both a job (`job.py`) and a DataFrame that the user runs (`outgoing.py`) begin with it.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from .arrow_map import map_in_arrow
from .fork_server import forked_python
from .frames import Frames
from .shipment import Address, Shipment
from .wire import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def all_letters(session: Any, shipment: Shipment, frames: Frames, address: Address) -> DataFrame:
    """The messages that the last stages give, and those that nobody on the way reads."""
    from .keyed_task import KeyedTask
    from .source import FORMAT, HeadraceSource

    sent = frames.messages(session, address)
    if shipment.planned:
        with forked_python(session.sparkContext):
            session.dataSource.register(HeadraceSource)
        sent.append(session.readStream.format(FORMAT).options(**address.options()).load())
    messages = reduce(lambda one, other: one.union(other), sent)
    for level in range(len(shipment.levels)):
        messages = messages.repartition(shipment.shards, "shard")
        messages = map_in_arrow(messages, KeyedTask(address, level), SCHEMA)
    return messages
