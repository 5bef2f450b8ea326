from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.verify.literals import equal_literal

PLAIN = st.recursive(
    st.integers() | st.booleans() | st.text(max_size=5) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"),
    [
        ("[1,3,4]", [1, 3, 4], True),
        ("[1, 3, 4]", [1, 3, 4], True),
        ("[1,3]", [1, 3, 4], False),
        ("(1,3,4)", [1, 3, 4], False),
        ("True", 1, False),
        ("1", True, False),
        ("1.0", 1, False),
        ("[True]", [1], False),
        ("{True:1}", {1: 1}, False),
        ("-7", -7, True),
        ("7", [7], False),
        ("sorted([3,1])", [1, 3], None),
        ("3+4", 7, None),
        ("1+2j", 3, None),
        ("x", 1, None),
        ("[1,", [1], None),
        ("", 1, None),
        ("__import__('os')", 0, None),
    ],
)
def test_literals_are_compared_with_their_types(answer: str, gold: Any, verdict: bool | None):
    assert equal_literal(answer, gold) is verdict


@given(PLAIN)
def test_every_plain_value_equals_its_own_text(value: Any):
    assert equal_literal(repr(value), value) is True


@given(st.text(max_size=60))
def test_grading_never_raises(text: str):
    assert equal_literal(text, 1) in (True, False, None)


def test_hostile_depth_and_null_bytes_are_no_literals():
    assert equal_literal("[" * 5000 + "]" * 5000, 1) is None
    assert equal_literal("1\0", 1) is None
