"""The checker of tasks: says which rule a task breaks, where, and what to do about it.

A clean task returns no findings.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import gymnasium
from gymnasium.utils.env_checker import check_env

from tasks import fixtures, protocol, registry, splits
from tasks.baselines import CONSTANT_ITEMS, best_constant, earned, mean
from tasks.spec import TaskItem, TaskSpec, ToolCall

_PROBE_ITEMS = 50
_SANDBOXED_SHARE = 20
"""Tasks that run programs are checked on a twentieth of the items: a grade costs milliseconds there."""
_CHILD_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One broken rule."""

    task_id: str
    rule: str
    what: str
    file: str
    fix: str

    def __str__(self) -> str:
        return f"{self.task_id}: {self.rule}: {self.what} ({self.file}). {self.fix}"


def validate(task_id: str, *, items: int = 1000) -> list[Finding]:
    """Checks one task on `items` items a split; an empty list is a clean task."""
    spec = registry.get(task_id)
    file = inspect.getsourcefile(type(spec)) or "?"
    rules = (_gymnasium, _same_elsewhere, _splits_apart, _fixtures, _oracle_and_null, _probes, _constant)
    return [
        Finding(task_id=spec.id, rule=rule.__name__.lstrip("_"), what=what, file=file, fix=fix)
        for rule in rules
        for what, fix in rule(spec, items)
    ]


def fingerprint(task_id: str, *, items: int = 50) -> str:
    """Hashes the first item uids and prompts of every split: the same in every process."""
    spec = registry.get(task_id)
    digest = hashlib.sha256()
    for split in splits.SPLITS:
        for index in range(items):
            item = splits.item(spec, split, 7, index)
            digest.update(f"{item.uid}{spec.render(item)}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


Faults = Iterator[tuple[str, str]]


def _gymnasium(spec: TaskSpec, items: int) -> Faults:
    del items
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(gymnasium.make(spec.id).unwrapped)
    except (AssertionError, UserWarning, gymnasium.error.Error) as error:
        yield f"check_env: {error}", "Keep reset and step as TextEnv has them."


def _same_elsewhere(spec: TaskSpec, items: int) -> Faults:
    del items
    code = f"from tasks.validate import fingerprint; print(fingerprint({spec.id!r}))"
    # another hash seed: an order taken from a set or from hash() shows up as another fingerprint
    here = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONHASHSEED": "4242", "PYTHONPATH": path}
    child = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=_CHILD_TIMEOUT_S,
        env=env,
        check=False,
    )
    if child.returncode:
        yield f"another process failed: {child.stderr.strip().splitlines()[-1:]}", "Make it importable."
    elif child.stdout.strip() != fingerprint(spec.id):
        yield "another process draws other items", "Take randomness from the rng handed in, and nothing else."


def _splits_apart(spec: TaskSpec, items: int) -> Faults:
    seen: dict[str, str] = {}
    for split in splits.SPLITS:
        for index in range(items):
            item = splits.item(spec, split, index % 3, index)
            other = seen.setdefault(item.prompt, split)
            if other != split:
                yield (
                    f"{item.prompt!r} is in {other} and {split}",
                    "Let split_key depend on the prompt alone.",
                )
                return


def _fixtures(spec: TaskSpec, items: int) -> Faults:
    del items
    if not spec.frozen:
        return
    fix = "Undo the change, or give the task a new version and write its fixtures anew."
    try:
        yield from ((what, fix) for what in fixtures.check(spec))
    except fixtures.FixtureError as error:
        yield str(error), "Read what it writes: each line is a promise."


def _oracle_and_null(spec: TaskSpec, items: int) -> Faults:
    for item in _sample(spec, _fewer(spec, min(items, 200))):
        grade = spec.grade(item, spec.oracle(item)[-1])
        if grade.reward != 1.0:
            yield (
                f"the oracle earns {grade.reward} on {item.prompt!r}: {grade.detail}",
                "Mend gold or grader.",
            )
            return
        if spec.grade(item, "").reward != 0.0:
            yield f"an empty answer earns a reward on {item.prompt!r}", "No answer earns exactly 0."
            return


def _probes(spec: TaskSpec, items: int) -> Faults:
    sample = _sample(spec, _fewer(spec, min(items, _PROBE_ITEMS)))
    for name, attack in PROBES.items():
        if name == "expression" and spec.accepts_expressions:
            continue
        for item in sample:
            text = attack(spec, item, sample)
            if spec.grade(item, text).reward != 0.0:
                yield (
                    f"probe '{name}' is paid on {item.prompt!r}: {text[:80]!r}",
                    "Read one whole literal only.",
                )
                break
    if spec.tools:
        hostile = f"x {protocol.answer_turn(str(sample[0].gold))}"
        reply = spec.tool_reply(sample[0], ToolCall(name=spec.tools[0], argument=hostile))
        inner = reply.removeprefix(protocol.RESULT_OPEN).removesuffix(protocol.RESULT_CLOSE)
        if any(mark in inner for mark in protocol.MARKS):
            yield "a tool's output holds protocol marks", "Pass tool output through protocol.result_turn."


def _constant(spec: TaskSpec, items: int) -> Faults:
    constant = best_constant(spec)
    count = max(items, CONSTANT_ITEMS) // (5 if spec.sandboxed else 1)
    earns = mean(earned(spec, splits.item(spec, "train", 0, i), (constant,)) for i in range(count))
    if earns > spec.best_constant_cap:
        yield (
            f"always {constant!r} earns {earns:.3f}, cap {spec.best_constant_cap}",
            "Balance the answers or declare a higher cap.",
        )


def _gold_text(spec: TaskSpec, item: TaskItem) -> str:
    turn = spec.oracle(item)[-1]
    return turn.removeprefix(protocol.ANSWER_OPEN).removesuffix(protocol.ANSWER_CLOSE)


Probe = Callable[[TaskSpec, TaskItem, Sequence[TaskItem]], str]

PROBES: dict[str, Probe] = {
    "empty": lambda spec, item, sample: "",
    "empty answer": lambda spec, item, sample: protocol.answer_turn(""),
    "no marks": lambda spec, item, sample: _gold_text(spec, item),
    "unterminated": lambda spec, item, sample: protocol.ANSWER_OPEN + _gold_text(spec, item),
    "junk around": lambda spec, item, sample: protocol.answer_turn(f"it is {_gold_text(spec, item)} ok"),
    "prompt copied": lambda spec, item, sample: protocol.answer_turn(item.prompt),
    "chain": lambda spec, item, sample: protocol.answer_turn(f"{_gold_text(spec, item)}=1"),
    "expression": lambda spec, item, sample: protocol.answer_turn(f"{_gold_text(spec, item)}+0"),
    "two answers": lambda spec, item, sample: (
        protocol.answer_turn("no") + protocol.answer_turn(_gold_text(spec, item))
    ),
    "many in one": lambda spec, item, sample: protocol.answer_turn(
        " ".join(dict.fromkeys([_gold_text(spec, item), "7", "blue"]))
    ),
    "all answers": lambda spec, item, sample: "".join(
        protocol.answer_turn(text) for text in dict.fromkeys(_gold_text(spec, other) for other in sample)
    ),
    "as a result": lambda spec, item, sample: protocol.result_turn(spec.oracle(item)[-1]),
    "nested": lambda spec, item, sample: protocol.answer_turn(spec.oracle(item)[-1]),
}
"""Texts that must earn nothing whatever the task: each route has paid in some published environment."""


def _fewer(spec: TaskSpec, items: int) -> int:
    return max(5, items // _SANDBOXED_SHARE) if spec.sandboxed else items


def _sample(spec: TaskSpec, count: int) -> list[TaskItem]:
    return [splits.item(spec, "train", 11, index) for index in range(count)]
