"""Arithmetic over given numbers: an expression must use each of them once, and its value is exact."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

MAX_CHARS = 200
_ALPHABET = re.compile(r"[0-9+\-*/() ]+")  # no comment, no name, no comparison can be written with these
_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-"})


def uses_to_make(text: str, numbers: Sequence[int], target: int) -> bool | None:
    """Says whether an expression of + - * / makes the target of exactly the given numbers.

    Returns:
      None where the text is no such expression at all (``**``, ``//``, signs without a left side, other
      characters); False where numbers or value are wrong.
    """
    text = text.translate(_SIGNS)
    if len(text) > MAX_CHARS or not _ALPHABET.fullmatch(text):
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        used: list[int] = []
        value = _evaluate(tree, used)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    except ZeroDivisionError:
        return False
    return Counter(used) == Counter(numbers) and value == target


def _evaluate(node: ast.expr, used: list[int]) -> Fraction:
    match node:
        case ast.Constant(value=int(value)):
            used.append(value)
            return Fraction(value)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _evaluate(left, used) + _evaluate(right, used)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _evaluate(left, used) - _evaluate(right, used)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _evaluate(left, used) * _evaluate(right, used)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _evaluate(left, used) / _evaluate(right, used)
    raise ValueError("only + - * / of whole numbers")
