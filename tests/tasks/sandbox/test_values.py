from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.sandbox.guest.values import MAX_DEPTH, UnplainError, decode, encode

FLAT = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
ATOMS = FLAT | st.binary() | st.complex_numbers(allow_nan=False)
HASHABLE = st.recursive(
    ATOMS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=5
)
PLAIN = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.sets(HASHABLE, max_size=3)
        | st.dictionaries(HASHABLE, inner, max_size=3)
    ),
    max_leaves=10,
)


@given(PLAIN)
def test_plain_values_cross_unchanged(value: Any):
    crossed = decode(json.loads(json.dumps(encode(value))))
    assert crossed == value
    assert type(crossed) is type(value)


TAGS = st.sampled_from(["int", "set", "dict", "tuple", "bytes", "complex"])
FORGED = st.recursive(
    FLAT, lambda i: st.lists(i) | st.dictionaries(st.text(), i) | st.dictionaries(TAGS, i, max_size=1)
)


@given(FORGED)
def test_forged_data_is_a_value_or_refused(data: Any):
    with contextlib.suppress(UnplainError):
        encode(decode(data))


class _Int(int):
    pass


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (_Int(3), "a _Int is no plain value"),
        (object(), "a object"),
        (range(3), "a range"),
    ],
)
def test_what_is_no_plain_data_is_refused(value: Any, message: str):
    with pytest.raises(UnplainError, match=message):
        encode([value])


def test_depth_is_bounded():
    deep: list[Any] = []
    for _ in range(MAX_DEPTH + 5):
        deep = [deep]
    with pytest.raises(UnplainError, match="nested deeper"):
        encode(deep)
    with pytest.raises(UnplainError, match="nested deeper"):
        decode(deep)


def test_size_is_bounded():
    with pytest.raises(UnplainError, match="an int of 100001 bits"):
        encode([1 << 100_000])
