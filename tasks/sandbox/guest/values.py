"""Plain data across the sandbox's border, as JSON that keeps Python's types apart.

None, bools, numbers, texts and lists are themselves; other types are a dict of one key: their name. Only
values of exactly these types cross: a subclass may lie about what it equals. The standard library's own kinds
of dict cross as dicts, which they are equal to.
"""

from __future__ import annotations

import collections
from typing import Any

_DICTS = (dict, collections.Counter, collections.OrderedDict, collections.defaultdict)

MAX_DEPTH = 64
MAX_INT_BITS = 1 << 16
_MAX_PLAIN_BITS = 4096  # longer ones go in hex: decimal digits are quadratic work, and Python caps them


class UnplainError(Exception):
    """A value that is no plain data, or is nested too deep or too large; says which."""


def encode(value: Any, depth: int = 0) -> Any:
    """Returns the JSON form of a plain value.

    Raises:
      UnplainError: it is of another type, or past a limit.
    """
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if kind is int:
        bits = value.bit_length()
        if bits > MAX_INT_BITS:
            raise UnplainError(f"an int of {bits} bits; at most {MAX_INT_BITS} cross")
        return value if bits <= _MAX_PLAIN_BITS else {"int": hex(value)}
    if depth >= MAX_DEPTH:
        raise UnplainError(f"nested deeper than {MAX_DEPTH}")
    if kind is list:
        return [encode(one, depth + 1) for one in value]
    if kind is tuple:
        return {"tuple": [encode(one, depth + 1) for one in value]}
    if kind is set or kind is frozenset:
        return {kind.__name__: [encode(one, depth + 1) for one in value]}
    if kind in _DICTS:
        return {"dict": [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in dict.items(value)]}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    raise UnplainError(f"a {kind.__name__} is no plain value")


def decode(data: Any, depth: int = 0) -> Any:
    """Inverse of `encode`, for data that may be forged.

    Raises:
      UnplainError: it is no form that `encode` writes.
    """
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if depth > MAX_DEPTH:
        raise UnplainError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(data, list):
        return [decode(one, depth + 1) for one in data]
    if isinstance(data, dict) and len(data) == 1:
        ((kind, content),) = data.items()
        try:
            return _decode_tagged(kind, content, depth + 1)
        except (TypeError, ValueError) as error:
            raise UnplainError(f"no value of type {kind}: {error}") from error
    raise UnplainError("not in the form of a plain value")


def _decode_tagged(kind: str, content: Any, depth: int) -> Any:
    if kind == "int":
        if len(content) > MAX_INT_BITS:
            raise ValueError("too many digits")
        return int(content, 16)
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "complex":
        real, imag = content
        return complex(real, imag)
    if not isinstance(content, list):
        raise TypeError("its content is no list")
    if kind == "dict":
        return {decode(k, depth): decode(v, depth) for k, v in content}
    made = {"tuple": tuple, "set": set, "frozenset": frozenset}.get(kind)
    if made is None:
        raise ValueError("unknown type")
    return made(decode(one, depth) for one in content)
