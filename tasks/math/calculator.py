"""The calculator tool of the word problems: exact, and bounded before it computes."""

from __future__ import annotations

from tasks import protocol
from tasks.verify import algebra, mathparse, mathtext
from tasks.verify.budget import Budget, OverBudget
from tasks.verify.terms import Term

NAME = "calculator"
MAX_RESULT_CHARS = 64


def calculate(expression: str) -> str:
    """Returns the exact value of an expression as a result turn, or ``error`` and why.

    Never raises, and never takes longer than the budget of one comparison.
    """
    return protocol.result_turn(_value(expression), max_chars=MAX_RESULT_CHARS)


def _value(expression: str) -> str:
    cleaned = mathtext.clean(expression, units=False)
    if cleaned is None:
        return "error: unreadable"
    try:
        term = mathparse.parse(cleaned.text)
        if not isinstance(term, Term):
            return "error: no expression"
        value = algebra.form(term, Budget()).constant
    except (mathparse.NotAnAnswer, algebra.Undefined) as error:
        return f"error: {error}"
    except OverBudget:
        return "error: too large"
    if value is None:
        return "error: no exact number"
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > 160:
        return "error: too large"
    return str(value)
