"""A budget of exact work, so that no answer can cost time: the same answer is refused on every machine."""

from __future__ import annotations

MAX_STEPS = 20_000
"""Term products of one comparison; about 30 ms, where honest answers need below 500."""
MAX_BITS = 400_000
"""Size of any whole number met on the way: room for 2006! and 2**2006, none for 9**9**9."""
MAX_FACTORIAL = 5_000


class OverBudget(ArithmeticError):
    """Deciding this answer would take more work than any honest answer needs."""


class Budget:
    """Counts the work of one comparison; `spend` raises `OverBudget` past the limit."""

    __slots__ = ("left",)

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Takes steps off the budget."""
        self.left -= steps
        if self.left < 0:
            raise OverBudget("the comparison passed its budget of work")


def check_power(base_bits: int, exponent: int) -> None:
    """Raises `OverBudget` where base**exponent would have too many bits."""
    if abs(exponent) * max(base_bits, 1) > MAX_BITS:
        raise OverBudget("a power is too large to be worked out")
