"""What a task is: frozen items, grades, and the pure functions between them.

A `TaskSpec` holds no state, clock or random source: everything random comes from the `random.Random` that
is handed in, so an item is the same in every process. Shells (Gymnasium env, vector env, re-grading of
stored transcripts) all call the same functions.
"""

from __future__ import annotations

import abc
import enum
import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class GradeStatus(enum.StrEnum):
    """How a grade came about. Only `correct` pays; `grader_timeout` and `grader_error` are never rewards."""

    CORRECT = "correct"
    """One well-formed answer, equal to the gold."""
    WRONG = "wrong"
    """One well-formed answer, not equal to the gold."""
    NO_ANSWER = "no_answer"
    """The last turn holds no answer mark at all."""
    MALFORMED = "malformed"
    """An answer was begun but is incomplete, empty, over-long or not a literal of the task's type."""
    MULTIPLE = "multiple"
    """More than one answer in the last turn; none counts, or guessing would pay."""
    TRUNCATED = "truncated"
    """The turn budget ran out before an answer."""
    GRADER_TIMEOUT = "grader_timeout"
    """The verifier or a tool passed its deadline."""
    GRADER_ERROR = "grader_error"
    """The verifier itself failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """The verdict on one text: a reward in [0, 1], why, and the answer that was read (if any).

    An answer is worth 1.0 or 0.0; a game may pay less for a late one.
    """

    reward: float
    status: GradeStatus
    detail: str = ""
    answer: str | None = None
    sandbox: str | None = None
    """Level of the sandbox that ran the answer, e.g. 'L2'; None where nothing was run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a tool by the policy; the argument is plain text."""

    name: str
    argument: str


class Draw(NamedTuple):
    """What a generator makes: the content of an item before it has a place in a split."""

    prompt: str
    gold: Any
    meta: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskItem:
    """One exercise. `uid` is a hash of its content: the same content has the same uid in every split."""

    uid: str
    task_id: str
    split: str
    index: int
    level: int
    prompt: str
    gold: Any
    meta: dict[str, Any] = field(default_factory=dict)
    licence: str = ""
    source: str = "procedural"


def content_uid(task_id: str, version: str, prompt: str, gold: Any, meta: Mapping[str, Any]) -> str:
    """Returns the sha256 of the canonical JSON of an item's content."""
    content = {"task": task_id, "version": version, "prompt": prompt, "gold": gold, "meta": dict(meta)}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


TIERS: dict[str, str] = {
    "T0": "a character model of a few million weights",
    "T1": "an instruction model of some hundred million weights",
    "T2": "a model of a billion weights or more",
    "T3": "a frontier model",
}


class TaskSpec(abc.ABC):
    """A task as pure functions. Subclasses set the attributes and implement the abstract methods."""

    id: str
    """Gymnasium id, e.g. ``Math/Add-v0``."""
    version: str
    """Changes whenever items or grading change; part of every item's random stream."""
    title: str
    description: str
    licence: str = "Apache-2.0"
    source: str = "procedural"
    levels: tuple[int, ...]
    default_level: int
    tiers: tuple[str, ...] = ()
    """Of each level the smallest kind of model that it is made for, one of `TIERS`; empty where nobody has said."""
    max_turns: int = 1
    max_tool_calls: int = 0
    max_answer_chars: int = 16
    max_call_chars: int = 256
    """Longest argument of a tool call; a longer one is refused in words."""
    tools: tuple[str, ...] = ()
    """Names of the tools a policy may call, each by ``<NAME>argument</NAME>`` or a JSON function call."""
    tool_help: Mapping[str, str] = {}
    """What each tool does, in one clause; goes into the instructions."""
    accepts_expressions: bool = False
    """True where an answer may be an expression, so that ``gold+0`` is as right as the gold."""
    sandboxed: bool = False
    """True where grading runs the answer as a program: milliseconds, not microseconds."""
    frozen: bool = True
    """False where items depend on the release of another package, so that no fixtures can hold them."""
    best_constant_cap: float
    """Most that always giving the same answer may earn; `validate` measures and holds it."""

    @abc.abstractmethod
    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws one item's content from `rng` alone."""

    def render(self, item: TaskItem) -> str:
        """Returns the first observation of an episode."""
        return item.prompt

    @abc.abstractmethod
    def grade(self, item: TaskItem, text: str) -> Grade:
        """Grades the policy's last turn; never raises on any text."""

    @abc.abstractmethod
    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """Returns the turns of a perfect policy."""

    @abc.abstractmethod
    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Returns the turns of a plausible demonstrator with a systematic fault."""

    def closed_book(self, item: TaskItem) -> tuple[str, ...] | None:
        """Returns the turns of a policy that knows the real world and searches nothing.

        None where there is nothing to search; what it earns tells how much a task measures memory.
        """
        del item
        return None

    def tool_reply(self, item: TaskItem, call: ToolCall) -> str:
        """Returns the observation that answers a tool call."""
        raise NotImplementedError(f"Task '{self.id}' has no tools; it was asked to run '{call.name}'.")

    def split_key(self, draw: Draw) -> str:
        """Returns the content that decides the split; equal keys never fall in two splits."""
        return draw.prompt

    def respond(self, item: TaskItem, turns: Sequence[str]) -> str | Grade | None:
        """Answers the policy's turns so far, the last one included, where the task is a game.

        Returns:
          The next observation, or the grade that ends the episode; None where the task is no game: then a
          turn is an answer or a tool call.
        """
        del item, turns
        return None

    def rows(self, split: str) -> Sequence[Draw] | None:
        """Returns all items of a split for tasks made from a data set; None for generated ones."""
        del split
        return None


def play(spec: TaskSpec, item: TaskItem, turns: Sequence[str]) -> Grade:
    """Grades an episode of these turns without its tools, whose replies no grade depends on.

    An episode that has not ended with the last turn is graded as truncated.
    """
    for number, turn in enumerate(turns, start=1):
        response = spec.respond(item, turns[:number])
        if isinstance(response, Grade):
            return response
        if response is None and number == len(turns):
            return spec.grade(item, turn)
    return Grade(reward=0.0, status=GradeStatus.TRUNCATED, detail=f"no answer in {len(turns)} turns")
