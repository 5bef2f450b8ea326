"""top_p and top_k on both sides: the learner scores the very distribution that the sampler drew from."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from tests.tunix_core.learning import (
    BASE,
    BUCKET,
    TENANTS,
    gradients,
    group,
    make,
    np_logprobs,
    sequences_of,
    update,
)
from tunix_core import packing
from tunix_core.learner.update import Cut, Scored, row_sums, score_tokens
from tunix_core.schedule import arm
from tunix_core.testing import Recorder, ScriptedEnvs, tiny_tenant, tiny_trainer
from tunix_core.types import LossSpec, OptimizerSpec, SamplingSpec

TOP_P, TOP_K = 0.9, 5


def sampled_with(**sampling: Any) -> list[Any]:
    return [replace(t, sampling=SamplingSpec(max_new_tokens=6, **sampling)) for t in TENANTS]


@pytest.mark.parametrize(("top_p", "top_k"), [(TOP_P, TOP_K), (0.5, 0), (1.0, 1)], ids=str)
def test_on_policy_the_ratio_is_one_with_the_cut_that_was_sampled_with(top_p: float, top_k: int) -> None:
    """Several updates of the real sampler and learner without staleness, at a temperature that isn't 1."""
    recorder = Recorder()
    sampling = SamplingSpec(temperature=0.8, top_p=top_p, top_k=top_k, max_new_tokens=6)
    tenants = [tiny_tenant("cutting", sampling=sampling), tiny_tenant("plain")]
    trainer = tiny_trainer(tenants, arm("S1"), ScriptedEnvs(), observer=recorder)
    trainer.warm_up()
    result = trainer.run()
    assert result.status == "success" and not result.recompiles
    for report in recorder.reports:
        assert report.loss_tokens > 0
        assert report.ratio_min == pytest.approx(1, abs=1e-4)
        assert report.ratio_max == pytest.approx(1, abs=1e-4)
        assert report.entropy <= (math.log(top_k) if top_k and report.tenant_id == "cutting" else 9)


def scored(cut: Cut | None) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Ids, log-probabilities and entropies of some sequences of tenant t0."""
    learner = make()
    sequences, weights = sequences_of()
    plan = packing.plan([len(s.token_ids) for s in sequences], ["t0"] * len(sequences), [BUCKET])
    batches = packing.pack(sequences, weights, learner.slot_of, learner.versions, plan)
    found: list[Scored] = [
        score_tokens(
            BASE.params, *learner.state.adapters, learner.hyper.temperature, batch, cut, config=BASE.config
        )
        for batch in batches
    ]
    return (
        [s.token_ids for s in sequences],
        packing.unpack(batches, plan, [s.logprobs for s in found]),
        packing.unpack(batches, plan, [s.entropy for s in found]),
    )


def full_logprobs() -> list[np.ndarray]:
    """[n, V] per sequence: the first n - 1 tokens kept, the last replaced by each of the vocabulary."""
    factors = make().adapter("t0").factors
    sequences, _ = sequences_of()
    return [
        np.stack(
            [
                [np_logprobs(factors, 2.0, np.asarray([*s.token_ids[:j], v]), 1.0)[j] for v in range(8)]
                for j in range(1, len(s.token_ids))
            ]
        )
        for s in sequences
    ]


def test_a_cut_renormalises_what_is_left_and_keeps_the_token_that_was_drawn() -> None:
    """By hand in numpy: nucleus and k largest, plus the drawn token, renormalised; every one is finite."""
    cut = Cut(np.full(3, 0.7, np.float32), np.full(3, 3, np.int32))
    outside = 0
    for ids, logprobs, entropies, full in zip(*scored(cut), full_logprobs(), strict=True):
        assert np.isfinite(logprobs).all() and np.isfinite(entropies).all()
        for j, row in enumerate(full, start=1):
            order = np.argsort(-row, kind="stable")
            before = np.concatenate([[0], np.cumsum(np.exp(row[order]))[:-1]])
            kept = order[(before < 0.7) & (np.arange(8) < 3)]
            outside += ids[j] not in kept
            kept = np.union1d(kept, [ids[j]])
            log_z = np.log(np.exp(row[kept]).sum())
            assert logprobs[j] == pytest.approx(row[ids[j]] - log_z, abs=2e-5)
            p = np.exp(row[kept] - log_z)
            assert entropies[j] == pytest.approx(-(p * np.log(p)).sum(), abs=2e-5)
    assert outside > 10  # the ids are random: most would not have been drawn


def test_a_cut_that_leaves_all_in_changes_no_score() -> None:
    for plain, whole in zip(
        scored(None), scored(Cut(np.ones(3, np.float32), np.zeros(3, np.int32))), strict=True
    ):
        for one, other in zip(plain, whole, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_neighbours_cut_changes_a_tenant_by_rounding_alone() -> None:
    mine = group(tenant="t1")
    tenants = [*sampled_with(top_p=TOP_P, top_k=TOP_K)[:1], *TENANTS[1:]]
    alone, beside = make(), make(tenants)
    update(alone, mine)
    update(beside, mine, group())
    for name, (a, b) in alone.adapter("t1").factors.items():
        np.testing.assert_allclose(beside.adapter("t1").factors[name][0], a, atol=1e-6)
        np.testing.assert_allclose(beside.adapter("t1").factors[name][1], b, atol=1e-6)


def test_the_gradient_under_a_cut_is_the_slope_of_the_loss() -> None:
    """Along a random direction, by central differences; the token that was drawn pulls its own mass up."""
    loss = LossSpec(policy="reinforce")
    learner = make([replace(t, loss=loss) for t in sampled_with(top_k=3)])
    sequences, weights = sequences_of()
    grads, _ = gradients(learner, sequences, weights)
    start = learner.state.adapters
    rng = np.random.default_rng(0)
    way = jax.tree.map(lambda x: rng.normal(size=x.shape).astype(np.float32), start.factors)
    norm = math.sqrt(sum(float((w**2).sum()) for w in jax.tree.leaves(way)))

    def loss_at(h: float) -> float:
        moved = jax.tree.map(lambda x, w: x + h * w / norm, start.factors, way)
        learner.state = learner.state._replace(adapters=start._replace(factors=moved))
        return float(gradients(learner, sequences, weights)[1].loss[0])

    slope = sum(
        float((g * w).sum()) / norm for g, w in zip(jax.tree.leaves(grads), jax.tree.leaves(way), strict=True)
    )
    assert (loss_at(1e-2) - loss_at(-1e-2)) / 2e-2 == pytest.approx(slope, rel=1e-2)


def test_the_kl_term_of_a_fresh_adapter_is_zero_under_a_cut() -> None:
    """Policy and base are cut alike, so equal weights are no divergence, and no token is infinitely far."""
    tenants = [
        replace(t, loss=LossSpec(kl_coefficient=0.5), optimizer=OptimizerSpec(kind="sgd"))
        for t in sampled_with(top_p=0.6, top_k=3)
    ]
    fresh = make(tenants, trained=False)
    report = update(fresh, group((1.0,) * 4))["t0"]
    assert report.skipped is None
    assert report.grad_norm == pytest.approx(0, abs=1e-6)
    trained = make(tenants)
    report = update(trained, group((1.0,) * 4))["t0"]
    assert 0 < report.grad_norm < math.inf
    assert 0 < report.loss < math.inf


def test_nothing_is_sorted_while_nobody_cuts() -> None:
    def sorts(tenants: Any) -> bool:
        learner = make(tenants)
        sequences, weights = sequences_of()
        plan = packing.plan([len(s.token_ids) for s in sequences], ["t0"] * len(sequences), [BUCKET])
        batch = packing.pack(sequences, weights, learner.slot_of, learner.versions, plan)[0]
        lowered = row_sums.lower(
            learner.params,
            *learner.state.adapters,
            learner.hyper.temperature,
            learner._cut,
            learner._loss_index,
            batch,
            config=learner.config,
            losses=learner.losses,
        )
        return "stablehlo.sort" in lowered.as_text()

    assert not sorts(TENANTS)
    assert sorts(sampled_with(top_k=5))
