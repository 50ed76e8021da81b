"""How the workers' compiled loop is had soon. Loads no compiler."""

from __future__ import annotations

from headrace.stage.background import BackgroundCompile, in_background


def loop() -> BackgroundCompile:
    """The workers' loop; where it is not in the disk cache, a process begins to compile it, and
    then what the host calls besides."""
    return in_background("headrace.node.worker:work", "headrace.rehearsal:rehearse")
