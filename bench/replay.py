"""`bench replay` (tier T2): do the submitted adapters give the transcripts?

Teacher-forced: under the adapter of the version that sampled it, does
each recorded token of a rollout or an evaluated item have the log-probability that was recorded? And do evaluated
items, played again by their task, earn what the record says? Items are chosen by a nonce. Versions between the first
and the last adapter aren't submitted, so their rollouts aren't asked about. Time isn't either.

Sampler and learner of one adapter differ by rounding alone: the first update's self-check shows how much.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file

from bench.errors import UsageError
from leaderboard.records import RunRecord
from leaderboard.rescore import Replayer
from leaderboard.schema import EvalLine, RolloutLine, TenantInfo, TurnLine
from leaderboard.verify.report import Finding, Report, collect, error
from tunix_core.types import AdapterVersion, LoraSpec, SamplingSpec

if TYPE_CHECKING:
    from tunix_core.model.load import BaseModel

MEAN_TOLERANCE = 5e-3
"""Of an episode's mean absolute difference of log-probabilities: ten times what other hardware makes."""


class Version(NamedTuple):
    """One submitted adapter."""

    arm: str
    seed: int
    tenant: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One episode to score: its tokens, and where in them the policy's stand with what was recorded of them."""

    place: str
    line: RolloutLine | EvalLine
    token_ids: np.ndarray
    policy: np.ndarray
    recorded: np.ndarray


def replay(directory: Path, *, items: int, nonce: str, data: str | None = None) -> Report:
    """Replays rollouts and evaluated items chosen by a nonce.

    Args:
      directory: a record that `verify` accepts.
      items: of each submitted adapter, at most so many rollouts and as many evaluated items.
      nonce: chosen after the submission; nobody can know before which lines it picks.
      data: where data-set tasks read from.
    Raises:
      UsageError: the record is of a model that isn't here.
    """
    record = RunRecord.open(directory)
    base, params = _model(record)
    tenants = {tenant.tenant: tenant for tenant in record.header.tenants}
    checked = {"rollouts_scored": 0, "evals_played": 0, "tokens_scored": 0}
    findings: list[Finding] = []
    for version in _versions(record):
        lora = _lora(tenants[version.tenant])
        adapter = _adapter(record, version)
        chosen = _chosen(record, version, items, nonce)
        findings += _forced(chosen, base, params, adapter, lora, record, checked)
    replayer = Replayer(data=data)
    for line, number in _evaluations(record, items, nonce):
        checked["evals_played"] += 1
        for found in replayer.replay(line):
            reason = f"{found.field} is {found.recorded}, playing it again gives {found.replayed}"
            findings.append(error("E161", f"evals.jsonl:{number}", reason))
    if not checked["rollouts_scored"]:
        findings.append(error("E191", "rollouts.jsonl", "no rollout was sampled by a submitted adapter"))
    return collect(findings, checked)


def _model(record: RunRecord) -> tuple[BaseModel, Any]:
    from bench.compose import load_model
    from tunix_core.errors import TunixError

    name = record.header.model.name
    try:
        base, params = load_model(name)
    except TunixError as missing:
        raise UsageError(
            f"the record is of model {name!r}: {missing}", "replay where its weights are"
        ) from missing
    if base.sha256 != record.header.model.sha256:
        raise UsageError(f"model {name!r} here has other weights than the record's", "replay with the same")
    return base, params


def _versions(record: RunRecord) -> Iterator[Version]:
    """The first and last adapter of every tenant of every run."""
    for view in record.views:
        last: dict[str, int] = defaultdict(int)
        for update in view.updates:
            last[update.tenant] = max(last[update.tenant], update.version_after)
        for tenant in record.header.tenants:
            for version in sorted({0, last[tenant.tenant]}):
                yield Version(view.arm, view.seed, tenant.tenant, version)


def _adapter(record: RunRecord, version: Version) -> AdapterVersion:
    name = "initial" if version.version == 0 else "final"
    file = f"adapters/{version.arm}.s{version.seed}.{version.tenant}.{name}.safetensors"
    arrays = load_file(record.directory / file)
    keys = sorted({key.rpartition(".lora_")[0] for key in arrays})
    factors = {key: (arrays[f"{key}.lora_a"], arrays[f"{key}.lora_b"]) for key in keys}
    return AdapterVersion(
        tenant_id=version.tenant, version=version.version, factors=factors, sha256="", t_ns=0
    )


def _lora(tenant: TenantInfo) -> LoraSpec:
    told = tenant.settings.get("lora", {})
    return LoraSpec(rank=told["rank"], alpha=told["alpha"])


def _chosen(record: RunRecord, version: Version, items: int, nonce: str) -> list[Episode]:
    """Episodes that this very adapter sampled from end to end, in the order that the nonce gives."""
    found: list[tuple[str, Episode]] = []
    files: tuple[tuple[str, Sequence[RolloutLine | EvalLine]], ...] = (
        ("rollouts", record.rollouts),
        ("evals", record.evals),
    )
    for file, lines in files:
        for number, line in enumerate(lines, start=1):
            own = (line.arm, line.seed, line.tenant) == version[:3]
            sampled = [turn for turn in line.turns if turn.role == "policy" and turn.token_ids]
            versions = {v for turn in sampled for v in turn.policy_version}
            if own and sampled and line.error is None and versions == {version.version}:
                place = f"{file}.jsonl:{number}"
                found.append((_rank(nonce, place), _sequence(place, line)))
    rollouts = [s for _, s in sorted(found, key=_first) if isinstance(s.line, RolloutLine)]
    evaluated = [s for _, s in sorted(found, key=_first) if isinstance(s.line, EvalLine)]
    return rollouts[:items] + evaluated[:items]


def _sequence(place: str, line: RolloutLine | EvalLine) -> Episode:
    def sampled(turn: TurnLine) -> bool:
        return turn.role == "policy"

    ids = [i for turn in line.turns for i in turn.token_ids]
    policy = [sampled(turn) for turn in line.turns for _ in turn.token_ids]
    recorded = [x for turn in line.turns if sampled(turn) for x in turn.behavior_logprobs]
    return Episode(
        place=place,
        line=line,
        token_ids=np.asarray(ids, np.int32),
        policy=np.asarray(policy, bool),
        recorded=np.asarray(recorded, np.float64),
    )


def _forced(
    chosen: list[Episode],
    base: BaseModel,
    params: Any,
    adapter: AdapterVersion,
    lora: LoraSpec,
    record: RunRecord,
    checked: dict[str, int],
) -> Iterator[Finding]:
    """E191: recorded log-probabilities against those of the submitted adapter."""
    from tunix_core.scoring import score_sequences

    for kind in (RolloutLine, EvalLine):
        own = [s for s in chosen if isinstance(s.line, kind)]
        told = record.header.sampling.get("train" if kind is RolloutLine else "eval", {})
        temperature = float(told.get("temperature", 1.0)) or 1.0  # greedy records what temperature 1 gives
        sampling = SamplingSpec(temperature=temperature)
        ids = [s.token_ids for s in own]
        scored = score_sequences(base.config, params, ids, adapter=adapter, lora=lora, sampling=sampling)
        for sequence, logprobs in zip(own, scored, strict=True):
            ours = np.asarray(logprobs, np.float64)[sequence.policy]
            checked["rollouts_scored"] += kind is RolloutLine
            checked["tokens_scored"] += len(ours)
            gap = float(np.mean(np.abs(ours - sequence.recorded)))
            if not math.isfinite(gap) or gap > MEAN_TOLERANCE:
                worst = int(np.argmax(np.abs(ours - sequence.recorded)))
                said = (
                    f"log-probabilities differ by {gap:.3f} in the mean from those of the submitted adapter "
                    f"(token {worst}: {sequence.recorded[worst]:.4f}, here {ours[worst]:.4f})"
                )
                yield error("E191", sequence.place, said, "is it the adapter that played?")


def _evaluations(record: RunRecord, items: int, nonce: str) -> list[tuple[EvalLine, int]]:
    """Evaluated items to be graded again, as many of each run and tenant."""
    by_owner: dict[tuple[str, int, str, int], list[tuple[str, EvalLine, int]]] = defaultdict(list)
    for number, line in enumerate(record.evals, start=1):
        if line.error is None:
            owner = (line.arm, line.seed, line.tenant, line.eval_id)
            by_owner[owner].append((_rank(nonce, f"evals.jsonl:{number}"), line, number))
    return [(line, n) for own in by_owner.values() for _, line, n in sorted(own, key=_first)[:items]]


def _rank(nonce: str, place: str) -> str:
    return hashlib.sha256(f"{nonce}\0{place}".encode()).hexdigest()


def _first(pair: tuple[Any, ...]) -> Any:
    return pair[0]
