"""Re-grades transcripts by replay: the recorded turns are played again in the task itself.

Nothing of the record is believed: the item comes from its coordinates, the observations from the task, the
reward from its grader. Simulated latency is left out, since it never enters a reward.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import tasks
from leaderboard.schema import EvalLine, RolloutLine, TaskInfo, TurnLine

CUT = ("max_tokens", "context")
"""Stops of an episode that ran out of room: it is never graded and earns nothing."""


class TextEnvironment(Protocol):
    """What replay needs of an environment."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict]:
        """Opens the episode of given coordinates."""
        ...

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict]:
        """Takes one policy turn."""
        ...


MakeEnvironment = Callable[[str], TextEnvironment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where replay and record part; `field` is reward, grade_status, stop, item_uid or observation."""

    field: str
    recorded: str
    replayed: str


class Replayer:
    """Replays lines, one environment per task."""

    def __init__(self, make: MakeEnvironment | None = None, *, data: str | None = None) -> None:
        """Builds a replayer; `data` is where data-set tasks read from, `make` replaces the task registry."""
        self._make = make or functools.partial(_make, data=data)
        self._environments: dict[str, TextEnvironment] = {}

    def replay(self, line: RolloutLine | EvalLine) -> list[Difference]:
        """Plays one episode again and returns every difference; none means that the record holds.

          Raises:
            UnknownTaskError, DataError: the task, or its data, isn't here.
        ValueError: there is no such split, level or item.
        """
        environment = self._environments.get(line.env_id)
        if environment is None:
            environment = self._environments[line.env_id] = self._make(line.env_id)
        options: dict[str, Any] = {"split": line.split, "index": line.item_index}
        if line.level is not None:
            options["level"] = line.level
        observation, info = environment.reset(seed=line.env_seed, options=options)
        found = _differ("item_uid", line.item_uid, info["item_uid"])
        if not line.turns:
            return found + _ungraded(line)
        return found + self._play(environment, observation, line)

    def _play(
        self, environment: TextEnvironment, observation: str, line: RolloutLine | EvalLine
    ) -> list[Difference]:
        pending: str | None = observation
        last = line.turns[-1]
        for turn in line.turns:
            if turn.role == "environment":
                if turn.text != (pending or ""):
                    return _differ("observation", turn.text, pending or "")
                pending = None
                continue
            if pending:
                return _differ("observation", "", pending)
            if turn is last and turn.stop in CUT:
                return _ungraded(line, stop=turn.stop)
            pending, reward, terminated, truncated, info = environment.step(turn.text)
            if (terminated or truncated) and line.stop == "error":
                # dropped while its grade was under way, at the end of a run
                return _ungraded(line)
            if terminated or truncated:
                return self._compare(turn, last, pending, float(reward), terminated, info, line)
        return _ungraded(line)

    def _compare(
        self,
        turn: TurnLine,
        last: TurnLine,
        observation: str,
        reward: float,
        terminated: bool,
        info: dict[str, Any],
        line: RolloutLine | EvalLine,
    ) -> list[Difference]:
        found: list[Difference] = []
        if turn is not last and not (last.role == "environment" and last.text == observation):
            found += _differ("observation", "a further turn", "the episode was over")
        if reward != line.reward:
            found.append(Difference(field="reward", recorded=repr(line.reward), replayed=repr(reward)))
        found += _differ("grade_status", line.grade_status, str(info.get("grade_status", "")))
        return found + _differ("stop", line.stop, "terminated" if terminated else "truncated")


def task_info(env_id: str) -> TaskInfo:
    """Returns what run.json records of a task: its version, and the hash of the code behind it."""
    spec = tasks.get(env_id)
    return TaskInfo(version=spec.version, grader_hash=_grader_hash(type(spec).__module__, spec.sandboxed))


@functools.cache
def _grader_hash(module_name: str, sandboxed: bool) -> str:
    """Hashes what an item and its grade come from: shell, splits, verifiers, the task and its neighbours."""
    root = Path(inspect.getfile(tasks)).parent
    own = Path(inspect.getfile(sys.modules[module_name]))
    sources = {root / name for name in ("env.py", "spec.py", "splits.py", "protocol.py")} | {own}
    folders = [root / "verify"]
    if own.is_relative_to(root):
        folders.append(own.parent)
        # generators and corpora of a family are modules beside its tasks
        folders += [root / "search"] if own.parent.name == "qa" else []
    folders += [root / "sandbox", root / "sandbox" / "guest"] if sandboxed else []
    sources |= {path for folder in folders for path in folder.glob("*.py")}
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(path.name.encode() + b"\0")
        digest.update(path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return digest.hexdigest()


def _make(env_id: str, *, data: str | None) -> TextEnvironment:
    spec = tasks.get(env_id)
    # a task that generates its items refuses a data path
    takes_data = data is not None and hasattr(spec, "reading_from")
    return tasks.make(env_id, data=data if takes_data else None)  # type: ignore[return-value]


def _ungraded(line: RolloutLine | EvalLine, stop: str | None = None) -> list[Difference]:
    """An episode that never came to its grading earns nothing."""
    found: list[Difference] = []
    if line.reward != 0.0:
        found.append(Difference(field="reward", recorded=repr(line.reward), replayed="0.0 (never graded)"))
    if stop is not None:
        found += _differ("stop", line.stop, stop)
        found += _differ("grade_status", line.grade_status, "truncated")
    elif line.stop in ("terminated", "truncated"):
        found += _differ("stop", line.stop, "the episode goes on")
    return found


def _differ(field: str, recorded: str, replayed: str) -> list[Difference]:
    if recorded == replayed:
        return []
    return [Difference(field=field, recorded=recorded[:80], replayed=replayed[:80])]
