"""Tests that run in both modes, and the strings that they try."""

import pytest
from hypothesis import strategies as st

from headrace.stage.memory.modes import interpreted

MODES = [lambda f: f, interpreted]
mode = pytest.mark.parametrize("mode", MODES, ids=["compiled", "interpreted"])

CHARACTERS = st.one_of(
    st.sampled_from("aAbB0 \0é߀ßΣσ一😀\U0010ffff"), st.characters(exclude_categories=["Cs"])
)
STRINGS = st.text(CHARACTERS, max_size=40)
