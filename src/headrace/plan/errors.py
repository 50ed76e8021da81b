"""The errors headrace raises: what is wrong, where, and how to fix it."""

from __future__ import annotations

from .site import Site

IN_OPERATOR = "in operator"  # how the note of an error begins that was explained


class HeadraceError(Exception):
    """The base of all errors that headrace raises itself.

    >>> import headrace as hr
    >>> try:
    ...     hr.read.csv("no_such_file.csv")
    ... except hr.HeadraceError as error:
    ...     print(type(error).__name__)
    PipelineError
    """


class PipelineError(HeadraceError):
    """A mistake in a pipeline, found while it is built.

    >>> print(PipelineError("no column 'usr'", operator="filter", fix="did you mean 'user'?"))
    filter: no column 'usr'
      fix: did you mean 'user'?
    """

    def __init__(
        self, what: str, *, operator: str = "", site: Site | None = None, fix: str = ""
    ) -> None:
        self.what, self.operator, self.site, self.fix = what, operator, site, fix
        lines = [f"{operator}: {what}" if operator else what]
        if site is not None:
            lines.append(f"  at {site!r}")
        if fix:
            lines.append(f"  fix: {fix}")
        super().__init__("\n".join(lines))


class ExpressionError(TypeError):
    """What is wrong with an expression, and how to fix it; whoever knows the place adds it."""

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.what, self.fix = what, fix


class StateError(HeadraceError):
    """A saved state that does not fit the pipeline it is given to, or is damaged.

    Jobs on Spark with `checkpoint=` raise it before a row is read.

    >>> issubclass(StateError, HeadraceError)
    True
    """


class DataError(HeadraceError):
    """Data that a source, a table or a sink cannot take as it is.

    >>> import headrace as hr
    >>> table = hr.table({"id": [1, 1], "name": ["Tea", "Bikes"]})
    >>> try:
    ...     hr.run(hr.read.memory({"id": [1]}).join(table, on="id").write.null(), engine="thread")
    ... except hr.DataError as error:
    ...     print(str(error).splitlines()[0])
    join: the key id=1 stands more than once in table table
    """

    is_located = False  # does it say the operator and the user's line?


class Unreachable(DataError):
    """What a source reads from does not answer; it may later, so trying again can help."""


class UnreadColumnsWarning(UserWarning):
    """A source has columns of types that headrace lacks; they are not read."""


class SourceChanged(UserWarning):
    """The files of a source are not those with which a job began that now goes on."""


class MemoryBudgetError(HeadraceError):
    """An operator cannot get the memory that it needs to run at all.

    >>> import headrace as hr
    >>> try:
    ...     hr.run(hr.read.index(10).write.null(), engine="node", workers=1, memory=1)
    ... except hr.MemoryBudgetError as error:
    ...     print("not with memory=1")
    not with memory=1
    """
