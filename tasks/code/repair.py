"""`Code/Repair-v0`: mend a faulty function; the tests one can run are not the tests that decide."""

from __future__ import annotations

import dataclasses
import random

from tasks import protocol, sandbox
from tasks.code import pipelines
from tasks.code.pipelines import Pipeline, Tests
from tasks.code.programs import MAX_PROGRAM_CHARS, changed_lines, grade_source
from tasks.sandbox import Program
from tasks.spec import Draw, Grade, TaskItem, TaskSpec, ToolCall
from tasks.verify.code import HiddenTests, judge, source_of

_PUBLIC, _HIDDEN = 3, 8
_MAX_RESULT_CHARS = 400


class Repair(TaskSpec):
    """Level n is a function of n + 1 steps; from level 3 on it has two faults."""

    id = "Code/Repair-v0"
    version = "1"
    title = "Mend the function"
    description = "Mend a faulty function; run_tests runs the three public tests, hidden ones decide"
    levels = (1, 2, 3, 4)
    tiers = ("T1", "T1", "T2", "T2")
    default_level = 1
    max_turns = 4
    max_tool_calls = 3
    max_answer_chars = MAX_PROGRAM_CHARS
    max_call_chars = MAX_PROGRAM_CHARS
    tools = ("run_tests",)
    tool_help = {"run_tests": "runs your whole program on the public tests"}  # noqa: RUF012 a read-only mapping
    best_constant_cap = 0.02
    sandboxed = True
    accepts_expressions = True

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws a pipeline and a mutant that fails some public and some hidden tests."""
        while True:
            pipeline = pipelines.draw(rng, level + 1)
            tests = pipelines.draw_tests(rng, pipeline, _PUBLIC + _HIDDEN)
            if tests is None:
                continue
            public, hidden = tests.part(0, _PUBLIC), tests.part(_PUBLIC)
            mutant = _mutant(rng, pipeline, 2 if level >= 3 else 1, (public, hidden))
            if mutant is not None:
                break
        shown = "\n".join(f"f({xs}) == {result!r}" for xs, result in zip(*public, strict=True))
        prompt = f"Mend f. {pipeline.describe()}\n{mutant.source()}\nPublic tests:\n{shown}"
        meta = {
            "public": public.inputs,
            "public_expected": public.expected,
            "inputs": hidden.inputs,
            "expected": hidden.expected,
            "faulty": mutant.source(),
        }
        return Draw(prompt, pipeline.source(), meta)

    def split_key(self, draw: Draw) -> str:
        """One function stays in one split, whatever its faults and tests."""
        return draw.gold

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Calls the function on the hidden inputs; the detail tells the size of the change."""
        inputs = [[xs] for xs in item.meta["inputs"]]
        grade = grade_source(text, HiddenTests(inputs=inputs, expected=item.meta["expected"]))
        if grade.answer is None:
            return grade
        changed = changed_lines(item.meta["faulty"], grade.answer)
        return dataclasses.replace(grade, detail=f"{grade.detail}; {changed} lines changed")

    def tool_reply(self, item: TaskItem, call: ToolCall) -> str:
        """Runs the program on the public tests; tells nothing of the hidden ones."""
        tests = HiddenTests(
            inputs=[[xs] for xs in item.meta["public"]], expected=item.meta["public_expected"]
        )
        program = Program(kind="function", source=source_of(call.argument), entry_point="f")
        passed, why = judge(sandbox.run(program, tests.inputs), tests, stdin=False)
        said = f"{sum(passed)} of {len(tests.inputs)} pass{why and f'; {why}'}"
        return protocol.result_turn(said, max_chars=_MAX_RESULT_CHARS)

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """Runs the tests once, then answers."""
        return (f"<run_tests>{item.gold}</run_tests>", protocol.answer_turn(item.gold))

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Returns what the public tests want, by a table of them."""
        del rng
        table = dict(zip(map(str, item.meta["public"]), item.meta["public_expected"], strict=True))
        return (protocol.answer_turn(f"def f(xs):\n    return {table!r}.get(str(xs), 0)"),)


def _mutant(rng: random.Random, pipeline: Pipeline, faults: int, parts: tuple[Tests, ...]) -> Pipeline | None:
    """A pipeline with so many faults that fails each part of the tests; None where a few tries found none."""
    for _ in range(4):
        mutant = pipeline
        for _ in range(faults):
            mutant = pipelines.mutate(rng, mutant)
        if all(part.refute(mutant) for part in parts):
            return mutant
    return None
