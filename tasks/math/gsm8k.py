"""`Math/GSM8K-v0` and `Math/SVAMP-v0`: real word problems, graded as exact numbers.

The answer is ``<answer>18</answer>`` or a line ``#### 18``; of several such lines the first counts, because a
model that runs on invents further exercises after its answer.
"""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

from tasks import protocol
from tasks.data.sources import DataSource
from tasks.data.task import DataTask
from tasks.math.calculator import calculate
from tasks.spec import Draw, Grade, GradeStatus, TaskItem, ToolCall
from tasks.verify.numbers import equal_number, final_line_answer, last_number_in_prose, parse_number


class WordProblems(DataTask):
    """Grading and demonstrators shared by the word-problem sets.

    One turn by default; made with more turns and tool calls, the policy has a calculator.
    """

    version = "1"
    tools = ("calc",)
    tool_help = {"calc": "the exact value of an expression in + - * / and brackets"}  # noqa: RUF012 read-only
    licence = "MIT"
    max_answer_chars = 32
    best_constant_cap = 0.05

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Exact rational comparison with the gold."""
        if protocol.ANSWER_OPEN not in text and protocol.ANSWER_CLOSE not in text:
            line = final_line_answer(text)
            if line is None:
                return Grade(reward=0.0, status=GradeStatus.NO_ANSWER, detail="neither answer nor #### line")
            if any(mark in line for mark in protocol.MARKS):
                return Grade(reward=0.0, status=GradeStatus.MALFORMED, detail="a mark in the #### line")
            text = protocol.answer_turn(line)
        gold = Fraction(item.gold)
        return protocol.grade_answer(
            text, max_chars=self.max_answer_chars, verdict=lambda answer: equal_number(answer, gold)
        )

    def tool_reply(self, item: TaskItem, call: ToolCall) -> str:
        """Works out an expression."""
        del item
        return calculate(call.argument)

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """The gold number."""
        return (protocol.answer_turn(item.gold),)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Repeats the last number of the question."""
        del rng
        value = last_number_in_prose(item.prompt)
        return (protocol.answer_turn(str(value if value is not None else 0)),)


class Gsm8k(WordProblems):
    """Rows: question, and an answer whose last line is ``#### n``."""

    id = "Math/GSM8K-v0"
    title = "GSM8K"
    description = "Grade-school word problems (Cobbe et al. 2021, arXiv 2110.14168)"
    source = "gsm8k"
    data_source = DataSource(
        name="gsm8k",
        parts={"train": ("train",), "test": ("test",)},
        hub_id="openai/gsm8k",
        hub_revision="e53f048856ff4f594e959d75785d2c2d37b678ee",
        hub_config="main",
        licence="MIT",
    )

    def from_row(self, row: dict[str, Any]) -> Draw:
        """Reads the gold after ``####``, sign and thousands separators included."""
        line = final_line_answer(row["answer"])
        value = parse_number(line) if line is not None else None
        if value is None:
            raise ValueError(f"its answer ends in no number: {row['answer'][-40:]!r}")
        return Draw(row["question"].strip(), str(value), {})


class Svamp(WordProblems):
    """Rows: Body, Question, Answer; no official test file, so all three splits are by content."""

    id = "Math/SVAMP-v0"
    title = "SVAMP"
    description = "Varied one- and two-step word problems (Patel et al. 2021, arXiv 2103.07191)"
    source = "svamp"
    tiers = ("T1",)
    best_constant_cap = 0.1
    data_source = DataSource(
        name="svamp",
        parts={"all": ("SVAMP", "svamp", "all")},
        hub_id="ChilleD/SVAMP",
        hub_revision="5e0bf1e5e7c0e9c4bc39180d224f41f3f801b7ef",
        licence="MIT",
    )

    def from_row(self, row: dict[str, Any]) -> Draw:
        """Joins body and question; the answer is a number, exact as written."""
        body, question = row["Body"].strip(), row["Question"].strip()
        body = body if body.endswith((".", "?", "!")) else f"{body}."
        value = parse_number(str(row["Answer"]))
        if value is None:
            raise ValueError(f"its Answer is no number: {row['Answer']!r}")
        return Draw(f"{body} {question}", str(value), {})


GSM8K = Gsm8k()
SVAMP = Svamp()
