"""docs/expressions.md names every function."""

from pathlib import Path

import pytest

from headrace.expr import Strings, Times

PAGE = (Path(__file__).parent.parent / "docs" / "expressions.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("of", [Strings, Times])
def test_the_page_names_every_function(of):
    for name in vars(of):
        if not name.startswith("_") and name != "of" and not name.startswith("total_"):
            assert f"`{name}`" in PAGE, name
