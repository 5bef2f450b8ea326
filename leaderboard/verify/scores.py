"""E121, E161-E164: every transcript is graded again, and evaluations are whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import tasks
from leaderboard.records import RunRecord
from leaderboard.rescore import MakeEnvironment, Replayer, task_info
from leaderboard.schema import EvalLine, RolloutLine, TurnLine
from leaderboard.verify import spellings
from leaderboard.verify.report import Finding, error, warning
from tasks.data.sources import DataError

_CODE = {"reward": "E161", "grade_status": "E161", "stop": "E163", "item_uid": "E162", "observation": "E162"}
SUITES = ("0.1",)
"""Versions of the suite whose tasks and graders this package has."""
MAX_SCREENED = 512
MAX_SAME = 0.95
MAX_ERRORED = 0.01
"""Of the evaluated items: with more the harness, not the policy, was measured."""
_STOPS = ("terminated", "truncated", "max_tokens", "context", "error")
_TURN_STOPS = ("eos", "max_tokens", "context", None)


def suite(record: RunRecord) -> Iterator[Finding]:
    """E121: task versions and grader hashes are ours; E125: programs ran behind walls."""
    if record.header.suite_version not in SUITES:
        said = f"suite version {record.header.suite_version[:40]!r} isn't one of {', '.join(SUITES)}"
        yield error("E121", "run.json", said, "verify with the version that wrote it")
    used = {line.env_id for line in (*record.rollouts, *record.evals)}
    for env_id in sorted(used - record.header.tasks.keys()):
        yield error("E121", "run.json", f"task {env_id[:80]!r} was used but isn't listed")
    for env_id, declared in record.header.tasks.items():
        try:
            ours = task_info(env_id)
        except tasks.UnknownTaskError as unknown:
            yield error("E121", "run.json", str(unknown)[:200], "install the task pack the run used")
            continue
        level = record.header.software.get("sandbox")
        if tasks.get(env_id).sandboxed and level not in ("L2", "L1"):
            yield error(
                "E125",
                "run.json",
                f"{env_id}: programs ran at sandbox level {level!r}",
                "run it where L1 can be had",
            )
        if declared.version != ours.version:
            yield error(
                "E121", "run.json", f"{env_id}: version {declared.version[:40]!r}, ours is {ours.version!r}"
            )
        elif declared.grader_hash != ours.grader_hash:
            yield error(
                "E121", "run.json", f"{env_id}: graded by other code than this version of the suite has"
            )


def regrade(
    record: RunRecord,
    checked: dict[str, int],
    *,
    make: MakeEnvironment | None = None,
    data: str | None = None,
) -> Iterator[Finding]:
    """E161, E162, E163 by replay of every rollout and evaluated item that didn't error."""
    replayer = Replayer(make, data=data)
    broken: set[str] = set()
    files: tuple[tuple[str, list[RolloutLine] | list[EvalLine]], ...] = (
        ("rollouts", record.rollouts),
        ("evals", record.evals),
    )
    for file, lines in files:
        checked[f"{file}_regraded"] = checked[f"{file}_errored"] = 0
        for number, line in enumerate(lines, start=1):
            if line.error is not None:
                checked[f"{file}_errored"] += 1
                if line.reward != 0.0:
                    yield error("E161", f"{file}.jsonl:{number}", "an errored episode earns no reward")
                continue
            if line.env_id in broken or never_began(line):
                continue
            try:
                differences = replayer.replay(line)
            except (tasks.UnknownTaskError, DataError) as unavailable:
                # this fails for all lines of the task: say so once
                broken.add(line.env_id)
                hint = "give the data the run read, or install its task pack"
                yield error("E161", f"{file}.jsonl:{number}", f"can't be graded: {unavailable}"[:300], hint)
                continue
            except ValueError as refused:
                yield error("E161", f"{file}.jsonl:{number}", f"can't be played again: {refused}"[:300])
                continue
            checked[f"{file}_regraded"] += 1
            for found in differences:
                said, ours = found.recorded, found.replayed
                if found.field != "reward":
                    said, ours = repr(said), repr(ours)
                yield error(
                    _CODE[found.field],
                    f"{file}.jsonl:{number}",
                    f"{found.field} is {said}, replay gives {ours}",
                    "the line was changed, or graded by other code",
                )
        if checked[f"{file}_errored"]:
            yield warning("W204", f"{file}.jsonl", f"{checked[f'{file}_errored']} episodes errored")


def never_began(line: RolloutLine | EvalLine) -> bool:
    """A run was stopped between the start of an episode and its first observation: there is nothing to play."""
    return isinstance(line, RolloutLine) and line.fate == "surplus" and not line.turns and not line.item_uid


def screened(record: RunRecord) -> Iterator[Finding]:
    """E166, always a warning: how often a sampled answer is the reference solution to the letter.

    A policy that learnt from demonstrations may well answer so; where it always does, only a replay of its
    adapters tells whether it did.
    """
    lines = record.rollouts[:: max(1, len(record.rollouts) // MAX_SCREENED)]
    environments: dict[str, Any] = {}
    same = seen = 0
    for line in lines:
        if line.error is not None or not line.turns:
            continue
        try:
            spec = tasks.get(line.env_id)
            if line.env_id not in environments:
                environments[line.env_id] = tasks.make(line.env_id)
            options = {"split": line.split, "index": line.item_index}
            environments[line.env_id].reset(seed=line.env_seed, options=options)
            reference = spec.oracle(environments[line.env_id].unwrapped.item)
        except (tasks.UnknownTaskError, DataError, ValueError):
            continue  # E121, E161 and E162 say so
        seen += 1
        same += [turn.text for turn in line.turns if turn.role == "policy"] == list(reference)
    if seen and same > MAX_SAME * seen:
        said = f"{same} of {seen} rollouts looked at are the reference solution to the letter"
        yield warning("E166", "rollouts.jsonl", said, "replay its adapters")


def disjoint(record: RunRecord) -> Iterator[Finding]:
    """E162: training on the train split only, and never on an evaluated item."""
    evaluated = {line.item_uid for line in record.evals}
    for number, line in enumerate(record.rollouts, start=1):
        if line.split != "train":
            yield error("E162", f"rollouts.jsonl:{number}", f"trains on split {line.split[:20]!r}")
        if line.item_uid in evaluated and line.error is None:
            yield error("E162", f"rollouts.jsonl:{number}", "its item is also evaluated")
    for number, line in enumerate(record.evals, start=1):
        if line.split == "train":
            yield error("E162", f"evals.jsonl:{number}", "evaluates on split 'train'")


def tokens(record: RunRecord) -> Iterator[Finding]:
    """E163: token counts, per-token arrays and stop reasons."""
    spelling = spellings.of(record)
    if isinstance(spelling, Finding):
        yield spelling
        spelling = None
    for number, line in enumerate(record.rollouts, start=1):
        place = f"rollouts.jsonl:{number}"
        if spelling is not None:
            yield from spelling.check(place, line.env_id, line.turns)
        sampled = sum(len(turn.token_ids) for turn in line.turns if turn.role == "policy")
        if sampled != line.completion_tokens:
            yield error(
                "E163", place, f"completion_tokens is {line.completion_tokens}, its turns hold {sampled}"
            )
        read = sum(len(turn.token_ids) for turn in line.turns) - sampled
        if read != line.prompt_tokens:
            yield error("E163", place, f"prompt_tokens is {line.prompt_tokens}, its turns hold {read}")
        if line.env_ns > line.t_end_ns - line.t_start_ns:
            yield error("E163", place, f"{line.env_ns} ns in the environment, more than it lasted")
        if (line.fate == "errored") != (line.error is not None):
            yield error("E163", place, "fate and error contradict each other")
        if line.fate == "consumed" and line.stop == "error":
            yield error("E163", place, "consumed, though it never came to an end")
        yield from _turns(place, line.turns, line.stop, errored=line.error is not None)
    for number, line in enumerate(record.evals, start=1):
        if spelling is not None:
            yield from spelling.check(f"evals.jsonl:{number}", line.env_id, line.turns)
        if line.stop == "error" and line.error is None:
            yield error("E163", f"evals.jsonl:{number}", "never came to an end, and no error says why")
        if any(set(turn.policy_version) - {line.version} for turn in line.turns if turn.role == "policy"):
            yield error("E153", f"evals.jsonl:{number}", "played by another version than the one evaluated")
        yield from _turns(f"evals.jsonl:{number}", line.turns, line.stop, errored=line.error is not None)


def coverage(record: RunRecord) -> Iterator[Finding]:
    """E164: all evaluations of a tenant and seed hold the same items, each once, in all arms."""
    groups: dict[str, dict[tuple[str, int, int], list[str]]] = defaultdict(lambda: defaultdict(list))
    for line in record.evals:
        groups[line.tenant][line.arm, line.seed, line.eval_id].append(
            f"{line.env_id}/{line.split}/{line.env_seed}/{line.item_index}/{line.level}"
        )
    errored = sum(line.error is not None for line in record.evals)
    if errored > MAX_ERRORED * len(record.evals):
        said = f"{errored} of {len(record.evals)} evaluated items errored, more than {MAX_ERRORED:.0%}"
        yield error("E164", "evals.jsonl", said, "find out why, and run it again")
    for tenant, evaluations in groups.items():
        references: dict[int, set[str]] = {}
        for (arm, seed, eval_id), items in evaluations.items():
            reference = references.setdefault(seed, set(items))
            name = f"{arm}, seed {seed}, {tenant}, eval {eval_id}"
            if len(items) != len(set(items)):
                yield error(
                    "E164", "evals.jsonl", f"{name}: {len(items) - len(set(items))} items occur twice"
                )
            if set(items) != reference:
                lacking = len(reference - set(items))
                yield error(
                    "E164", "evals.jsonl", f"{name}: {lacking} scheduled items missing or others in place"
                )
    for tenant in record.header.tenants:
        ids = {arm: set() for arm in {(view.arm, view.seed) for view in record.views}}
        for arm, seed, eval_id in groups.get(tenant.tenant, {}):
            ids.setdefault((arm, seed), set()).add(eval_id)
        if len({frozenset(own) for own in ids.values()}) > 1:
            yield error("E164", "evals.jsonl", f"{tenant.tenant}: not evaluated equally often in all runs")


def _turns(place: str, turns: list[TurnLine], stop: str, *, errored: bool) -> Iterator[Finding]:
    if stop not in _STOPS:
        yield error("E163", place, f"{stop[:40]!r} is no stop reason")
    for index, turn in enumerate(turns):
        count = len(turn.token_ids)
        per_token = (len(turn.behavior_logprobs), len(turn.policy_version))
        if turn.role == "policy" and per_token != (count, count):
            yield error(
                "E163", place, f"turn {index}: {count} tokens, but {per_token} log-probabilities and versions"
            )
        if turn.role == "policy" and not all(-1e4 < logprob <= 1e-3 for logprob in turn.behavior_logprobs):
            yield error("E163", place, f"turn {index}: a log-probability above 0, or of no float32")
        if turn.stop not in _TURN_STOPS and not errored:
            yield error("E163", place, f"turn {index}: {str(turn.stop)[:40]!r} is no stop reason of a turn")
        if turn.role == "policy" and turn.stop in ("max_tokens", "context") and turn is not turns[-1]:
            yield error("E163", place, f"turn {index}: goes on after it was cut at {turn.stop}")
