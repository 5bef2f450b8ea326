"""Python literals in answers: read by `ast.literal_eval`, compared with their types."""

from __future__ import annotations

import ast
from typing import Any


def equal_literal(answer: str, gold: Any) -> bool | None:
    """Compares a literal with the gold; None where the answer is an expression or no Python at all."""
    try:
        tree = ast.parse(answer.strip(), mode="eval")
        if not _is_plain(tree.body):
            return None
        value = ast.literal_eval(tree)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return same(value, gold)


def same(left: Any, right: Any) -> bool:
    """Equality that also compares types at every depth: True is not 1, (1,) is not [1], 1.0 is not 1."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        # sorted by repr, so that 1 and True as keys cannot stand for each other
        pairs = zip(sorted(left.items(), key=repr), sorted(right.items(), key=repr), strict=False)
        return len(left) == len(right) and all(same(a, b) for a, b in pairs)
    return bool(left == right)


def _is_plain(node: ast.AST) -> bool:
    """literal_eval still computes ``1+2j`` and joins adjacent strings; a sum is no literal here."""
    return not any(isinstance(part, ast.BinOp | ast.Call) for part in ast.walk(node))
