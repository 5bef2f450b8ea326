"""`Game/GuessNumber-v0`: find a number by guesses that are answered higher or lower."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tasks import protocol
from tasks.spec import Draw, Grade, GradeStatus, TaskItem, TaskSpec
from tasks.verify.numbers import equal_number, parse_number

SIZES = {1: 8, 2: 16, 3: 32, 4: 64, 5: 100}
"""Numbers to choose from at each level."""
_LOWEST = 2000
"""Ranges start anywhere below this, 0 included, so that no guess is good for many of them."""


class GuessNumber(TaskSpec):
    """A guess that is right within the turns halving needs at most, ⌈log2(size + 1)⌉, pays in full.

    A later one pays 1 / (1 + turns too many). A turn with a broken guess or several ends the game unpaid;
    one without a guess costs a turn.
    """

    id = "Game/GuessNumber-v0"
    version = "1"
    title = "Guess the number"
    description = "Find a hidden number by guesses answered higher or lower, e.g. number in 3..10?"
    levels = (1, 2, 3, 4, 5)
    tiers = ("T0", "T0", "T0", "T1", "T1")
    default_level = 1
    max_turns = 10
    max_answer_chars = 8
    best_constant_cap = 0.05

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws a range of the level's size and a number in it."""
        low = rng.randrange(_LOWEST)
        high = low + SIZES[level] - 1
        return Draw(f"number in {low}..{high}?", rng.randint(low, high), {"low": low, "high": high})

    def split_key(self, draw: Draw) -> str:
        """A range stays in one split whatever number it hides: the prompt alone decides."""
        return draw.prompt

    def grade(self, item: TaskItem, text: str) -> Grade:
        """One guess by itself: right or not."""
        return protocol.grade_answer(
            text, max_chars=self.max_answer_chars, verdict=lambda answer: equal_number(answer, item.gold)
        )

    def respond(self, item: TaskItem, turns: Sequence[str]) -> str | Grade:
        """Higher or lower; the grade once the number is found, or where a turn is no single guess."""
        grade = self.grade(item, turns[-1])
        if grade.status is GradeStatus.CORRECT:
            return Grade(
                reward=worth(len(turns), item.meta["high"] - item.meta["low"] + 1),
                status=grade.status,
                detail=f"found in {len(turns)} turns",
                answer=grade.answer,
            )
        if grade.status is GradeStatus.NO_ANSWER:
            return protocol.result_turn("no guess")
        if grade.status is not GradeStatus.WRONG:
            return grade
        assert grade.answer is not None
        guess = parse_number(grade.answer)
        assert guess is not None
        return protocol.result_turn("higher" if guess < item.gold else "lower")

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """Halves the range."""
        low, high, turns = item.meta["low"], item.meta["high"], []
        while True:
            guess = (low + high) // 2
            turns.append(protocol.answer_turn(str(guess)))
            if guess == item.gold:
                return tuple(turns)
            low, high = (guess + 1, high) if guess < item.gold else (low, guess - 1)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Guesses once, near the lower end, and takes no notice of the reply."""
        guess = item.meta["low"] + rng.randrange(3)
        return (protocol.answer_turn(str(guess)),)


def worth(turns: int, size: int) -> float:
    """The reward of finding one number of `size` at the given turn; ``size.bit_length()`` is ⌈log2(size + 1)⌉."""
    return 1 / (1 + max(0, turns - size.bit_length()))
