"""Which Java there is, and what to do where there is none."""

from __future__ import annotations

from headrace.spark.java import NoJava, find_java

from .errors import Unavailable


def java(at_least: int, what: str) -> str:
    """The path of a Java of a version or newer, which `what` needs; Unavailable if there is none.

    JAVA_HOME goes before the PATH.
    """
    try:
        return find_java(at_least).path
    except NoJava as error:
        raise Unavailable(f"{what}: {error}") from None
