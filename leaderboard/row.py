"""The row of the board: recomputed from a record, never taken from what the record reports."""

from __future__ import annotations

import heapq
import statistics
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from leaderboard import canonical
from leaderboard.metrics import results
from leaderboard.metrics.scores import differences
from leaderboard.records import RunRecord
from leaderboard.stats import MARGIN, parity
from leaderboard.verify.report import Report

ROW_SCHEMA = "bench.row/1"
SKETCH = 64
SETTLED, MIN_TOKENS = 3, 4
"""From this version on adapters of two asynchronous runs differ; a shorter answer says little."""
COPY = 0.05
"""Submissions that resemble each other more hold rollouts of each other."""
HEADLINE_ARM = "A1"

Tier = Literal["T0", "T1", "T2", "T3"]
TIERS: dict[str, tuple[str, str]] = {
    "T0": ("declared", "Schema and hashes hold. Says nothing about truth."),
    "T1": (
        "re-scored",
        "Every transcript was graded again, every figure recomputed. The trace may still have been made up.",
    ),
    "T2": ("replayed", "The submitted adapters gave the transcripts again. Says nothing about time."),
    "T3": ("reproduced", "Run again by the maintainers with seeds of their own."),
}


class RowModel(BaseModel):
    """Base of what summary.json holds."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class TenantScore(RowModel):
    """A tenant's accuracy before and after, mean over seeds."""

    before: float | None
    after: float | None
    n: int


class ArmSummary(RowModel):
    """One arm, means over its seeds."""

    seeds: int
    t_work: float
    util_busy: float
    util_useful: float
    staleness_mean: float | None
    staleness_max: int | None
    goodput: float
    padding_train: float | None
    exposed_generation: float
    recompiles: int
    accuracy: dict[str, TenantScore]


class Speedup(RowModel):
    """The headline: this arm against the baseline."""

    arm: str
    baseline: str
    speedup: float
    low: float | None
    high: float | None
    time_reduction: float
    n: int


class ParityOfRow(RowModel):
    """Whether the headline's arm is as accurate as the baseline, within `margin`; `bench compare` says the same."""

    verdict: Literal["pass", "fail", "underpowered"]
    difference: float
    low: float
    """One-sided 95 % bound."""
    margin: float
    n: int
    unit: Literal["seeds", "items"]


class Row(RowModel):
    """One submission as the board shows it."""

    schema_: Literal["bench.row/1"] = Field(default=ROW_SCHEMA, alias="schema")
    slug: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,79}$")]
    name: Annotated[str, Field(max_length=200)]
    authors: list[str]
    description: Annotated[str, Field(max_length=4000)]
    code_url: Annotated[str, Field(max_length=500)]
    tier: Tier
    run_id: str
    merkle_root: str
    created_utc: str
    suite_version: str
    device_class: str
    devices: list[str]
    latency_profile: str
    latency_simulated: bool
    latency_description: str
    model: str
    parameters: int
    tenants: dict[str, list[str]]
    seeds: int
    limit_applied: bool
    order: list[str]
    """Arms in the order of the plan."""
    headline: Speedup | None
    arms: dict[str, ArmSummary]
    checked: dict[str, int]
    warnings: list[str]
    round: str | None = None
    attempt: int | None = None
    """Within its round; these and the fields below are newer than the first rows."""
    supersedes: str | None = None
    supersedes_reason: str | None = None
    signed_by: str | None = None
    """The public key whose signature over the Merkle root was checked."""
    parity: ParityOfRow | None = None
    """None where there is no headline, or the row is older than this."""
    sketch: list[str] = []
    """The smallest fingerprints of what was sampled: copies share them."""


def build_row(
    record: RunRecord,
    report: Report,
    *,
    slug: str,
    merkle_root: str,
    about: dict[str, Any],
    tier: Tier = "T1",
    round_name: str | None = None,
    signed_by: str | None = None,
) -> Row:
    """Returns the row of a verified record; `about` holds name, authors, description and code_url."""
    header = record.header
    computed = results(record)
    by_arm: dict[str, list[dict[str, Any]]] = {}
    for run in computed["runs"]:
        by_arm.setdefault(run["arm"], []).append(run["metrics"])
    headline = _headline(computed["comparison"])
    return Row(
        slug=slug,
        name=about["name"],
        authors=about["authors"],
        description=about["description"],
        code_url=about["code_url"],
        tier=tier,
        run_id=header.run_id,
        merkle_root=merkle_root,
        created_utc=header.created_utc,
        suite_version=header.suite_version,
        device_class=header.device_class,
        devices=[device.kind for device in header.devices],
        latency_profile=header.latency.profile,
        latency_simulated=header.latency.simulated,
        latency_description=header.latency.description,
        model=header.model.name,
        parameters=header.model.parameters,
        tenants={tenant.tenant: tenant.env_ids for tenant in header.tenants},
        seeds=len(header.seeds),
        limit_applied=header.limit_applied,
        order=[arm.arm for arm in header.arms],
        headline=headline,
        parity=None if headline is None else _parity(record, headline),
        arms={arm: _summary(runs) for arm, runs in by_arm.items()},
        checked=report.checked,
        round=round_name,
        attempt=about.get("attempt") if round_name is not None else None,
        supersedes=about.get("supersedes") or None,
        supersedes_reason=about.get("supersedes_reason") or None,
        signed_by=signed_by,
        sketch=sketch(record),
        warnings=[str(finding) for finding in report.findings if finding.severity == "warning"],
    )


def sketch(record: RunRecord) -> list[str]:
    """The smallest hashes of what nobody else's run holds.

    Two runs of one seed sample the same as long as their adapters are the same: in the synchronous arms always. In an
    asynchronous one, after a few updates, they aren't: which token met which adapter is a matter of time. So those
    rollouts are known by their tokens, log-probabilities and versions, whatever is done to times; a record without any
    is known by its times, to the nanosecond. Source of the bottom-k sketch: Broder 1997, "On the resemblance and
    containment of documents".
    """
    racing = {arm.arm for arm in record.header.arms if not arm.step_barrier and arm.max_staleness > 0}
    if record.header.config.get("runtime") != "threads":
        racing = set()
    hashes: set[str] = set()
    for line in record.rollouts:
        if line.arm not in racing or line.oldest_version < SETTLED:
            continue
        said = [
            [t.token_ids, t.behavior_logprobs, t.policy_version] for t in line.turns if t.role == "policy"
        ]
        if sum(len(turn[0]) for turn in said) >= MIN_TOKENS:
            hashes.add(canonical.sha256(repr([line.tenant, said]).encode())[:16])
    for line in record.rollouts if len(hashes) < SKETCH else ():
        timed = [
            [t.token_ids, t.behavior_logprobs, t.t1_ns - t.t0_ns] for t in line.turns if t.role == "policy"
        ]
        if timed:
            hashes.add(canonical.sha256(repr([line.t_end_ns - line.t_start_ns, timed]).encode())[:16])
    return heapq.nsmallest(SKETCH, hashes)


def resemblance(one: list[str], other: list[str]) -> float:
    """The share of two sketches' smallest hashes that both hold; 0 where either is empty."""
    smallest = heapq.nsmallest(SKETCH, {*one, *other})
    both = {*one} & {*other}
    return sum(h in both for h in smallest) / len(smallest) if one and other else 0.0


def _headline(comparison: dict[str, Any]) -> Speedup | None:
    arms = {arm: figures for arm, figures in comparison["arms"].items() if figures["speedup"] is not None}
    if not arms:
        return None
    arm = HEADLINE_ARM if HEADLINE_ARM in arms else list(arms)[-1]
    return Speedup(arm=arm, baseline=comparison["baseline"], **arms[arm])


def _parity(record: RunRecord, headline: Speedup) -> ParityOfRow | None:
    found = differences(record.views, headline.baseline, headline.arm)
    if not any(found.values()):
        return None
    judged = parity(found, MARGIN)
    return ParityOfRow(
        verdict=judged.verdict,
        difference=judged.difference,
        low=judged.low,
        margin=MARGIN,
        n=judged.n,
        unit=judged.unit,
    )


def _summary(runs: list[dict[str, Any]]) -> ArmSummary:
    def mean(*path: str) -> float | None:
        values = []
        for figures in runs:
            value: Any = figures
            for key in path:
                value = None if value is None else value.get(key)
            if value is not None:
                values.append(value)
        return statistics.fmean(values) if values else None

    tenants = sorted({tenant for figures in runs for tenant in figures["accuracy"]})
    ages = [figures["staleness"]["max"] for figures in runs if figures["staleness"]["max"] is not None]
    accuracy = {
        tenant: TenantScore(
            before=mean("accuracy", tenant, "before", "accuracy"),
            after=mean("accuracy", tenant, "after", "accuracy"),
            n=int(mean("accuracy", tenant, "after", "n") or mean("accuracy", tenant, "before", "n") or 0),
        )
        for tenant in tenants
    }
    return ArmSummary(
        seeds=len(runs),
        t_work=mean("t_work") or 0.0,
        util_busy=mean("util_busy") or 0.0,
        util_useful=mean("util_useful") or 0.0,
        staleness_mean=mean("staleness", "mean"),
        staleness_max=max(ages, default=None),
        goodput=mean("goodput") or 0.0,
        padding_train=mean("padding_waste", "train"),
        exposed_generation=mean("exposed", "generation") or 0.0,
        recompiles=sum(figures["recompiles"] for figures in runs),
        accuracy=accuracy,
    )
