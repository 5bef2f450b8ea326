"""Small programs on lists of whole numbers, as data: described in words, written as Python, run here.

A pipeline is a few steps over the list and one way to end. All three faces (`describe`, `source`, `run`) come
from the same table, so the reference solution of an exercise and its tests can't disagree.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


class _Face(NamedTuple):
    words: str
    code: str
    """An expression in xs and k."""
    run: Callable[[list[int], int], Any]
    ks: tuple[int, ...]
    """Values the parameter may have; one zero where there is none."""


_NUMBERS = [byte % 30 - 9 for byte in range(256)]
_NONE = (0,)
STEPS: dict[str, _Face] = {
    "above": _Face("keep the numbers greater than {k}", "[x for x in xs if x > {k}]",
                   lambda xs, k: [x for x in xs if x > k], tuple(range(-3, 7))),
    "below": _Face("keep the numbers less than {k}", "[x for x in xs if x < {k}]",
                   lambda xs, k: [x for x in xs if x < k], tuple(range(0, 12))),
    "multiples": _Face("keep the multiples of {k}", "[x for x in xs if x % {k} == 0]",
                       lambda xs, k: [x for x in xs if x % k == 0], (2, 3, 4, 5)),
    "drop multiples": _Face("drop the multiples of {k}", "[x for x in xs if x % {k} != 0]",
                            lambda xs, k: [x for x in xs if x % k != 0], (2, 3, 4, 5)),
    "add": _Face("add {k} to each", "[x + {k} for x in xs]", lambda xs, k: [x + k for x in xs],
                 tuple(range(1, 10))),
    "subtract from": _Face("subtract each from {k}", "[{k} - x for x in xs]",
                           lambda xs, k: [k - x for x in xs], tuple(range(0, 10))),
    "times": _Face("multiply each by {k}", "[x * {k} for x in xs]", lambda xs, k: [x * k for x in xs],
                   (2, 3, 4, 5, 6, -1, -2)),
    "square": _Face("square each", "[x * x for x in xs]", lambda xs, k: [x * x for x in xs], _NONE),
    "remainder": _Face("replace each by its remainder modulo {k}", "[x % {k} for x in xs]",
                       lambda xs, k: [x % k for x in xs], (3, 4, 5, 7, 9)),
    "reverse": _Face("reverse the list", "xs[::-1]", lambda xs, k: xs[::-1], _NONE),
    "sort": _Face("sort the list in ascending order", "sorted(xs)", lambda xs, k: sorted(xs), _NONE),
    "sort down": _Face("sort the list in descending order", "sorted(xs, reverse=True)",
                       lambda xs, k: sorted(xs, reverse=True), _NONE),
    "skip": _Face("drop the first {k}", "xs[{k}:]", lambda xs, k: xs[k:], (1, 2, 3)),
    "take": _Face("keep only the first {k}", "xs[:{k}]", lambda xs, k: xs[:k], (2, 3, 4)),
    "every other": _Face("keep every second one, beginning with the first", "xs[::2]",
                         lambda xs, k: xs[::2], _NONE),
    "distinct": _Face("drop repetitions, keeping the first of each", "list(dict.fromkeys(xs))",
                      lambda xs, k: list(dict.fromkeys(xs)), _NONE),
}  # fmt: skip
ENDS: dict[str, _Face] = {
    "list": _Face("return the list", "xs", lambda xs, k: xs[:], _NONE),
    "sum": _Face("return the sum", "sum(xs)", lambda xs, k: sum(xs), _NONE),
    "count": _Face("return how many are left", "len(xs)", lambda xs, k: len(xs), _NONE),
    "largest": _Face("return the largest, or {k} if none is left", "max(xs, default={k})",
                     lambda xs, k: max(xs, default=k), (0, -1)),
    "smallest": _Face("return the smallest, or {k} if none is left", "min(xs, default={k})",
                      lambda xs, k: min(xs, default=k), (0, -1)),
    "last": _Face("return the last one, or {k} if none is left", "xs[-1] if xs else {k}",
                  lambda xs, k: xs[-1] if xs else k, (0, -1)),
    "alternating": _Face("return the alternating sum (first minus second plus third …)",
                         "sum(xs[::2]) - sum(xs[1::2])", lambda xs, k: sum(xs[::2]) - sum(xs[1::2]), _NONE),
}  # fmt: skip


_STEP_NAMES, _END_NAMES = tuple(STEPS), tuple(ENDS)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Steps and an end, each a name of the tables above and its parameter."""

    steps: tuple[tuple[str, int], ...]
    end: tuple[str, int]

    def describe(self) -> str:
        """In words: ``Keep the numbers greater than 3; then square each; return the sum.``"""
        parts = [STEPS[name].words.format(k=k) for name, k in self.steps]
        text = "; then ".join(parts) + "; " + ENDS[self.end[0]].words.format(k=self.end[1])
        return text[0].upper() + text[1:] + "."

    def source(self, name: str = "f") -> str:
        """A function of one list."""
        lines = [f"    xs = {STEPS[step].code.format(k=k)}" for step, k in self.steps]
        return "\n".join(
            [f"def {name}(xs):", *lines, f"    return {ENDS[self.end[0]].code.format(k=self.end[1])}"]
        )

    def run_all(self, inputs: list[list[int]]) -> list[Any]:
        """What the function returns for each input; step by step over all of them, which is faster."""
        for step, k in self.steps:
            run = STEPS[step].run
            inputs = [run(xs, k) for xs in inputs]
        end, k = ENDS[self.end[0]].run, self.end[1]
        return [end(xs, k) for xs in inputs]

    def run(self, xs: list[int]) -> Any:
        """What the function returns."""
        for step, k in self.steps:
            xs = STEPS[step].run(xs, k)
        return ENDS[self.end[0]].run(xs, self.end[1])


def draw(rng: random.Random, length: int) -> Pipeline:
    """Draws a pipeline of so many steps, no two neighbours alike, whose result depends on its input."""
    while True:
        names = rng.choices(_STEP_NAMES, k=length)
        if any(a == b for a, b in itertools.pairwise(names)):
            continue
        end = rng.choice(_END_NAMES)
        steps = tuple((name, rng.choice(STEPS[name].ks)) for name in names)
        return Pipeline(steps, (end, rng.choice(ENDS[end].ks)))


def mutate(rng: random.Random, pipeline: Pipeline) -> Pipeline:
    """Changes one thing: a parameter, a step for a similar one, the end, or drops a step."""
    place = rng.randrange(len(pipeline.steps) + 1)
    if place == len(pipeline.steps):
        name = rng.choice([end for end in ENDS if end != pipeline.end[0]])
        return Pipeline(pipeline.steps, (name, rng.choice(ENDS[name].ks)))
    name, k = pipeline.steps[place]
    others = [other for other in STEPS[name].ks if other != k]
    if others and rng.random() < 0.6:
        changed = (name, rng.choice(others))
    else:
        name = rng.choice([step for step in STEPS if step != name])
        changed = (name, rng.choice(STEPS[name].ks))
    return Pipeline((*pipeline.steps[:place], changed, *pipeline.steps[place + 1 :]), pipeline.end)


def draw_list(rng: random.Random) -> list[int]:
    """Draws an input: up to nine numbers between -9 and 20."""
    drawn = rng.randbytes(10)  # one draw for all: a generator makes ten thousand items a second
    return [_NUMBERS[byte] for byte in drawn[1 : 1 + drawn[0] % 10]]


class Tests(NamedTuple):
    """Inputs and what a pipeline returns for them."""

    inputs: list[list[int]]
    expected: list[Any]

    def part(self, begin: int, end: int | None = None) -> Tests:
        """Returns the tests from `begin` up to `end`."""
        return Tests(self.inputs[begin:end], self.expected[begin:end])

    def refute(self, wrong: Pipeline) -> bool:
        """Says whether `wrong` returns something else for any input."""
        return wrong.run_all(self.inputs) != self.expected


def draw_tests(rng: random.Random, pipeline: Pipeline, count: int) -> Tests | None:
    """Draws distinct inputs that tell the pipeline from constants and from returning its input.

    Returns:
      The tests; None where these inputs tell too little, so that a pipeline must be drawn anew.
    """
    inputs: list[list[int]] = []
    while len(inputs) < count:
        xs = draw_list(rng)
        if xs not in inputs:
            inputs.append(xs)
    expected = pipeline.run_all(inputs)
    kinds = set(expected) if isinstance(expected[0], int) else set(map(str, expected))
    varied = len(kinds) >= max(2, count // 2)
    return Tests(inputs, expected) if varied and expected != inputs else None
