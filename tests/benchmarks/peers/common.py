"""What every worker shares: the job's description, the check of the weights, the gate. Standard library and numpy."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

MODEL = "model"
"""Folder of the exported base model, inside the job's folder."""
TOLERANCE = 1e-3
"""Largest difference of a logit between two float32 implementations of the same weights; logits are around 10."""
FIRST_CONTROL, MARKS = 256, 6
BOS, USER, ASSISTANT = 257, 258, 259
PAD, NEVER = 256, 271
"""What fills arrays, and an unused id that stands where a library insists on an end-of-text token."""
VOCABULARY = 272


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The work, the same for everybody. Prompts are text of one length; each is a group's."""

    prompts: tuple[str, ...]
    group_size: int
    groups_per_update: int
    new_tokens: int
    rank: int
    alpha: float
    learning_rate: float
    threads: int
    warm_up: int
    seed: int

    @property
    def rollouts(self) -> int:
        """Rollouts in an update."""
        return self.group_size * self.groups_per_update

    def save(self, folder: Path) -> None:
        """Writes it where `load_job` finds it."""
        (folder / "job.json").write_text(json.dumps(asdict(self)))


def load_job(folder: Path) -> Job:
    """The job of a folder."""
    values = json.loads((folder / "job.json").read_text())
    return Job(**{**values, "prompts": tuple(values["prompts"])})


def prompt_ids(text: str) -> list[int]:
    """The context in which a prompt's rollouts are sampled."""
    return [BOS, USER, *text.encode(), ASSISTANT]


def reward(text: str) -> float:
    """The share of characters with an even code: varies within every group, so that no update is without signal."""
    return sum(ord(c) % 2 == 0 for c in text) / max(len(text), 1)


def check_logits(folder: Path, logits: Any) -> float:
    """The largest difference from the reference logits of the job's prompts; raises where it is past TOLERANCE."""
    reference = np.load(folder / "logits.npy")
    found = np.asarray(logits, np.float32)
    if found.shape != reference.shape:
        raise SystemExit(f"logits have shape {found.shape}, the reference has {reference.shape}")
    worst = float(np.abs(found - reference).max())
    if not worst <= TOLERANCE:
        raise SystemExit(f"the weights differ: logits are up to {worst:.2g} off, more than {TOLERANCE}")
    return worst


def lines_to_parent() -> TextIO:
    """The stream to the parent; what a library prints goes to standard error from here on."""
    stream = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return stream


class Gate:
    """Stops a trainer between two updates until the parent asks for more, and times what it asked for.

    A line from the parent is a number of updates; the answer is their seconds. An empty line or the end of the
    stream ends the worker.
    """

    def __init__(self, job: Job, about: dict[str, Any], stream: TextIO) -> None:
        self._left, self._about, self._stream = job.warm_up, about, stream
        self._warm = False
        self._began = 0.0
        self.problems: list[str] = []
        """What makes the next block not worth timing; told instead of its seconds."""

    def passed(self) -> bool:
        """Told after each update; False when the worker is to end."""
        self._left -= 1
        if self._left > 0:
            return True
        seconds = time.perf_counter() - self._began
        answer = {"seconds": seconds} if self._warm else {"ready": self._about}
        self._say({"error": "; ".join(self.problems)} if self.problems else answer)
        self._warm = True
        asked = sys.stdin.readline().strip()
        self._left = int(asked or 0)
        self._began = time.perf_counter()
        return self._left > 0

    def _say(self, answer: dict[str, Any]) -> None:
        self._stream.write(json.dumps(answer) + "\n")
        self._stream.flush()
