"""For the documentation's site: examples in docstrings are shown as the code that they are.

An example goes from `>>>` to an empty line. Markdown takes that for three quotations inside each
other; with a fence around it, it is a session of Python.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n.*\S.*)*", re.MULTILINE)
DIRECTIVE = re.compile(r" *# doctest: .*")


def fenced(text: str) -> str:
    """The same text with a fence around each example, and without what is said to doctest."""
    made = EXAMPLE.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)
    return DIRECTIVE.sub("", made)


class Examples(griffe.Extension):
    """Makes every docstring one with fences."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """See griffe."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
