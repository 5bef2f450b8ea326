"""`Code/Function-v0`: write a small function from its description, judged by hidden tests in the sandbox."""

from __future__ import annotations

import random

from tasks import protocol
from tasks.code import pipelines
from tasks.code.pipelines import Pipeline
from tasks.code.programs import MAX_PROGRAM_CHARS, grade_source
from tasks.spec import Draw, Grade, TaskItem, TaskSpec
from tasks.verify.code import HiddenTests

_HIDDEN = 8


class Function(TaskSpec):
    """Level n takes n steps over the list."""

    id = "Code/Function-v0"
    version = "1"
    title = "Write the function"
    description = "Write f(xs) from its description, e.g. square each; return the sum. Hidden tests decide"
    levels = (1, 2, 3, 4)
    tiers = ("T1", "T1", "T2", "T2")
    default_level = 2
    max_answer_chars = MAX_PROGRAM_CHARS
    best_constant_cap = 0.02
    sandboxed = True
    accepts_expressions = True

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws a pipeline, one shown example, and hidden inputs that no half of it would pass."""
        while True:
            pipeline = pipelines.draw(rng, level)
            slip = _slip(pipeline)
            tests = pipelines.draw_tests(rng, pipeline, _HIDDEN + 1)
            if tests and tests.part(0, _HIDDEN).refute(slip):
                break
        hidden = tests.part(0, _HIDDEN)
        shown, result = tests.inputs[-1], tests.expected[-1]
        prompt = (
            "Write a Python function f(xs) of a list of whole numbers. "
            f"{pipeline.describe()} Example: f({shown}) == {result!r}"
        )
        meta = hidden._asdict() | {"shown": shown, "slip": slip.source()}
        return Draw(prompt, pipeline.source(), meta)

    def split_key(self, draw: Draw) -> str:
        """One function stays in one split, whichever tests it has."""
        return draw.gold

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Calls the function on the hidden inputs."""
        inputs = [[xs] for xs in item.meta["inputs"]]
        return grade_source(text, HiddenTests(inputs=inputs, expected=item.meta["expected"]))

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """The pipeline's own source."""
        return (protocol.answer_turn(item.gold),)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Forgets the first step."""
        del rng
        return (protocol.answer_turn(item.meta["slip"]),)


def _slip(pipeline: Pipeline) -> Pipeline:
    return Pipeline(pipeline.steps[1:], pipeline.end)
