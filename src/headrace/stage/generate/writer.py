"""Lines of generated source, and the values that they hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.plan.types import DataType

INDENT = "    "


@dataclass(frozen=True)
class Value:
    """A typed value in generated code.

    `words` are the expressions that hold it: one for a scalar, head and tail for a text.
    `valid` is an expression that is false where the value is null, or None where it never is.
    """

    type: DataType
    words: tuple[str, ...]
    valid: str | None = None

    @property
    def word(self) -> str:
        """The only word of a scalar."""
        (only,) = self.words
        return only


class Writer:
    """Collects indented lines and hands out fresh names."""

    def __init__(self, indent: int = 1) -> None:
        self.lines: list[str] = []
        self.indent = indent
        self._names = 0

    def line(self, text: str) -> None:
        """Add a line at the current indentation."""
        self.lines.append(INDENT * self.indent + text)

    def fresh(self, prefix: str = "v") -> str:
        """A name that is used nowhere else."""
        self._names += 1
        return f"{prefix}{self._names}"

    def let(self, expression: str, prefix: str = "v") -> str:
        """Assign an expression to a fresh name."""
        name = self.fresh(prefix)
        self.line(f"{name} = {expression}")
        return name

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indented lines under a head such as `if x:`."""
        self.line(head)
        self.indent += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.indent -= 1

    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines) + "\n"
