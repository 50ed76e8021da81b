"""A thread of an exploration as an automaton, learnt from the very source that is compiled.

What a function does next follows from the results of its memory accesses so far. So it is run with
recorded results; at the first access beyond them it is stopped by an exception, and what it wanted
to do is a *node*. Two nodes are one if the function stands at the same place with the same locals;
then a loop is a circle. What is on Python's evaluation stack is not visible; its place is taken by
the results of the earlier accesses of the statement that each frame is in. The iterator of a `for`
is on that stack too: loops must be over a range, so that their variable says all, together with
what the head of the loop has read. That of a generator expression tells how much is left of it.
"""

from __future__ import annotations

import ast
import gc
import linecache
import sys
import threading
from collections.abc import Callable
from functools import cache
from operator import length_hint
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

from headrace.node import futex
from headrace.stage.memory import access
from headrace.stage.memory.places import Record, array

HERE = str(Path(__file__).parent)
SKIPPED = (
    str(Path(access.__file__).parent),
    futex.__file__,
    __file__,
    str(Path(__file__).with_name("explore.py")),
)


class Operation(NamedTuple):
    """What a thread does next: load, store, update, pause, wait or wake."""

    what: str
    address: int = 0
    ctype: Any = None
    order: str = ""
    value: Any = None  # to store; expected by wait; how many wake wakes
    change: Callable[[Any], Any] | None = None  # of update
    expected: Any = None  # of update, if it is a compare-and-swap


class Node:
    """A thread before its next access, or at its end."""

    __slots__ = ("following", "operation", "outcome", "path", "problem", "where")

    def __init__(self, path: tuple, operation: Operation | None, where: str) -> None:
        self.path, self.operation, self.where = path, operation, where
        self.following: dict[Any, Node] = {}
        self.outcome: Any = None  # what the function returned
        self.problem = ""  # the error that it raised

    def __repr__(self) -> str:
        return self.where


class Script:
    """One thread."""

    def __init__(self, body: Callable[[], Any]) -> None:
        self.body = body
        self.nodes: dict[Any, Node] = {}
        self.root = self._run(())

    def after(self, node: Node, result: Any) -> Node:
        found = node.following.get(result)
        if found is None:
            found = node.following[result] = self._run((*node.path, result))
        return found

    def _run(self, path: tuple) -> Node:
        before, system = access.current, futex.current
        recorder = _Recorder(path)
        access.current = _OnThisThread(recorder, before)
        futex.current = _OnThisThread(recorder, system)
        outcome, problem = None, ""
        collects = gc.isenabled()
        gc.disable()  # what others threw away may reach for memory when it is freed
        try:
            outcome = self.body()
        except _Stopped:
            pass
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        finally:
            access.current, futex.current = before, system
            if collects:
                gc.enable()
        if recorder.operation is None:
            key: Any = ("end", _frozen(outcome), problem)
        else:
            key = recorder.key
        if key not in self.nodes:
            node = self.nodes[key] = Node(path, recorder.operation, recorder.where)
            node.outcome, node.problem = outcome, problem
        return self.nodes[key]


class _OnThisThread:
    """A stand-in for all of Python that only the thread that made it meets: threads that others
    have left behind go on as before."""

    def __init__(self, mine: Any, before: Any) -> None:
        self._mine, self._before, self._me = mine, before, threading.get_ident()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mine if threading.get_ident() == self._me else self._before, name)


class _Stopped(BaseException):
    """The thread has reached an access whose result is not known yet."""


class _Standing:
    """A frame, the statement it is in, and the results that may be on its evaluation stack."""

    __slots__ = ("carried", "current", "frame", "heads", "instruction", "loops", "statement")

    def __init__(self, frame: FrameType) -> None:
        self.frame, self.instruction = frame, frame.f_lasti
        self.statement, self.loops = _statement(frame.f_code, frame.f_lineno)
        self.carried: tuple = ()  # results of calls that have returned
        self.current: tuple = ()  # results inside the call that the frame makes now
        self.heads: dict[int, tuple] = {}  # what the heads of the loops around it have read

    def follow(self, before: _Standing) -> None:
        """Take over what the heads of loops have read; the same frame stood there before."""
        heads = {**before.heads, before.statement: before.carried + before.current}
        self.heads = {loop: heads[loop] for loop in self.loops if loop in heads}


class _Recorder(access.Memory):
    """Memory and system of a thread that plays recorded results."""

    def __init__(self, path: tuple) -> None:
        self.path, self.position = path, 0
        self.stack: list[_Standing] = []
        self.operation: Operation | None = None
        self.key: Any = None
        self.where = "end"

    def load(self, address: int, ctype: Any, order: str) -> Any:
        return self._next(Operation("load", address, ctype, order))

    def store(self, address: int, ctype: Any, value: Any, order: str) -> None:
        self._next(Operation("store", address, ctype, order, value))

    def update(self, address: int, ctype: Any, change: Callable[[Any], Any]) -> Any:
        assert isinstance(change, FunctionType)
        names = change.__code__.co_freevars
        cells = dict(zip(names, (cell.cell_contents for cell in change.__closure__ or ())))
        expected = cells.get("expected")
        return self._next(Operation("update", address, ctype, "sc", None, change, expected))

    def pause(self) -> None:
        self._next(Operation("pause"))

    def wait(self, address: int, expected: int, ns: int) -> int:
        return self._next(
            Operation("wait", address, futex.Word.fields["value"].kind.ctype, "", expected)
        )

    def wake(self, address: int, count: int) -> int:
        return self._next(Operation("wake", address, None, "", count))

    def _next(self, operation: Operation) -> Any:
        self._look_at_stack()
        if self.position == len(self.path):
            self.operation, self.key = operation, self._state(operation)
            inner = self.stack[-1]
            name = inner.frame.f_code.co_name
            target = operation.value if operation.value is not None else ""
            self.where = (
                f"{name}:{inner.frame.f_lineno} {operation.what} {operation.order} {target}"
            )
            raise _Stopped
        result = self.path[self.position]
        self.position += 1
        for standing in self.stack:
            standing.current += (result,)
        return result

    def _look_at_stack(self) -> None:
        frames: list[FrameType] = []
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code is not Script._run.__code__:
            if not frame.f_code.co_filename.startswith(SKIPPED):
                frames.append(frame)
            frame = frame.f_back
        frames.reverse()
        before, self.stack = self.stack, [_Standing(frame) for frame in frames]
        for depth, (old, new) in enumerate(zip(before, self.stack)):
            if old.frame is not new.frame:
                break
            new.follow(old)
            if old.statement != new.statement or new.instruction < old.instruction:
                continue
            if new.instruction > old.instruction:
                new.carried = old.carried + old.current
            elif self._same_call(before, depth):
                new.carried, new.current = old.carried, old.current

    def _same_call(self, before: list[_Standing], depth: int) -> bool:
        """Are two stacks inside the same call that the frame at a depth makes?"""
        inner = depth + 1
        if inner >= len(before) or inner >= len(self.stack):
            return False
        return before[inner].frame is self.stack[inner].frame

    def _state(self, operation: Operation) -> Any:
        inner = [*(s.frame.f_code.co_name for s in self.stack[1:]), ""]
        frames = tuple(
            (
                s.frame.f_code,
                s.instruction,
                tuple((k, _frozen(v)) for k, v in sorted(s.frame.f_locals.items())),
                # what a generator has given lies in whoever asked for it
                s.carried if called != "<genexpr>" else s.carried + s.current,
                tuple(s.heads.items()),
            )
            for s, called in zip(self.stack, inner, strict=True)
        )
        change = operation.change
        plain = operation[:5] if change is None else (*operation[:4], _frozen(change))
        return frames, plain


def _frozen(value: Any) -> Any:
    """Something hashable that is equal for equal values."""
    if isinstance(value, Record):
        return type(value).__name__, value.address
    if isinstance(value, array):
        return value.tag, value.address
    if isinstance(value, (list, tuple)):
        return type(value).__name__, *map(_frozen, value)
    if isinstance(value, (set, frozenset)):
        return "set", frozenset(map(_frozen, value))
    if isinstance(value, dict):
        return "dict", *((k, _frozen(v)) for k, v in value.items())
    if isinstance(value, FunctionType):
        cells = value.__closure__ or ()
        if len(cells) == 0 or value.__code__.co_filename.startswith(SKIPPED):
            return value.__code__, *(_frozen(cell.cell_contents) for cell in cells)
        return id(value)
    if value is None or isinstance(value, (int, float, str, bytes)):
        return value
    if type(value).__name__.endswith("iterator"):
        return type(value).__name__, length_hint(value)
    return id(value)


Place = tuple[int, tuple[int, ...]]  # a statement, and the loops around it: their first lines


@cache
def _statements(filename: str) -> dict[int, Place]:
    """The innermost statement, by line; 0 in a loop whose position is not visible."""
    found: dict[int, Place] = {}
    tree = ast.parse("".join(linecache.getlines(filename)))

    def visit(node: ast.AST, hidden: bool, loops: tuple[int, ...]) -> None:
        if isinstance(node, ast.stmt):
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                found[line] = (0 if hidden else node.lineno, loops)
        if isinstance(node, ast.For):
            hidden = hidden or not _is_range(node.iter)
            loops = (*loops, node.lineno)
        for child in ast.iter_child_nodes(node):
            inside = not isinstance(child, ast.FunctionDef)
            visit(child, hidden and inside, loops if inside else ())

    visit(tree, False, ())
    return found


def _is_range(iterable: ast.expr) -> bool:
    return isinstance(iterable, ast.Call) and getattr(iterable.func, "id", "") == "range"


def _statement(code: CodeType, line: int) -> Place:
    if code.co_name in ("<lambda>", "<genexpr>"):  # one expression, wherever it was made
        return line, ()
    found = _statements(code.co_filename).get(line, (line, ()))
    if found[0] == 0 or code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>"):
        raise SyntaxError(f"{code.co_name}:{line} is in a loop that is not over a range")
    return found
