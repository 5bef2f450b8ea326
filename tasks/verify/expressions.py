"""Integer expressions in one variable: read by a whitelist, evaluated without ever running Python code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

MAX_NODES = 40
MAX_CONSTANT = 999
"""With only + - * over small constants, values stay below 999**40: nothing here can cost time."""

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def parse_expression(text: str, *, variable: str) -> ast.expr | None:
    """Returns the tree of an expression made of + - *, small whole numbers and the variable, or None."""
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    # operators and contexts are nodes of the tree as well, so this bounds the text's length too
    nodes = list(ast.walk(body))
    return body if len(nodes) <= MAX_NODES and _allowed(body, variable) else None


def evaluate(node: ast.expr, x: int) -> int:
    """Evaluates a tree from `parse_expression` at one value of its variable."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name():
            return x
        case ast.UnaryOp(operand=operand):
            return -evaluate(operand, x)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](evaluate(left, x), evaluate(right, x))
    raise AssertionError(f"parse_expression let {type(node).__name__} through")


def fits(text: str, table: Mapping[int, int], *, variable: str = "x") -> bool | None:
    """Says whether an expression gives every value of the table; None where it is no such expression."""
    tree = parse_expression(text, variable=variable)
    if tree is None:
        return None
    return all(evaluate(tree, x) == y for x, y in table.items())


def _allowed(node: ast.expr, variable: str) -> bool:
    match node:
        case ast.Constant(value=value):
            return type(value) is int and abs(value) <= MAX_CONSTANT
        case ast.Name(id=name):
            return name == variable
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _allowed(operand, variable)
        case ast.BinOp(left=left, op=op, right=right):
            return type(op) in _BINARY and _allowed(left, variable) and _allowed(right, variable)
        case _:
            return False
