"""What policies earn that need no training: the measure of what a task's reward is worth."""

from __future__ import annotations

import collections
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tasks import splits
from tasks.spec import TaskItem, TaskSpec, play

CONSTANT_ITEMS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Baselines:
    """Mean rewards of policies that need no training, on `items` items of a split."""

    oracle: float
    careless: float
    best_constant: float
    """Of the answer that is right most often, chosen on other items than it is scored on."""
    constant: str
    random_format: float
    """Of a well-formed answer that is another item's."""
    closed_book: float | None
    """Of answering from what is known, without a search; None where there is nothing to search."""
    items: int


def baselines(
    spec: TaskSpec, *, split: str = "train", items: int = 1000, level: int | None = None
) -> Baselines:
    """Measures what oracle, careless demonstrator, constant, random and closed-book answers earn."""
    drawn = [splits.item(spec, split, 0, index, level) for index in range(items)]
    rng = random.Random(0)
    constant = best_constant(spec, split, level)
    book = [(item, spec.closed_book(item)) for item in drawn]
    return Baselines(
        oracle=mean(earned(spec, item, spec.oracle(item)) for item in drawn),
        careless=mean(earned(spec, item, spec.careless(item, rng)) for item in drawn),
        best_constant=mean(earned(spec, item, (constant,)) for item in drawn),
        constant=constant,
        random_format=mean(
            earned(spec, item, (spec.oracle(other)[-1],))
            for item, other in zip(drawn, drawn[1:] + drawn[:1], strict=True)
        ),
        closed_book=None
        if any(turns is None for _, turns in book)
        else mean(earned(spec, item, turns or ()) for item, turns in book),
        items=items,
    )


def best_constant(spec: TaskSpec, split: str = "train", level: int | None = None) -> str:
    """Returns the answer that most items have, on items no baseline is scored on."""
    drawn = (splits.item(spec, split, 1, index, level) for index in range(CONSTANT_ITEMS))
    return collections.Counter(spec.oracle(item)[-1] for item in drawn).most_common(1)[0][0]


def earned(spec: TaskSpec, item: TaskItem, turns: Sequence[str]) -> float:
    """The reward of an episode of these turns."""
    return play(spec, item, turns).reward


def mean(values: Iterable[float]) -> float:
    """The mean; at least one value is needed."""
    found = list(values)
    return sum(found) / len(found)
