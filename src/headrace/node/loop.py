"""How the workers' compiled loop is had soon. Loads no compiler."""

from __future__ import annotations

from headrace.stage.beside import Beside, beside


def loop() -> Beside:
    """The workers' loop; where it is not in the disk cache, a process begins to compile it, and
    then what the host calls besides."""
    return beside("headrace.node.worker:work", "headrace.rehearsal:rehearse")
