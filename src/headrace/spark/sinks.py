"""The sinks of a job on the driver: what tasks have staged is committed by the batch's name."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from headrace.connect.delivery import check_places
from headrace.plan.nodes import Sink

from .shipment import is_staged
from .wire import MESSAGE, RESULT, Message, by_sender, unpack

ATTEMPT = "driver"


class DriverSinks:
    """All sinks, open; commits a micro-batch at a time."""

    def __init__(self, nodes: Sequence[Sink]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._opened: list[Any] = []

    def open(self) -> None:
        """Open all of them: what is wrong shows before a row is read."""
        check_places(self._nodes.values())
        for node in self._nodes.values():
            self._opened.append(node.connector)
            node.connector.open(node.schema)

    def staged(self) -> dict[str, bytes]:
        """Those that tasks write through, pickled as they are now: open."""
        from pyspark import cloudpickle

        return {
            name: cloudpickle.dumps(node.connector)
            for name, node in self._nodes.items()
            if is_staged(node.connector)
        }

    def commit(self, batch: str, messages: Sequence[Message], end: str = "") -> None:
        """Publish a batch, with what stands for its end; one published before stays as it is."""
        staged: dict[str, list[Any]] = {}
        for message in sorted(messages, key=by_sender):
            found = staged.setdefault(message.port, [])
            if message.kind == MESSAGE:
                found.extend(pickle.loads(message.payload))
            elif message.kind == RESULT:
                sink = self._nodes[message.port].connector
                found.extend(sink.write(rows, batch, ATTEMPT) for rows in unpack(message.payload))
        for name, found in staged.items():
            connector = self._nodes[name].connector
            if getattr(connector, "keeps_ends", False):
                connector.commit(batch, found, end)
            else:
                connector.commit(batch, found)

    def close(self) -> None:
        """Close what was opened."""
        for connector in self._opened:
            connector.close()
        self._opened.clear()
