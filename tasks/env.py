"""`TextEnv`: the Gymnasium shell round any `TaskSpec`.

Text in, text out; an observation is the *new* text only. An item is a pure function of (task, split, seed,
index, level). Everything in `info` is deterministic; wall-clock readings are in `timings`, beside it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import gymnasium

from tasks import protocol, splits
from tasks.spaces import UnicodeText
from tasks.spec import Grade, GradeStatus, TaskItem, TaskSpec

MAX_OBSERVATION_CHARS = 16_384
MAX_ACTION_CHARS = 65_536
OPTION_KEYS = ("split", "index", "item", "level", "sample_index")


class CutTurn(str):
    """A policy's turn that was cut off before its end; `stop` says by what.

    Handed to `step` in place of a plain str, it ends the episode as truncated, without reward and without
    being read: half an answer is no answer, and no parse error either.
    """

    __slots__ = ("stop",)

    def __new__(cls, text: str, stop: str = "max_tokens") -> CutTurn:
        """Makes one; `stop` is 'max_tokens' or 'context'."""
        if stop not in ("max_tokens", "context"):
            raise ValueError(f"A turn is cut by 'max_tokens' or 'context', not {stop!r}.")
        turn = super().__new__(cls, text)
        turn.stop = stop
        return turn


class Message(NamedTuple):
    """One message of the transcript; role is 'environment' or 'policy'."""

    role: str
    text: str


class StepTiming(NamedTuple):
    """Seconds one step took: in tools and grading, and added by a latency profile."""

    turn: int
    env_s: float
    simulated_s: float


class TextEnv(gymnasium.Env[str, str]):
    """One task as an episodic text environment.

    `terminated` is true when the episode was graded, `truncated` when a budget ended it without an answer;
    never both. ``info["stop"]`` names the reason: terminated, max_turns, max_tokens or context. Options of
    `reset` hold for that reset; without `index` items come in order.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}  # type: ignore[misc]  # Gymnasium's is mutable

    def __init__(
        self,
        task: TaskSpec,
        *,
        split: str = "train",
        level: int | None = None,
        max_turns: int | None = None,
        max_tool_calls: int | None = None,
        instructions: bool = False,
    ) -> None:
        """Builds the environment.

        Args:
          task: the pure task.
          split: where items come from unless `reset` says otherwise.
          level: difficulty unless `reset` says otherwise; None is the task's default.
          max_turns: turn budget; None is the task's.
          max_tool_calls: tool budget; a call past it is answered, and ends nothing.
          instructions: put the rules of the protocol, in words, before the first observation.
        """
        self.task = task
        self.max_turns = task.max_turns if max_turns is None else max_turns
        self.max_tool_calls = task.max_tool_calls if max_tool_calls is None else max_tool_calls
        if self.max_turns < 1 or self.max_tool_calls < 0:
            raise ValueError(
                f"Task '{task.id}': max_turns {self.max_turns} must be at least 1 and "
                f"max_tool_calls {self.max_tool_calls} at least 0."
            )
        self._protocol = dataclasses.replace(
            protocol.Protocol.of(task), max_turns=self.max_turns, max_tool_calls=self.max_tool_calls
        )
        self._preface = f"{self._protocol.instructions()}\n\n" if instructions else ""
        self.observation_space = UnicodeText(MAX_OBSERVATION_CHARS)
        self.action_space = UnicodeText(MAX_ACTION_CHARS)
        self._defaults = {"split": split, "level": task.default_level if level is None else level}
        self._seed: int | None = None
        self._next_index = 0
        self._sample_index = 0
        self._item: TaskItem | None = None
        self._done = True
        self._turn = 0
        self._tool_calls = 0
        self._messages: list[Message] = []
        self._timings: list[StepTiming] = []
        # a wrong split or level is a mistake of configuration: say so now, not at the first reset
        splits.check(task, self._defaults["split"], 0, self._defaults["level"])

    @property
    def item(self) -> TaskItem:
        """The current item, gold included: for graders and tests, never shown to the policy."""
        if self._item is None:
            raise gymnasium.error.ResetNeeded(f"Task '{self.task.id}': call reset() before anything else.")
        return self._item

    @property
    def coordinates(self) -> tuple[str, int, int, int, int]:
        """(task id, seed, index, sample index, turns taken): the key of a simulated delay."""
        return (self.task.id, self._seed or 0, self.item.index, self._sample_index, self._turn)

    @property
    def timings(self) -> list[StepTiming]:
        """What each step of this episode took; kept out of `info`, which is deterministic."""
        return self._timings

    def transcript(self) -> tuple[Message, ...]:
        """Returns all messages of this episode so far."""
        return tuple(self._messages)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Opens an episode.

        Args:
          seed: stream of items; starts it from index 0. None goes on with the stream.
          options: any of split, level, index (place in the stream), item (a `TaskItem` itself, or its
            index), sample_index (only keys simulated delays).
        Raises:
          ValueError: an unknown option, split or level.
        """
        super().reset(seed=seed)
        chosen = self._checked(options)
        if seed is not None:
            self._seed, self._next_index = seed, 0
        elif self._seed is None:
            self._seed = int(self.np_random.integers(2**31))
        given = chosen.get("item")
        if isinstance(given, TaskItem):
            self._item = given
        else:
            index = chosen.get("index", self._next_index) if given is None else given
            self._item = splits.item(self.task, chosen["split"], self._seed, index, chosen["level"])
            self._next_index = index + 1
        self._sample_index = chosen.get("sample_index", 0)
        self._done, self._turn, self._tool_calls = False, 0, 0
        observation = self._preface + self.task.render(self._item)
        self._messages = [Message("environment", observation)]
        self._timings = []
        return observation, self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes the policy's text of one turn: grades an answer, runs a tool call, or says there is none."""
        item = self.item
        if self._done:
            raise gymnasium.error.ResetNeeded(f"Task '{self.task.id}': the episode is over, call reset().")
        if not self.action_space.contains(action):
            raise ValueError(
                f"Task '{self.task.id}': an action must be a str of at most {MAX_ACTION_CHARS} characters "
                f"without lone surrogates; got {_describe(action)}."
            )
        started = time.perf_counter()
        self._messages.append(Message("policy", action))
        cut = action.stop if isinstance(action, CutTurn) else None
        response = None if cut else self._respond(item, action)
        grade = response if isinstance(response, Grade) else None
        observation = response if isinstance(response, str) else ""
        self._turn += 1
        stop = "terminated" if grade else cut or ("max_turns" if self._turn >= self.max_turns else None)
        if grade is None and stop:
            why = f"cut by {stop}" if cut else f"no answer in {self._turn} turns"
            grade = Grade(reward=0.0, status=GradeStatus.TRUNCATED, detail=why)
        if observation:
            self._messages.append(Message("environment", observation))
        self._timings.append(StepTiming(self._turn, time.perf_counter() - started, 0.0))
        info = self._info()
        if grade is None:
            return observation, 0.0, False, False, info
        self._done = True
        info |= {
            "grade_status": str(grade.status),
            "grade_detail": grade.detail,
            "answer": grade.answer,
            "stop": stop,
            "format_ok": grade.status in (GradeStatus.CORRECT, GradeStatus.WRONG),
        }
        if grade.sandbox is not None:
            info["sandbox"] = grade.sandbox
        if grade.status in (GradeStatus.GRADER_TIMEOUT, GradeStatus.GRADER_ERROR):
            # the verifier's failure, not the policy's: a trainer counts it and leaves it out
            info["harness_error"] = grade.detail or str(grade.status)
        terminated = stop == "terminated"
        return observation, float(grade.reward), terminated, not terminated, info

    def _respond(self, item: TaskItem, action: str) -> str | Grade:
        """The next observation, or the grade that ends the episode."""
        turns = [message.text for message in self._messages if message.role == "policy"]
        response = self.task.respond(item, turns)
        if response is None:
            response = self._verdict(item, action) or self._reply(item, action)
        return response

    def _verdict(self, item: TaskItem, action: str) -> Grade | None:
        """The grade of a turn that ends the episode; None where the episode goes on."""
        grade = self.task.grade(item, action)
        if self.max_turns > 1 and grade.status is GradeStatus.NO_ANSWER:
            return None
        return grade

    def _reply(self, item: TaskItem, action: str) -> str:
        call = self._protocol.read_call(action)
        if call is None:
            return protocol.result_turn(protocol.NO_CALL)
        if self._tool_calls >= self.max_tool_calls:
            return protocol.result_turn(protocol.TOOL_BUDGET_USED)
        self._tool_calls += 1
        if isinstance(call, protocol.BadCall):
            return protocol.result_turn(call.reason)
        return self.task.tool_reply(item, call)

    def _checked(self, options: Mapping[str, Any] | None) -> dict[str, Any]:
        chosen = dict(options or {})
        unknown = [key for key in chosen if key not in OPTION_KEYS]
        if unknown:
            raise ValueError(
                f"Task '{self.task.id}': unknown reset option {unknown[0]!r}; "
                f"known are {', '.join(OPTION_KEYS)}."
            )
        task_of = chosen["item"].task_id if isinstance(chosen.get("item"), TaskItem) else self.task.id
        if task_of != self.task.id:
            raise ValueError(f"Task '{self.task.id}': the item given is one of '{task_of}'.")
        if "item" in chosen and "index" in chosen:
            raise ValueError(f"Task '{self.task.id}': give item or index, not both.")
        for key in ("index", "item", "sample_index", "level"):
            if key == "item" and isinstance(chosen.get(key), TaskItem):
                continue
            if key in chosen and (isinstance(chosen[key], bool) or not isinstance(chosen[key], int)):
                raise ValueError(f"Task '{self.task.id}': option {key} must be an int, not {chosen[key]!r}.")
        return self._defaults | chosen

    def _info(self) -> dict[str, Any]:
        item = self.item
        return {
            "task_id": item.task_id,
            "item_uid": item.uid,
            "split": item.split,
            "index": item.index,
            "level": item.level,
            "turn": self._turn,
        }


def _describe(action: Any) -> str:
    if not isinstance(action, str):
        return f"a {type(action).__name__}"
    return f"{len(action)} characters" if len(action) > MAX_ACTION_CHARS else "a text with a lone surrogate"
