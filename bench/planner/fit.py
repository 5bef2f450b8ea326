"""Stage times and episodes of recorded runs, and the prediction of another run from them."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench import compose
from bench.config import RunConfig
from bench.errors import RejectedError, UsageError, ended
from bench.planner.simulate import Setup, simulate
from bench.planner.times import MeasuredTimes
from bench.planner.work import Delay, EpisodeShape, RecordedWork, TurnShape, delay_key
from leaderboard import metrics
from leaderboard.records import ArmView, RunRecord
from leaderboard.schema import RolloutLine, SpanLine
from tasks import latency
from tunix_core import schedule
from tunix_core.types import EpisodeTicket

NS = 1e9
MIN_STAGE = 24
"""Episodes of one policy version that stand for themselves; fewer are pooled with those before."""
SAMPLING = ("prefill", "decode")


def config_of(record: RunRecord) -> RunConfig:
    """The configuration a record was made with; keys of later versions have their defaults."""
    known = {k: v for k, v in record.header.config.items() if k in RunConfig.model_fields and k != "out"}
    return RunConfig(**known)


def times(records: Sequence[RunRecord]) -> MeasuredTimes:
    """Straight lines through the spans of records. Raises UsageError without any."""
    prefill, decode, train = list[tuple[float, ...]](), list[tuple[float, ...]](), list[tuple[float, ...]]()
    publish, score, gaps, pack = (list[float]() for _ in range(4))
    for view in (v for r in records for v in r.views):
        spans = sorted(view.spans, key=lambda s: s.t0_ns)
        began = {u.t1_ns: u.t0_ns for u in view.updates}
        for i, span in enumerate(spans):
            seconds = _seconds(span)
            following = spans[i + 1] if i + 1 < len(spans) else None
            if span.role == "train":
                train.append((1.0, len(span.tenants), span.executed_slots, seconds))
                before = spans[i - 1] if i and spans[i - 1].executed_slots == span.executed_slots else None
                start = began.get(span.t1_ns)
                if start is not None and span.executed_slots:
                    scored = _seconds(before) if before is not None and before.t0_ns >= start else 0.0
                    pack.append(max(0.0, (span.t0_ns - start) / NS - scored) / span.executed_slots)
            elif span.role == "decode":
                decode.append((1.0, span.executed_slots, seconds))
            elif span.role == "prefill":
                prefill.append((1.0, span.executed_slots, seconds))
            elif span.role == "sync" and not span.executed_slots:
                publish.append(seconds)
            elif following is not None and (following.role, following.executed_slots) == (
                "train",
                span.executed_slots,
            ):
                score.append(seconds / span.executed_slots)
            if following is not None and span.role in SAMPLING and following.role in SAMPLING:
                gaps.append((following.t0_ns - span.t1_ns) / NS)
    if not (prefill and decode and train):
        raise UsageError(
            "the runs to fit on hold no prefill, decode or train span", "give runs that learnt something"
        )
    p, d, t = _line(prefill), _line(decode), _line(train)
    host = _median(gaps)
    return MeasuredTimes(
        prefill_base=p[0],
        prefill_per_slot=p[1],
        decode_base=d[0],
        decode_per_slot=d[1],
        train_base=t[0],
        train_per_tenant=t[1],
        train_per_slot=t[2],
        pack_per_slot=_median(pack),
        score_per_slot=_median(score),
        publish=_mean(publish),
        host_base=host,
        source={
            "fitted_on": [r.header.run_id for r in records],
            "prefill_spans": len(prefill),
            "decode_spans": len(decode),
            "train_spans": len(train),
        },
    )


def shapes(records: Sequence[RunRecord]) -> dict[str, list[tuple[int, list[EpisodeShape]]]]:
    """By task: episodes as they were, from the policy version on at which they were sampled."""
    found: dict[str, dict[int, list[EpisodeShape]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        profile = _profile(config_of(record))
        for rollout in record.rollouts:
            if rollout.error is None:
                found[rollout.env_id][rollout.oldest_version].append(shape_of(rollout, profile))
    staged: dict[str, list[tuple[int, list[EpisodeShape]]]] = {}
    for env_id, by_version in found.items():
        stages: list[tuple[int, list[EpisodeShape]]] = []
        for version in sorted(by_version):
            if stages and len(by_version[version]) < MIN_STAGE:
                stages[-1][1].extend(by_version[version])
            else:
                stages.append((version if stages else 0, list(by_version[version])))
        staged[env_id] = stages
    return staged


def shape_of(rollout: RolloutLine, profile: Delay | None) -> EpisodeShape:
    """One recorded episode. Its environment's own time is what was measured less the simulated delay."""
    context, turns, calls = 0, list[TurnShape](), list[float]()
    for turn in rollout.turns:
        if turn.role == "policy":
            turns.append(TurnShape(context_tokens=context, sampled_tokens=len(turn.token_ids)))
        else:
            calls.append((turn.t1_ns - turn.t0_ns) / NS)
        context += len(turn.token_ids)
    cut = (
        bool(rollout.turns) and rollout.turns[-1].role == "policy" and rollout.turns[-1].stop == "max_tokens"
    )
    if len(calls) == len(turns) and not cut:
        # the last answer says nothing and is no turn; its time is what is left of all
        calls.append(max(0.0, rollout.env_ns / NS - sum(calls)))
    owed = [calls[i + 1] if i + 1 < len(calls) else 0.0 for i in range(len(turns))]
    ticket = ticket_of(rollout)
    own = tuple(
        TurnShape(
            context_tokens=turn.context_tokens,
            sampled_tokens=turn.sampled_tokens,
            env_s=max(0.0, seconds - (profile.delay_s(delay_key(ticket, i)) if profile else 0.0)),
        )
        for i, (turn, seconds) in enumerate(zip(turns, owed, strict=True))
    )
    return EpisodeShape(turns=own, reset_s=calls[0] if calls else 0.0, cut=cut)


def setup_of(
    config: RunConfig, arm: str, seed: int, fitted_on: Sequence[RunRecord], delay: Delay | None = None
) -> Setup:
    """A run that has not been made, as it would be simulated; `delay` replaces the simulated latency of its tools."""
    if not config.in_flight_updates:
        raise UsageError("in_flight_updates = false is not simulated", "plan the run with it on")
    prepared = compose.prepare(config)
    spec = compose.trainer_spec(prepared)
    return Setup(
        tenants=compose.tenants_of(prepared, seed),
        schedule=schedule.arm(arm, config.max_staleness if arm == "A1" else None),
        sampler=spec.sampler,
        buckets=spec.buckets,
        times=times(fitted_on),
        work=RecordedWork(shapes(fitted_on), delay or _profile(config)),
        env_workers=spec.env_workers,
        env_timeout_s=spec.env_timeout_s,
    )


def predict(record: RunRecord, fitted_on: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Predicted beside measured, a row for each (arm, seed) of a record that no figure was fitted on.

    Taken from the record: its configuration and, through its seeds, the simulated delays that its episodes met.
    Taken from the other runs: stage times, and the lengths and own environment times of episodes, by task.
    Raises UsageError where the record is among those fitted on, RejectedError where it did not end well.
    """
    if record.header.run_id in {r.header.run_id for r in fitted_on}:
        raise UsageError(
            f"{record.directory} is among the runs fitted on; a prediction needs others",
            "leave it out of --fit",
        )
    if record.header.status != "success":
        how = ended(record.header.status, record.header.status_reason)
        raise RejectedError(f"{record.directory} {how}")
    config = config_of(record)
    return [
        _beside(view, simulate(setup_of(config, view.arm, view.seed, fitted_on))) for view in record.views
    ]


def _beside(view: ArmView, predicted: Any) -> dict[str, Any]:
    measured = metrics.compute(view)
    row: dict[str, Any] = {"arm": view.arm, "seed": view.seed}
    for name, at, was in (
        ("t_work_s", predicted.t_work_s, measured["t_work"]),
        ("util_busy", predicted.util_busy, measured["util_busy"]),
        ("staleness_mean", predicted.staleness["mean"], measured["staleness"]["mean"]),
    ):
        row[name] = {
            "predicted": at,
            "measured": was,
            "error": at / was - 1 if at is not None and was else None,
        }
    return row


def _profile(config: RunConfig) -> Delay | None:
    profile = latency.parse(config.latency, seed=config.seed)
    return profile if profile.simulated else None


def ticket_of(r: RolloutLine) -> EpisodeTicket:
    """The identity of a recorded episode."""
    return EpisodeTicket(
        tenant_id=r.tenant,
        ordinal=r.ordinal,
        sample_index=r.sample_index,
        env_id=r.env_id,
        split=r.split,
        env_seed=r.env_seed,
        item_index=r.item_index,
    )


def _seconds(span: SpanLine) -> float:
    return (span.t1_ns - span.t0_ns) / NS


def _line(rows: Sequence[tuple[float, ...]]) -> list[float]:
    """Least squares with coefficients of at least 0: the last of a row is what the others explain.

    A column whose coefficient comes out negative is left out and the others are fitted anew.
    """
    table = np.asarray(rows)
    columns = list(range(table.shape[1] - 1))
    while True:
        found, *_ = np.linalg.lstsq(table[:, columns], table[:, -1], rcond=None)
        if (found >= 0).all() or len(columns) == 1:
            break
        del columns[int(np.argmin(found))]
    out = [0.0] * (table.shape[1] - 1)
    for column, value in zip(columns, found, strict=True):
        out[column] = max(0.0, float(value))
    return out


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else 0.0


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0
