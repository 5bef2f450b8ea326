from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.verify.expressions import evaluate, fits, parse_expression


@pytest.mark.parametrize("text", ["2*x+1", "x+x+1", "1+2*x", "-(-2*x)+1", "(x+1)*2-1", "1+x*2+0*x*x"])
def test_any_writing_of_the_same_function_fits(text: str):
    assert fits(text, {x: 2 * x + 1 for x in range(-5, 20)}) is True


@pytest.mark.parametrize(
    "text",
    [
        "",
        "y",
        "x**2",
        "9**9**9",
        "x/2",
        "f(x)",
        "x if x else 1",
        "[1][0]",
        "True",
        "1.0",
        "1000",
        "x;x",
        "+x",
        "x" + "+x" * 40,
        "(" * 500 + "x" + ")" * 500,
        "x\0",
        "x=1",
        "lambda x:x",
        "__import__('os')",
    ],
)
def test_everything_outside_the_whitelist_is_no_expression(text: str):
    assert fits(text, {1: 1}) is None


@given(st.text(alphabet="x+-*()0123456789 ", max_size=24), st.integers(-50, 50))
def test_what_is_read_evaluates_as_python_does(text: str, x: int):
    tree = parse_expression(text, variable="x")
    if tree is not None:
        assert evaluate(tree, x) == eval(text.strip(), {"x": x})
