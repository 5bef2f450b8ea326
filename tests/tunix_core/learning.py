"""Groups made by hand, learners of the tiny model, and an independent model in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from tunix_core import packing
from tunix_core.learner.stage import Learner, tenant_batch
from tunix_core.learner.update import empty_tally
from tunix_core.model.lora import Factors, read_slot
from tunix_core.testing import random_adapter, tiny_base, tiny_tenant
from tunix_core.types import (
    Bucket,
    EpisodeTicket,
    Fate,
    Group,
    LossSpec,
    OptimizerSpec,
    Span,
    StopReason,
    TenantSpec,
    TrainSequence,
    Trajectory,
    Turn,
    UpdateReport,
)

BASE = tiny_base()
NAMES = ("t0", "t1", "t2")
BUCKET = Bucket(rows=4, length=32)
TENANTS = tuple(tiny_tenant(n, optimizer=OptimizerSpec(learning_rate=0.05, kind="sgd")) for n in NAMES)


# ---------------------------------------------------------------- making groups


def turn(ids: Sequence[int], *, sampled: bool, rng: np.random.Generator, version: int, cut: bool) -> Turn:
    n = len(ids)
    return Turn(
        role="policy" if sampled else "environment",
        text="",
        token_ids=np.asarray(ids, np.int32),
        loss_mask=np.full(n, sampled),
        behavior_logprobs=np.where(sampled, -rng.uniform(0.5, 3.0, n), 0).astype(np.float32),
        policy_version=np.full(n, version if sampled else -1, np.int32),
        stop=(StopReason.MAX_TOKENS if cut else StopReason.EOS) if sampled else None,
        t_start_ns=0,
        t_end_ns=0,
    )


def trajectory(
    reward: float = 1.0,
    *,
    tenant: str = "t0",
    ordinal: int = 0,
    sample: int = 0,
    shape: Sequence[int] = (3, 4),
    stop: StopReason = StopReason.TERMINATED,
    version: int = 0,
    error: str | None = None,
) -> Trajectory:
    """Token counts alternate: read, sampled, read, sampled, ..."""
    rng = np.random.default_rng([ordinal, sample, NAMES.index(tenant)])
    turns = tuple(
        turn(
            rng.integers(0, 8, n),
            sampled=i % 2 == 1,
            rng=rng,
            version=version,
            cut=stop is not StopReason.TERMINATED and i == len(shape) - 1,
        )
        for i, n in enumerate(shape)
    )
    return Trajectory(
        ticket=EpisodeTicket(
            tenant_id=tenant,
            ordinal=ordinal,
            sample_index=sample,
            env_id="e",
            split="train",
            env_seed=0,
            item_index=0,
        ),
        item_uid="u",
        turns=turns,
        reward=reward,
        grade_status="",
        stop=stop,
        fate=Fate.ERRORED if error else Fate.OPEN,
        t_start_ns=0,
        t_end_ns=0,
        error=error,
    )


SHAPES = ((3, 4), (6, 5), (3, 4, 3, 5), (5, 1), (2, 6, 2, 4, 2, 6), (7, 3))


def group(
    rewards: Sequence[Any] = (1.0, 0.0, 0.0, 1.0), *, tenant: str = "t0", ordinal: int = 0, version: int = 0
) -> Group:
    members = tuple(
        trajectory(
            r,
            tenant=tenant,
            ordinal=ordinal,
            sample=i,
            shape=SHAPES[(ordinal + i) % len(SHAPES)],
            version=version,
        )
        for i, r in enumerate(rewards)
    )
    return Group(tenant_id=tenant, ordinal=ordinal, trajectories=members)


def make(
    tenants: Sequence[TenantSpec] = TENANTS,
    *,
    max_rank: int = 2,
    buckets: Sequence[Bucket] = (BUCKET,),
    params: Any = None,
    trained: bool = True,
    spans: list[Span] | None = None,
    devices: Sequence[Any] = (),
) -> Learner:
    """A learner; `trained` puts random adapters in, so that every matrix has a gradient."""
    learner = Learner(
        BASE.config,
        BASE.params if params is None else params,
        tenants,
        max_rank=max_rank,
        buckets=buckets,
        clock_ns=lambda: 0,
        on_span=(spans if spans is not None else []).append,
        devices=devices,
    )
    if trained:
        each = [random_adapter(seed=i, rank=max_rank).factors for i in range(len(tenants))]
        factors = jax.tree.map(lambda *x: np.stack(x), *each)
        learner.state = learner.state._replace(
            adapters=learner.state.adapters._replace(factors=jax.device_put(factors))
        )
    return learner


def gradients(
    learner: Learner,
    sequences: Sequence[TrainSequence],
    weights: Sequence[float],
    buckets: Sequence[Bucket] = (BUCKET,),
) -> tuple[Factors, Any]:
    """Gradient sums and tally of given sequences, packed into given buckets."""
    plan = packing.plan([len(s.token_ids) for s in sequences], [s.tenant_id for s in sequences], buckets)
    grad_sum = jax.tree.map(np.zeros_like, learner.state.adapters.factors)
    tally = empty_tally(len(learner.slots))
    batches = packing.pack(sequences, weights, learner.slot_of, learner.versions, plan)
    grad_sum, tally = learner._sums(batches, grad_sum, tally)
    return jax.device_get((grad_sum, tally))


def hashes(learner: Learner) -> dict[str, str]:
    return {n: learner.adapter(n).sha256 for n in learner.slot_of}


def update(learner: Learner, *groups: Group, update_id: int = 0) -> dict[str, UpdateReport]:
    due: dict[str, list[Group]] = {}
    for g in groups:
        due.setdefault(g.tenant_id, []).append(g)
    return {r.tenant_id: r for r in learner.update(update_id, due)}


def shown(report: UpdateReport) -> dict[str, Any]:
    """All figures of a report that are the tenant's own."""
    every = {name: getattr(report, name) for name in UpdateReport.__dataclass_fields__}
    return {k: v for k, v in every.items() if k not in ("real_tokens", "executed_slots")}


# ---------------------------------------------------------------- an independent model in numpy


def np_logprobs(factors: Mapping[str, Any], scale: float, ids: np.ndarray, temperature: float) -> np.ndarray:
    """Float64 log-probabilities of ids [n] under a one-layer decoder with one adapter; entry 0 is 0."""
    p = jax.tree.map(lambda x: np.asarray(x, np.float64), BASE.params)
    layer = jax.tree.map(lambda x: x[0], p["layers"])
    n = len(ids)

    def norm(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * gain

    def dense(name: str, x: np.ndarray) -> np.ndarray:
        a, b = factors[name]
        return x @ layer[name]["kernel"] + scale * (x @ a[0]) @ b[0]

    def turned(x: np.ndarray) -> np.ndarray:
        """Rotary: the pair (i, i + 2) of a head of 4 as one complex number."""
        z = x[..., :2] + 1j * x[..., 2:]
        angle = np.arange(n)[:, None] * 10_000.0 ** (-np.arange(2) / 2)
        z = z * np.exp(1j * angle)[:, None]
        return np.concatenate([z.real, z.imag], -1)

    x = p["embed_tokens"][ids]
    h = norm(x, layer["input_layernorm"]["scale"])
    q = turned(dense("q_proj", h).reshape(n, 4, 4))
    k = turned(dense("k_proj", h).reshape(n, 2, 4))
    v = dense("v_proj", h).reshape(n, 2, 4)
    mixed = np.zeros((n, 4, 4))
    for head in range(4):
        s = q[:, head] @ k[:, head // 2].T / 2.0
        w = np.exp(np.where(np.tri(n, dtype=bool), s, -np.inf))
        mixed[:, head] = w / w.sum(-1, keepdims=True) @ v[:, head // 2]
    x = x + dense("o_proj", mixed.reshape(n, 16))
    h = norm(x, layer["post_attention_layernorm"]["scale"])
    gate = dense("gate_proj", h)
    x = x + dense("down_proj", gate / (1 + np.exp(-gate)) * dense("up_proj", h))
    logits = norm(x, p["norm"]["scale"]) @ p["embed_tokens"].T / temperature
    logprobs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return np.concatenate([[0.0], logprobs[np.arange(n - 1), ids[1:]]])


def on_policy(g: Group, learner: Learner, shift: float = 0.0) -> Group:
    """The group with the learner's own log-probabilities, shifted, as its behaviour."""

    def rewritten(t: Trajectory) -> Trajectory:
        ids = np.concatenate([u.token_ids for u in t.turns])
        slot = learner.slot_of[g.tenant_id]
        scores = np_logprobs(read_slot(learner.state.adapters.factors, slot), 2.0, ids, 1.0) + shift
        turns, at = [], 0
        for u in t.turns:
            n = len(u.token_ids)
            turns.append(replace(u, behavior_logprobs=scores[at : at + n].astype(np.float32)))
            at += n
        return replace(t, turns=tuple(turns))

    return replace(g, trajectories=tuple(map(rewritten, g.trajectories)))


def sequences_of(tenant: str = "t0") -> tuple[list[TrainSequence], list[float]]:
    made = tenant_batch(
        [group((1.0, 0.0, 0.3, 0.9), tenant=tenant, ordinal=k) for k in range(2)], LossSpec(), 6.0
    )
    return list(made.sequences), made.weights.tolist()
