"""Values at the edge of float32 and of sense: they are told or masked, and never reach a neighbour or a parameter."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from tests.tunix_core.learning import (
    BASE,
    TENANTS,
    gradients,
    group,
    hashes,
    make,
    sequences_of,
    shown,
    trajectory,
    update,
)
from tunix_core import packing
from tunix_core.learner.update import row_sums
from tunix_core.losses import POLICY_LOSSES
from tunix_core.model.decoder import Decoder
from tunix_core.types import Bucket, Group, LoraSpec, LossSpec, OptimizerSpec


def test_a_kl_term_far_from_the_base_stays_finite_and_pulls_back() -> None:
    """An estimator clipped after its exponential gives NaN here (OpenRLHF pull 1335)."""
    loss = LossSpec(kl_coefficient=1.0, kl_estimator="k3")
    tenants = [replace(t, loss=loss) for t in TENANTS]
    learner = make(tenants)
    far = jax.tree.map(lambda x: x * 30, learner.state.adapters.factors)
    learner.state = learner.state._replace(adapters=learner.state.adapters._replace(factors=far))
    sequences, weights = sequences_of()
    flat = [replace(s, advantage=0.0) for s in sequences]
    _, before = gradients(learner, flat, weights)
    assert before.loss[0] > 1  # nats a token: far indeed
    report = update(learner, group((1.0,) * 4))["t0"]
    assert report.skipped is None
    assert math.isfinite(report.grad_norm) and report.grad_norm > 0
    assert all(np.isfinite(x).all() for ab in learner.adapter("t0").factors.values() for x in ab)
    _, after = gradients(learner, flat, weights)
    assert math.isfinite(after.loss[0])


def test_rows_and_entries_that_are_masked_reach_no_gradient_however_extreme(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows of nothing but padding, -inf at a vocabulary entry that nobody drew, 1e4 on padded positions.

    where() around a logarithm gives right values and NaN gradients there (jax-ml/jax issue 17117). A tenant for
    each loss, one sequence each.
    """
    names = sorted(POLICY_LOSSES)
    n = len(names)
    made = replace(
        sequences_of()[0][0],
        token_ids=np.asarray([4, 0, 1, 0, 3], np.int32),
        loss_mask=np.arange(5) > 1,
        behavior_logprobs=np.full(5, -1.0, np.float32),
        policy_version=np.zeros(5, np.int32),
        advantage=1.0,
    )
    sequences = [replace(made, tenant_id=name) for name in names]
    learner = make([replace(TENANTS[0], tenant_id=name) for name in names])
    losses = tuple(LossSpec(policy=name, is_cap=9.0, is_floor=0.0) for name in names)
    compiled = partial(row_sums, config=BASE.config, losses=losses)
    plain = Decoder.logits
    found = []
    for rows, length, extreme in ((n, 5, False), (n + 2, 9, True)):
        plan = packing.plan([5] * n, names, [Bucket(rows=rows, length=length)])
        (batch,) = packing.pack(sequences, [1 / 3] * n, learner.slot_of, learner.versions, plan)
        delta = np.zeros((rows, length, 8), np.float32)
        delta[..., 2] = -np.inf
        if extreme:
            delta[np.asarray(batch.segment_ids) == 0] = 1e4
            delta[np.asarray(batch.segment_ids) == 0, 5] = -np.inf

        def shifted(self: Decoder, hidden: Any, delta: np.ndarray = delta) -> Any:
            return plain(self, hidden) + delta

        monkeypatch.setattr(Decoder, "logits", shifted)
        heat, index = np.ones(n, np.float32), np.arange(n, dtype=np.int32)
        found.append(jax.jit(compiled)(BASE.params, *learner.state.adapters, heat, None, index, batch))
        monkeypatch.setattr(Decoder, "logits", plain)
    clean, dirty = found
    for one, other in zip(jax.tree.leaves(clean.grads), jax.tree.leaves(dirty.grads), strict=True):
        assert np.isfinite(other).all()
        assert not np.any(other[:, n:])
        np.testing.assert_allclose(other[:, :n], one, rtol=1e-5, atol=1e-6)
    for name, one, other in zip(clean.tally._fields, clean.tally, dirty.tally, strict=True):
        assert np.isfinite(one).all(), name
        np.testing.assert_allclose(other[:n], one, rtol=1e-5, atol=1e-6, err_msg=name)
    for row in range(n):
        assert max(np.abs(g[:, row]).max() for g in jax.tree.leaves(clean.grads)) > 1e-6, names[row]


def test_the_headline_reward_is_per_rollout_however_many_turns_it_took() -> None:
    """Reward 1 after two turns, 0 after eight: 0.5, not 2 / 10 (PrimeIntellect-ai/prime-rl pull 1205)."""
    members = (
        trajectory(1.0, sample=0, shape=(2, 1) * 2),
        trajectory(0.0, sample=1, shape=(1, 1) * 8),
    )
    report = update(make(), Group(tenant_id="t0", ordinal=0, trajectories=members))["t0"]
    assert report.reward_mean == pytest.approx(0.5)


def test_ten_updates_of_a_tenant_are_the_same_bits_beside_a_neighbour_of_any_size() -> None:
    """Averaged over the whole batch, a small tenant would learn at a quarter of its rate (SkyRL pull 454)."""
    alone, beside, large = make(), make(), make()
    for k in range(10):
        mine = group((1.0, 0.0), ordinal=k, version=k)
        other = [group(tenant="t1", ordinal=3 * k + i, version=k) for i in range(3)]
        loud = replace(
            other[0], trajectories=tuple(replace(t, reward=10 * t.reward) for t in other[0].trajectories)
        )
        reports = [update(alone, mine), update(beside, *other, mine), update(large, mine, loud, *other[1:])]
        assert shown(reports[0]["t0"]) == shown(reports[1]["t0"]) == shown(reports[2]["t0"])
    assert hashes(alone)["t0"] == hashes(beside)["t0"] == hashes(large)["t0"]
    assert len({hashes(x)["t1"] for x in (alone, beside)}) == 2


def test_rank_4_in_a_store_of_16_learns_what_it_learns_in_a_store_of_4() -> None:
    """Scale 8 / 4 = 2, not 8 / 16; ten updates apart by rounding alone (PrimeIntellect-ai/prime-rl pull 1565)."""
    spec = replace(
        TENANTS[0], lora=LoraSpec(rank=4, alpha=8.0), optimizer=OptimizerSpec(learning_rate=0.05, kind="sgd")
    )
    own, shared = make([spec], max_rank=4, trained=False), make([spec], max_rank=16, trained=False)
    assert float(own.state.adapters.scale[0]) == float(shared.state.adapters.scale[0]) == 2.0
    for k in range(10):
        one, other = (update(x, group(ordinal=k, version=k))["t0"] for x in (own, shared))
        assert one.grad_norm == pytest.approx(other.grad_norm, rel=1e-4)
        assert one.loss == pytest.approx(other.loss, abs=1e-5)
    for name, (a, b) in own.adapter("t0").factors.items():
        wide_a, wide_b = shared.adapter("t0").factors[name]
        np.testing.assert_allclose(wide_a[..., :4], a, atol=1e-5)
        np.testing.assert_allclose(wide_b[:, :4], b, atol=1e-5)
        assert not wide_a[..., 4:].any() and not wide_b[:, 4:].any()
