"""Datasets of reasoning-gym as tasks ``RG/<dataset>-v0``, seeded, split and graded by us.

Upstream, item i of seed s is item i - 1 of seed s + 1, so two seeds are no two splits, and scorers pay for
answers that are embedded, partial or empty. Here an item's place in a dataset's stream is drawn like
everything random of a task, its split is decided by its content, and an answer is right or wrong.

Source: https://github.com/open-thought/reasoning-gym (Apache-2.0); read and run at versions 0.1.23 and 0.1.25.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import random
import re
from typing import Any

from tasks import protocol
from tasks.adapters.ambient import ambient_random
from tasks.data.sources import DataMissingError
from tasks.spec import Draw, Grade, GradeStatus, TaskItem, TaskSpec
from tasks.verify import answers

PREFIX = "RG/"
EXTRA = "pip install 'async-rl-bench[reasoning-gym]'"

REFUSED: dict[str, str] = {
    "boxnet": "it has no gold answer, so no oracle can show that it can be solved",
    "composite": "it mixes datasets; give a tenant several tasks instead",
    "countdown": "its scorer evaluates the answer's text; take Math/Countdown-v0",
    "graph_color": "it has no gold answer, so no oracle can show that it can be solved",
    "intermediate_integration": "its scorer evaluates the answer's text; take Math/SymbolicEq-v0",
    "polynomial_multiplication": "its scorer evaluates the answer's text; take Math/SymbolicEq-v0",
    "propositional_logic": "it has no gold answer, and its scorer evaluates the answer's text",
    "puzzle24": "its scorer evaluates the answer's text; take Math/Countdown-v0",
    "rubiks_cube": "it has no gold answer, so no oracle can show that it can be solved",
    "rush_hour": "it has no gold answer, so no oracle can show that it can be solved",
    "simple_integration": "its scorer evaluates the answer's text; take Math/SymbolicEq-v0",
    "syllogism": "some of its gold answers are wrong (reasoning-gym issue 536)",
}
"""Datasets that would break a rule of every task, and why."""

SEVERAL_RIGHT: dict[str, re.Pattern[str]] = {
    "jugs": re.compile(r'\[\s*("[^"]{1,20}"\s*,?\s*)*\]'),
    "knight_swap": re.compile(r'No|\[\s*("[^"]{1,20}"\s*,?\s*)*\]'),
    "n_queens": re.compile(r"[_Q]( [_Q])*(\n[_Q]( [_Q])*)*"),
    "palindrome_generation": re.compile(r"[a-z]+"),
    "shortest_path": re.compile(r"infeasible|(up|down|left|right)( (up|down|left|right))*"),
    "sokoban": re.compile(r"[UDLR]+"),
    "tower_of_hanoi": re.compile(r"(Move disk \d+ from Peg \d+ to Peg \d+\n?)+"),
    "word_ladder": re.compile(r"[A-Z]+(,[A-Z]+)*"),
}
"""Datasets whose gold is one of several right answers, and what an answer looks like.

There the dataset's own scorer decides, and only its full mark counts. No other text reaches it: some of
these scorers skip what they don't know, one evaluates it.
"""

_MAX_ANSWER_CHARS = 16_000
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(/\d+)?")
_INDICES = 1 << 31


class ReasoningGym(TaskSpec):
    """One dataset with one configuration; `config` holds what differs from the dataset's own defaults."""

    levels = (1,)
    default_level = 1
    max_answer_chars = _MAX_ANSWER_CHARS
    frozen = False

    def __init__(self, dataset: str, *, best_constant_cap: float = 1.0, **config: Any) -> None:
        """Opens a dataset.

        Raises:
          DataMissingError: reasoning-gym is not installed.
          ValueError: there is no such dataset, it is refused, or its configuration is.
        """
        factory = _package()
        if dataset in REFUSED:
            raise ValueError(f"reasoning-gym's '{dataset}' is no task here: {REFUSED[dataset]}.")
        if dataset not in factory.DATASETS:
            raise ValueError(
                f"reasoning-gym has no dataset '{dataset}'; 'bench tasks list' names those it has."
            )
        release = importlib.metadata.version("reasoning-gym")
        self.dataset, self.config = dataset, config
        self.id = f"{PREFIX}{dataset}-v0"
        self.version = f"1+reasoning-gym-{release}"
        self.title = f"reasoning-gym: {dataset.replace('_', ' ')}"
        self.description = f"The dataset '{dataset}' of reasoning-gym {release}, seeded and graded strictly"
        self.source = f"reasoning-gym {release}"
        self.best_constant_cap = best_constant_cap
        self._opened = self._open(0, 1)
        # some draw a list of templates as long as the dataset when it is made: then each item has its own
        self._by_index = _has(self._opened, _INDICES - 1)

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws a place in the dataset's stream."""
        del level
        index = rng.randrange(_INDICES)
        entry = self._entry(index)
        return Draw(str(entry["question"]).strip(), str(entry["answer"]).strip(), {"index": index})

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Numbers by value, other texts by their characters, and several right answers by the dataset's scorer."""
        read = protocol.read_answer(text, max_chars=self.max_answer_chars)
        if read.text is None:
            assert read.status is not None
            return Grade(reward=0.0, status=read.status, detail=read.detail)
        status, detail = self._verdict(item, read.text.strip())
        reward = 1.0 if status is GradeStatus.CORRECT else 0.0
        return Grade(reward=reward, status=status, detail=detail, answer=read.text)

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """The dataset's answer."""
        return (protocol.answer_turn(item.gold),)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Gives another item's answer."""
        return (protocol.answer_turn(str(self._entry(rng.randrange(_INDICES))["answer"]).strip()),)

    def _verdict(self, item: TaskItem, answer: str) -> tuple[GradeStatus, str]:
        if self.dataset in SEVERAL_RIGHT:
            if not SEVERAL_RIGHT[self.dataset].fullmatch(answer):
                return GradeStatus.MALFORMED, "not of the form the question asks for"
            return self._scored(item, answer)
        if _NUMBER.fullmatch(item.gold):
            verdict = answers.verify(answer, item.gold)
            return verdict.status, verdict.detail
        same = _lines(answer) == _lines(item.gold)
        return (GradeStatus.CORRECT if same else GradeStatus.WRONG), ""

    def _scored(self, item: TaskItem, answer: str) -> tuple[GradeStatus, str]:
        entry = self._entry(item.meta["index"])
        try:
            score = float(self._opened.score_answer(answer, entry))
        except Exception as error:  # noqa: BLE001 another project's code on a policy's text: its fault is told
            return GradeStatus.WRONG, f"the dataset's scorer could not read it: {type(error).__name__}"
        return (GradeStatus.CORRECT if score == 1.0 else GradeStatus.WRONG), f"scored {score:g}"

    def _entry(self, index: int) -> dict[str, Any]:
        with ambient_random(index):
            return self._opened[index] if self._by_index else self._open(index, 1)[0]

    def _open(self, seed: int, size: int) -> Any:
        try:
            with ambient_random(seed):
                return _package().create_dataset(self.dataset, seed=seed, size=size, **self.config)
        except (AssertionError, TypeError) as error:
            raise ValueError(f"reasoning-gym's '{self.dataset}' refuses {self.config}: {error}") from error


def names() -> tuple[str, ...]:
    """Ids of all datasets that are tasks here; none where reasoning-gym is not installed."""
    with contextlib.suppress(DataMissingError):
        return tuple(f"{PREFIX}{name}-v0" for name in sorted(_package().DATASETS) if name not in REFUSED)
    return ()


@functools.cache
def spec(task_id: str) -> ReasoningGym:
    """Returns the task of an id, with the dataset's own configuration.

    Raises:
      DataMissingError: reasoning-gym is not installed.
      ValueError: as `ReasoningGym`.
    """
    return ReasoningGym(task_id.removeprefix(PREFIX).removesuffix("-v0"))


def _package() -> Any:
    try:
        return importlib.import_module("reasoning_gym.factory")
    except ModuleNotFoundError as error:
        if error.name not in ("reasoning_gym", "reasoning_gym.factory"):
            raise
        raise DataMissingError(
            f"Tasks {PREFIX}… need the package reasoning-gym. Install it: {EXTRA}"
        ) from error


def _has(dataset: Any, index: int) -> bool:
    try:
        dataset[index]
    except IndexError:
        return False
    return True


def _lines(text: str) -> list[str]:
    """The words of each line: spaces between and around them carry nothing."""
    return [" ".join(line.split()) for line in text.strip().splitlines()]
