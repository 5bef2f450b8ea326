"""A task in one file. Change `generate` and `grade`, then: ``bench tasks validate FILE``.

It is found by its path, or by ``BENCH_TASKS=FILE``; a package names a function that returns its tasks in the
entry-point group ``bench.tasks``.
"""

from __future__ import annotations

import random

from tasks import Grade, TaskItem, TaskSpec, protocol
from tasks.spec import Draw

WORDS = (
    "banana",
    "orbit",
    "letter",
    "panorama",
    "window",
    "sentence",
    "marmalade",
    "bottle",
    "harbour",
    "mirror",
)


class CountLetters(TaskSpec):
    """How often a letter comes in some words; the level is the number of words."""

    id = "My/CountLetters-v0"
    version = "1"  # change it with the items or the grading: records name it
    title = "Count a letter"
    description = "Count how often a letter comes in words, e.g. a in banana?"
    licence = "Apache-2.0"
    levels = (1, 2, 3)
    default_level = 2
    max_answer_chars = 4
    best_constant_cap = 0.4  # the most that one answer to everything may earn

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws an item from `rng` alone: prompt, gold, and whatever the other methods need."""
        words = rng.sample(WORDS, level)
        letter = rng.choice("".join(words))
        return Draw(f"{letter} in {' '.join(words)}?", " ".join(words).count(letter), {"length": len(words)})

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Grades the policy's last turn; never raises, and pays for the one right answer only."""
        return protocol.grade_answer(
            text,
            max_chars=self.max_answer_chars,
            # True, False, or None where the answer is nothing of its kind
            verdict=lambda answer: (
                int(answer) == item.gold if answer.isascii() and answer.isdigit() else None
            ),
        )

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """The turns of a perfect policy."""
        return (protocol.answer_turn(str(item.gold)),)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """The turns of one who makes a plausible mistake."""
        return (protocol.answer_turn(str(item.gold + rng.choice((1, 2)))),)


TASKS = (CountLetters(),)
