"""The learner against an independent numpy model, and what one update may and may not touch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from tests.tunix_core.learning import (
    BASE,
    BUCKET,
    NAMES,
    TENANTS,
    gradients,
    group,
    hashes,
    make,
    np_logprobs,
    on_policy,
    sequences_of,
    shown,
    trajectory,
    update,
)
from tunix_core import packing
from tunix_core.errors import ConfigError, LearnerError
from tunix_core.learner.stage import tenant_batch
from tunix_core.learner.state import init_state
from tunix_core.learner.update import apply, score, score_tokens
from tunix_core.losses import POLICY_LOSSES
from tunix_core.model.decoder import Decoder
from tunix_core.model.lora import factors_sha256, read_slot
from tunix_core.telemetry import compile_counter
from tunix_core.testing import random_adapter, tiny_tenant
from tunix_core.types import (
    Bucket,
    Group,
    LossSpec,
    OptimizerSpec,
    SamplingSpec,
    Span,
    StopReason,
    TrainSequence,
    Turn,
)


def np_gradient(
    factors: Mapping[str, Any], scale: float, sequences: Sequence[TrainSequence], temperature: float
) -> dict[str, list[np.ndarray]]:
    """Of the token-mean decoupled PPO loss, by central differences in float64."""
    factors = {k: [np.asarray(x, np.float64) for x in ab] for k, ab in factors.items()}
    start = [np_logprobs(factors, scale, s.token_ids, temperature) for s in sequences]
    tokens = sum(int(s.loss_mask.sum()) for s in sequences)

    def loss() -> float:
        total = 0.0
        for s, proximal in zip(sequences, start, strict=True):
            policy = np_logprobs(factors, scale, s.token_ids, temperature)
            m = s.loss_mask
            ratio = np.exp(policy - proximal)[m]
            weight = np.minimum(np.exp(proximal - s.behavior_logprobs)[m], 2.0)
            surrogate = np.minimum(ratio * s.advantage, np.clip(ratio, 0.8, 1.28) * s.advantage)
            total -= float((weight * surrogate).sum())
        return total / tokens

    grads = {k: [np.zeros_like(x) for x in ab] for k, ab in factors.items()}
    h = 1e-5
    for name, ab in factors.items():
        for x, g in zip(ab, grads[name], strict=True):
            for i in np.ndindex(x.shape):
                kept = x[i]
                x[i] = kept + h
                up = loss()
                x[i] = kept - h
                g[i] = (up - loss()) / (2 * h)
                x[i] = kept
    return grads


def test_scores_are_those_of_an_independent_model() -> None:
    learner = make([replace(t, sampling=SamplingSpec(temperature=0.7)) for t in TENANTS])
    batch_of = tenant_batch([group(tenant="t1")], LossSpec(), 6.0)
    sequences = batch_of.sequences
    plan = packing.plan([len(s.token_ids) for s in sequences], ["t1"] * 4, [BUCKET])
    (batch,) = packing.pack(sequences, batch_of.weights, learner.slot_of, learner.versions, plan)
    scored = score_tokens(
        BASE.params, *learner.state.adapters, learner.hyper.temperature, batch, config=BASE.config
    )
    factors = read_slot(learner.state.adapters.factors, 1)
    for s, found in zip(sequences, packing.unpack([batch], plan, [scored.logprobs]), strict=True):
        np.testing.assert_allclose(found, np_logprobs(factors, 2.0, s.token_ids, 0.7), atol=1e-5)


def test_one_sgd_step_is_that_of_an_independent_model() -> None:
    """Multi-turn, off-policy, two signs of advantage, several sequences a row; clipped and not."""
    groups = [group((1.0, 0.0, 0.3, 0.9), tenant="t1")]
    sequences = tenant_batch(groups, LossSpec(), 6.0).sequences
    grads = np_gradient(make().adapter("t1").factors, 2.0, sequences, 1.0)
    norm = math.sqrt(sum(float((g**2).sum()) for ab in grads.values() for g in ab))
    for clip in (100.0, 0.01):
        learner = make([replace(t, optimizer=replace(t.optimizer, clip_norm=clip)) for t in TENANTS])
        before = learner.adapter("t1").factors
        assert update(learner, *groups)["t1"].grad_norm == pytest.approx(norm, rel=1e-4)
        after = learner.adapter("t1").factors
        step = 0.05 * min(1.0, clip / norm)
        for name in after:
            for found, old, g in zip(after[name], before[name], grads[name], strict=True):
                np.testing.assert_allclose(found, old - step * g, atol=1e-6)
                assert np.abs(found - old).max() > (1e-4 if clip > 1 else 1e-6)


# ---------------------------------------------------------------- what is in the loss


def logit_gradient(shape: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Which positions' logits [n] get a gradient from one trajectory with advantage 1."""
    trained = trajectory(shape=shape)
    sequence = replace(
        tenant_batch([Group(tenant_id="t0", ordinal=0, trajectories=(trained,))], LossSpec(), 6.0).sequences[
            0
        ],
        advantage=1.0,
    )
    n = len(sequence.token_ids)
    plan = packing.plan([n], ["t0"], [Bucket(rows=1, length=32)])
    (batch,) = packing.pack([sequence], [1.0 / n], {"t0": 0}, {"t0": 0}, plan)
    plain = Decoder.logits

    @jax.jit
    def gradient(delta: Any) -> Any:
        def loss(delta: Any) -> Any:
            monkeypatch.setattr(Decoder, "logits", lambda self, hidden: plain(self, hidden) + delta)
            logprobs = score(BASE.params, None, batch, np.ones(1, np.float32), BASE.config).logprobs
            monkeypatch.setattr(Decoder, "logits", plain)
            per_token = POLICY_LOSSES["decoupled_ppo"](
                logprobs,
                jax.lax.stop_gradient(logprobs),
                jax.lax.stop_gradient(logprobs),
                batch.advantages,
                batch.loss_mask,
                batch.segment_ids,
            ).per_token
            return (batch.token_weights * per_token).sum()

        return jax.grad(loss)(delta)

    found = gradient(np.zeros((1, 32, BASE.config.vocab_size), np.float32))
    return np.abs(np.asarray(found)[0]).max(-1)


@pytest.mark.parametrize(
    ("shape", "trained"),
    [
        ((3, 4), [2, 3, 4, 5]),  # prompt of 3, answer of 4: predicted from positions 2..5, not 0, 1 and 6
        ((3, 1), [2]),  # nothing but the end of turn: still one token
        ((3, 4, 3, 5), [2, 3, 4, 5, 9, 10, 11, 12, 13]),  # 9 sampled tokens; the tool's three are read only
    ],
)
def test_exactly_the_sampled_tokens_are_trained(
    shape: Sequence[int], trained: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = logit_gradient(shape, monkeypatch)
    assert np.flatnonzero(found).tolist() == trained
    assert found[trained].min() > 1e-4


@pytest.mark.parametrize("placeholder", [0.0, 1.0, -50.0, math.nan, math.inf])
def test_what_stands_off_the_mask_changes_no_figure_and_no_bit(placeholder: float) -> None:
    clean = group(ordinal=2)

    def spoiled(t: Turn) -> Turn:
        values = np.where(t.loss_mask, t.behavior_logprobs, placeholder).astype(np.float32)
        return replace(t, behavior_logprobs=values)

    dirty = replace(
        clean,
        trajectories=tuple(replace(t, turns=tuple(map(spoiled, t.turns))) for t in clean.trajectories),
    )
    one, other = make(), make()
    assert shown(update(one, clean)["t0"]) == shown(update(other, dirty)["t0"])
    assert hashes(one) == hashes(other)


def test_loss_tokens_are_the_sampled_tokens() -> None:
    g = group()
    report = update(make(), g)["t0"]
    assert report.loss_tokens == sum(t.sampled_tokens for t in g.trajectories) == 4 + 5 + 9 + 1


def test_truncated_answers_are_left_out_of_both_sides_of_the_mean_or_count() -> None:
    """30 sampled tokens of which 5 were cut: with 'mask', 25 tokens of weight 1 / 25."""
    lengths = (5, 10, 10, 5)
    members = tuple(
        trajectory(
            float(i % 2),
            sample=i,
            shape=(3, n),
            stop=StopReason.MAX_TOKENS if i == 3 else StopReason.TERMINATED,
        )
        for i, n in enumerate(lengths)
    )
    g = Group(tenant_id="t0", ordinal=0, trajectories=members)
    masked = tenant_batch([g], LossSpec(truncated="mask"), 6.0)
    assert [int(s.loss_mask.sum()) for s in masked.sequences] == [5, 10, 10]
    np.testing.assert_allclose(masked.weights, 1 / 25)
    assert len(masked.rewards) == 4  # the reward of a cut answer is still shown
    counted = tenant_batch([g], LossSpec(), 6.0)
    np.testing.assert_allclose(counted.weights, 1 / 30)


def test_a_batch_that_is_truncated_and_masked_entirely_takes_no_step() -> None:
    tenants = [replace(t, loss=LossSpec(truncated="mask")) for t in TENANTS]
    members = tuple(trajectory(float(i), sample=i, stop=StopReason.MAX_TOKENS) for i in range(4))
    learner = make(tenants)
    before = hashes(learner)
    report = update(learner, Group(tenant_id="t0", ordinal=0, trajectories=members))["t0"]
    assert report.skipped is not None
    assert report.loss_tokens == 0
    assert hashes(learner) == before
    assert all(math.isfinite(v) for v in shown(report).values() if isinstance(v, float))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_number_is_masked_and_counted(bad: float) -> None:
    found = tenant_batch([group((1.0, 0.0, bad, 1.0))], LossSpec(), 6.0)
    assert found.invalid_rewards == 1
    assert [s.sample_index for s in found.sequences] == [0, 1, 3]
    np.testing.assert_allclose(
        [s.advantage for s in found.sequences], [0.707107, -1.414214, 0.707107], atol=1e-5
    )
    assert found.rewards == (1.0, 0.0, None, 1.0)
    learner = make()
    report = update(learner, group((1.0, 0.0, bad, 1.0)))["t0"]
    assert report.invalid_rewards == 1
    assert report.reward_mean == pytest.approx(2 / 3)
    assert report.skipped is None
    assert all(np.isfinite(x).all() for ab in learner.adapter("t0").factors.values() for x in ab)


def test_errored_members_take_no_part() -> None:
    g = group((1.0, 0.0, 0.0, 1.0))
    hurt = replace(g.trajectories[2], error="boom", reward=1.0)
    found = tenant_batch(
        [replace(g, trajectories=(*g.trajectories[:2], hurt, g.trajectories[3]))], LossSpec(), 6.0
    )
    np.testing.assert_allclose(
        [s.advantage for s in found.sequences], [0.707107, -1.414214, 0.707107], atol=1e-5
    )
    assert found.rewards == (1.0, 0.0, 1.0)


def test_the_headline_reward_counts_every_group_and_the_kept_one_those_with_signal() -> None:
    """Eight groups, six all wrong, two half right: 0.125 overall, 0.5 over the kept ones."""
    groups = [group((0.0,) * 4, ordinal=k) for k in range(6)]
    groups += [group((1.0, 0.0, 1.0, 0.0), ordinal=k) for k in (6, 7)]
    report = update(make(), *groups)["t0"]
    assert report.reward_mean == pytest.approx(0.125)
    assert report.reward_mean_kept == pytest.approx(0.5)
    assert report.groups_no_signal == 6
    assert report.ordinals == tuple(range(8))


def test_a_group_without_signal_stays_in_the_denominator() -> None:
    """The update's scale isn't inflated by dropping groups whose rewards are all equal."""
    alone = tenant_batch([group()], LossSpec(), 6.0)
    beside = tenant_batch([group(), group((1.0,) * 4, ordinal=6)], LossSpec(), 6.0)
    np.testing.assert_allclose(beside.weights, alone.weights[0] / 2)


# ---------------------------------------------------------------- packing and cuts


def test_gradient_sums_do_not_depend_on_rows_length_or_cut() -> None:
    learner = make()
    sequences, weights = sequences_of()
    expected, tally = gradients(learner, sequences, weights)
    found, other = gradients(learner, sequences, weights, [Bucket(rows=2, length=48)])
    for one, two in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(one, two, atol=2e-6)
    for one, two in zip(tally, other, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def test_a_packed_gradient_is_the_sum_of_its_sequences_alone() -> None:
    learner = make()
    sequences, weights = sequences_of()
    packed, tally = gradients(learner, sequences, weights)
    alone = [gradients(learner, [s], [w]) for s, w in zip(sequences, weights, strict=True)]
    summed = jax.tree.map(lambda *x: np.sum(x, 0), *[g for g, _ in alone])
    for one, two in zip(jax.tree.leaves(packed), jax.tree.leaves(summed), strict=True):
        np.testing.assert_allclose(one, two, atol=2e-6)
    assert tally.loss[0] == pytest.approx(sum(t.loss[0] for _, t in alone), abs=1e-6)
    assert tally.tokens[0] == sum(t.tokens[0] for _, t in alone)


def test_rows_in_another_order_give_the_same_sum() -> None:
    learner = make()
    sequences, weights = sequences_of()
    expected, _ = gradients(learner, sequences, weights)
    found, _ = gradients(learner, sequences[::-1], weights[::-1])
    for one, two in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(one, two, atol=2e-6)


def test_an_episode_that_ended_by_reading_too_much_does_not_stop_the_run() -> None:
    """What was read after the last sampled token teaches nothing, however long it is; nothing else is cut."""
    members = [trajectory(float(i), sample=i, shape=(3, 4)) for i in range(2)]
    members += [
        trajectory(0.0, sample=2, shape=(3, 4, 500), stop=StopReason.CONTEXT),
        trajectory(0.0, sample=3, shape=(900,), stop=StopReason.CONTEXT),
    ]
    g = Group(tenant_id="t0", ordinal=0, trajectories=tuple(members))
    made = tenant_batch([g], LossSpec(), 6.0)
    assert [len(s.token_ids) for s in made.sequences] == [7, 7, 7]
    assert len(made.rewards) == 4
    report = update(make(), g)["t0"]
    assert report.skipped is None
    assert report.loss_tokens == 12


# ---------------------------------------------------------------- tenants


def test_a_tenant_moves_the_same_alone_and_beside_any_neighbours() -> None:
    mine = [group(ordinal=k) for k in range(2)]
    alone = make()
    report = update(alone, *mine)["t0"]
    crowds = [
        [group(tenant="t1", ordinal=k) for k in range(1)],
        [group(tenant="t1", ordinal=k) for k in range(10)],
        [
            group((math.nan, 1.0, 0.0, math.inf), tenant="t2"),
            *(group(tenant="t1", ordinal=k) for k in range(3)),
        ],
    ]
    for crowd in crowds:
        for order in ([*crowd, *mine], [*mine, *crowd]):
            among = make()
            reports = update(among, *order)
            assert shown(reports["t0"]) == shown(report)
            assert hashes(among)["t0"] == hashes(alone)["t0"]
            assert hashes(among)["t1"] != hashes(make())["t1"]


def test_a_tenants_nan_stops_that_tenant_alone_with_its_reason() -> None:
    mine = [group(ordinal=k) for k in range(2)]
    healthy = make()
    update(healthy, *mine)
    hurt = make()
    poison = {k: (a * np.nan, b) for k, (a, b) in random_adapter(seed=1).factors.items()}
    factors = {k: (a.at[1].set(poison[k][0]), b) for k, (a, b) in hurt.state.adapters.factors.items()}
    hurt.state = hurt.state._replace(adapters=hurt.state.adapters._replace(factors=factors))
    before = hashes(hurt)
    reports = update(hurt, group(tenant="t1"), *mine)
    assert reports["t1"].skipped == "non-finite gradient"
    assert reports["t1"].version_after == reports["t1"].version_before == 0
    assert hashes(hurt)["t1"] == before["t1"]
    assert reports["t0"].skipped is None
    assert hashes(hurt)["t0"] == hashes(healthy)["t0"]
    # and the next update, too
    update(hurt, *[group(ordinal=k) for k in (2, 3)])
    update(healthy, *[group(ordinal=k) for k in (2, 3)])
    assert hashes(hurt)["t0"] == hashes(healthy)["t0"]


@pytest.mark.parametrize("rewards", [(1.0, 0.0, 1.0, 0.0), (1.0, 1.0, 1.0, 1.0)])
def test_sampled_logprobs_that_are_no_numbers_stop_the_tenant_with_or_without_signal(
    rewards: tuple[float, ...],
) -> None:
    g = group(rewards)
    t = g.trajectories[1]
    broken = replace(t.turns[1], behavior_logprobs=np.full(len(t.turns[1].token_ids), np.nan, np.float32))
    g = replace(
        g, trajectories=(g.trajectories[0], replace(t, turns=(t.turns[0], broken)), *g.trajectories[2:])
    )
    learner = make()
    before = hashes(learner)
    reports = update(learner, g, group(tenant="t1"))
    assert reports["t0"].skipped == "non-finite log-probability from the sampler"
    assert reports["t0"].version_after == 0
    assert hashes(learner)["t0"] == before["t0"]
    assert reports["t1"].skipped is None


def test_equal_rewards_leave_every_bit_and_are_counted() -> None:
    for value in (0.2, 0.35, 0.95, 1.0, 0.0, -1.0):
        learner = make()
        before, moments = hashes(learner), jax.device_get(learner.state.adam)
        report = update(learner, group((value,) * 7), group((value,) * 8, ordinal=1))["t0"]
        assert hashes(learner) == before
        jax.tree.map(np.testing.assert_array_equal, moments, jax.device_get(learner.state.adam))
        assert report.skipped == "no signal: every advantage is zero"
        assert (report.groups_no_signal, report.grad_norm, report.version_after) == (2, 0.0, 1)


def test_a_step_size_of_zero_leaves_every_bit_and_counts_the_update() -> None:
    for kind in ("adam", "sgd"):
        learner = make([replace(t, optimizer=OptimizerSpec(learning_rate=0.0, kind=kind)) for t in TENANTS])
        before = hashes(learner)
        for k in range(3):
            report = update(learner, group(ordinal=k, version=k))["t0"]
        assert hashes(learner) == before
        assert report.version_after == 3
        assert report.grad_norm > 0


def np_adam(w: np.ndarray, grads: Sequence[np.ndarray], o: OptimizerSpec) -> np.ndarray:
    """Adam by its paper, with global-norm clipping and a linear warm-up (arXiv 1412.6980)."""
    w, m, v = w.astype(np.float64), np.zeros(w.shape), np.zeros(w.shape)
    for t, g in enumerate(grads, start=1):
        g = g * min(1.0, o.clip_norm / np.sqrt((g**2).sum()))
        m, v = o.b1 * m + (1 - o.b1) * g, o.b2 * v + (1 - o.b2) * g**2
        rate = o.learning_rate * min(1.0, t / max(o.warmup_updates, 1))
        w -= rate * (m / (1 - o.b1**t)) / (np.sqrt(v / (1 - o.b2**t)) + o.eps)
    return w


def test_each_tenant_has_its_own_clip_step_size_warm_up_and_count() -> None:
    optimizers = [
        OptimizerSpec(learning_rate=0.1, clip_norm=1e9),
        OptimizerSpec(learning_rate=0.01, clip_norm=0.5, warmup_updates=4, b1=0.8),
        OptimizerSpec(learning_rate=0.003, clip_norm=2.0, b2=0.999, eps=1e-4),
    ]
    tenants = [replace(t, optimizer=o) for t, o in zip(TENANTS, optimizers, strict=True)]
    learner = make(tenants)
    state = learner.state
    flat, shape_back = jax.tree.flatten(state.adapters.factors)
    start = [np.concatenate([np.asarray(x)[t].ravel() for x in flat]) for t in range(3)]
    rng = np.random.default_rng(3)
    taken: dict[int, list[np.ndarray]] = {0: [], 1: [], 2: []}
    due_at = [(True, True, True), (True, False, True), (False, False, True), (True, True, True)]
    for due in due_at:
        grads = [rng.normal(size=np.shape(x)).astype(np.float32) for x in flat]
        for t in range(3):
            if due[t]:
                taken[t].append(np.concatenate([g[t].ravel() for g in grads]).astype(np.float64))
        grad_sum = jax.device_put(jax.tree.unflatten(shape_back, grads))
        state, applied = apply(state._replace(grad_sum=grad_sum), learner.hyper, np.asarray(due))
        assert np.asarray(applied.stepped).tolist() == list(due)
    assert np.asarray(state.updates).tolist() == [3, 2, 4]
    after = jax.tree.leaves(state.adapters.factors)
    for t, optimizer in enumerate(optimizers):
        found = np.concatenate([np.asarray(x)[t].ravel() for x in after])
        np.testing.assert_allclose(found, np_adam(start[t], taken[t], optimizer), atol=2e-5)


def test_an_idle_tenant_does_not_move_and_its_pending_gradient_survives() -> None:
    """Adam with a zero gradient would drift on its old moments; a neighbour's step must not be one."""
    tenants = [replace(t, optimizer=OptimizerSpec(learning_rate=1e-3)) for t in TENANTS]
    learner = make(tenants)
    update(learner, group(), group(tenant="t1"))
    idle = (learner.adapter("t0").sha256, jax.tree.map(lambda x: np.asarray(x)[0], learner.state.adam))
    base = {k: np.array(v) for k, v in zip(range(99), jax.tree.leaves(learner.params), strict=False)}
    for k in range(5):
        update(learner, group(tenant="t1", ordinal=k + 1, version=k))
    assert learner.adapter("t0").sha256 == idle[0]
    jax.tree.map(
        np.testing.assert_array_equal, jax.tree.map(lambda x: np.asarray(x)[0], learner.state.adam), idle[1]
    )
    assert np.asarray(learner.state.updates).tolist() == [1, 6, 0]
    for k, x in enumerate(jax.tree.leaves(learner.params)):
        np.testing.assert_array_equal(x, base[k])
    # gradients of A and B are there; only A steps
    pending = jax.tree.map(lambda x: jax.numpy.ones_like(x), learner.state.grad_sum)
    before = learner.adapter("t1").sha256
    state, _ = apply(
        learner.state._replace(grad_sum=pending), learner.hyper, np.asarray([True, False, False])
    )
    kept = jax.tree.leaves(state.grad_sum)
    assert all(not np.any(x[0]) and np.all(np.asarray(x[1]) == 1) for x in kept)
    assert factors_sha256(read_slot(state.adapters.factors, 1)) == before


def test_padding_to_a_larger_rank_changes_nothing_and_stays_zero() -> None:
    """r = 2, alpha = 4 in a store of 16 learns what it learns in a store of 2."""
    tenants = [replace(t, optimizer=OptimizerSpec(learning_rate=0.02)) for t in TENANTS]
    stores = [make(tenants, max_rank=r, trained=False) for r in (2, 16)]
    assert [float(s.state.adapters.scale[0]) for s in stores] == [2.0, 2.0]
    for k in range(10):
        norms = [update(s, group(ordinal=k, version=k))["t0"].grad_norm for s in stores]
        assert norms[0] == pytest.approx(norms[1], rel=1e-4)
    small, large = (s.adapter("t0").factors for s in stores)
    for name in small:
        (a, b), (wide_a, wide_b) = small[name], large[name]
        np.testing.assert_allclose(wide_a[..., :2], a, atol=1e-5)
        np.testing.assert_allclose(wide_b[:, :2], b, atol=1e-5)
        assert not wide_a[..., 2:].any() and not wide_b[:, 2:].any()
        assert b.any()


def test_a_fresh_tenant_has_a_gradient_on_b_and_none_on_a() -> None:
    sequences, weights = sequences_of()
    found, _ = gradients(make(trained=False), sequences, weights)
    for a, b in found.values():
        assert not a.any() and b[0].any() and not b[1:].any()


# ---------------------------------------------------------------- figures


def test_on_policy_figures_are_those_of_equal_policies() -> None:
    learner = make()
    report = update(learner, on_policy(group(), learner))["t0"]
    assert report.logprob_gap == pytest.approx(0, abs=1e-6)
    assert report.kl == pytest.approx(0, abs=1e-6)
    assert report.is_ess == pytest.approx(1, abs=1e-6)
    assert report.max_is_weight == pytest.approx(1, abs=1e-5)
    assert report.clip_fraction == report.rejected_fraction == 0
    assert report.effective_loss_tokens == report.loss_tokens
    assert report.max_log_is_weight_raw == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("groups", [1, 2, 5])
def test_the_mean_ratio_is_one_on_policy_however_many_sequences(groups: int) -> None:
    """A ratio broadcast against the batch would grow with it (huggingface/trl pull 6121)."""
    learner = make()
    report = update(learner, *(on_policy(group(ordinal=k), learner) for k in range(groups)))["t0"]
    for figure in (report.ratio_mean, report.ratio_min, report.ratio_max):
        assert figure == pytest.approx(1, abs=1e-5)


def test_weights_are_shown_before_and_after_the_clamp_and_the_cap() -> None:
    """One token whose behaviour log-probability is 200 below the learner's: clamped at 20, capped at 2."""
    learner = make()
    g = on_policy(group(), learner)
    t = g.trajectories[1]
    behaviour = t.turns[1].behavior_logprobs.copy()
    behaviour[2] -= 200
    far = replace(t, turns=(t.turns[0], replace(t.turns[1], behavior_logprobs=behaviour), *t.turns[2:]))
    report = update(learner, replace(g, trajectories=(g.trajectories[0], far, *g.trajectories[2:])))["t0"]
    assert report.max_log_is_weight_raw == pytest.approx(200, rel=1e-5)
    assert report.max_log_is_weight == pytest.approx(math.log(2), abs=1e-5)
    assert report.max_is_weight == pytest.approx(2)
    assert report.ratio_max == pytest.approx(math.exp(20), rel=1e-4)
    assert report.ratio_min == pytest.approx(1, abs=1e-5)
    assert math.isfinite(report.loss) and math.isfinite(report.grad_norm)


def test_figures_of_an_update_without_tokens_are_neutral() -> None:
    report = update(make(), Group(tenant_id="t0", ordinal=0, trajectories=()))["t0"]
    assert (report.ratio_mean, report.ratio_min, report.ratio_max) == (1.0, 1.0, 1.0)
    assert report.effective_loss_tokens == 0


def test_off_policy_figures_show_the_gap_and_the_cap() -> None:
    """Behaviour log 3 below the learner: every ratio is 3, every weight is cut at 2."""
    learner = make()
    report = update(learner, on_policy(group(), learner, shift=-math.log(3)))["t0"]
    assert report.logprob_gap == pytest.approx(math.log(3), abs=1e-5)
    assert report.max_is_weight == pytest.approx(2.0)
    # k3 with d = log behaviour - log proximal = -log 3: 1/3 - 1 + log 3
    assert report.kl == pytest.approx(1 / 3 - 1 + math.log(3), abs=1e-5)


@pytest.mark.parametrize("length", [15, 32, 61])
def test_entropy_of_a_uniform_policy_is_the_log_of_the_vocabulary_at_any_width(length: int) -> None:
    params = jax.tree.map(np.array, BASE.params)
    params["embed_tokens"] *= 0
    learner = make(params=params, buckets=[Bucket(rows=4, length=length)])
    assert update(learner, group((1.0, 0.0)))["t0"].entropy == pytest.approx(math.log(8), abs=1e-6)


def test_staleness_is_counted_per_token_and_the_future_is_refused() -> None:
    learner = make()
    for k in range(2):
        update(learner, group(ordinal=k, version=k))
    old, new = group(ordinal=2, version=1), group(ordinal=3, version=2)
    report = update(learner, old, new)["t0"]
    tokens = [sum(t.sampled_tokens for t in g.trajectories) for g in (old, new)]
    assert report.staleness == {1: tokens[0], 0: tokens[1]}
    assert sum(report.staleness.values()) == report.loss_tokens
    with pytest.raises(LearnerError, match="version 9"):
        update(learner, group(ordinal=4, version=9))


def test_spans_and_reports_count_token_slots() -> None:
    spans: list[Span] = []
    learner = make(spans=spans)
    g = group()
    report = update(learner, g, group(tenant="t1"))["t0"]
    (span,) = spans
    real = sum(len(t.token_ids) for x in (g, group(tenant="t1")) for u in x.trajectories for t in u.turns)
    assert span.real_tokens == report.real_tokens == real
    assert span.executed_slots == report.executed_slots == 4 * 32
    assert (span.role, span.tenants) == ("train", ("t0", "t1"))


def test_warm_up_leaves_the_state_and_everything_compiled() -> None:
    learner = make()
    before = jax.device_get(learner.state)
    learner.warm_up()
    jax.tree.map(np.testing.assert_array_equal, before, jax.device_get(learner.state))
    hashes(learner)
    compiled = compile_counter().names()
    update(learner, group(), group(tenant="t2"))
    hashes(learner)
    assert not compile_counter().names() - compiled


def test_the_kl_term_pulls_back_to_the_base_without_any_signal_and_not_a_neighbour() -> None:
    """Zero advantages, KL coefficient 0.5: only that gradient is left, and only for that tenant."""
    kl = LossSpec(kl_coefficient=0.5)
    tenants = [TENANTS[0], replace(TENANTS[1], loss=kl), replace(TENANTS[2], loss=LossSpec(policy="gspo"))]
    learner = make(tenants)
    before = hashes(learner)
    reports = update(learner, *(group((1.0,) * 4, tenant=n) for n in NAMES))
    assert [reports[n].skipped is None for n in NAMES] == [False, True, False]
    assert [hashes(learner)[n] == before[n] for n in NAMES] == [True, False, True]
    # a fresh adapter is the base: no divergence, no gradient
    fresh = make(tenants, trained=False)
    assert update(fresh, group((1.0,) * 4, tenant="t1"))["t1"].grad_norm == pytest.approx(0, abs=1e-6)
    # the first tenant's gradient is what it is where all share one loss
    sequences, weights = sequences_of()
    for one, two in zip(
        jax.tree.leaves(gradients(make(tenants), sequences, weights)[0]),
        jax.tree.leaves(gradients(make(), sequences, weights)[0]),
        strict=True,
    ):
        np.testing.assert_allclose(one, two, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"optimizer": OptimizerSpec(kind="lion")}, "optimizer 'lion' not found"),
        ({"optimizer": OptimizerSpec(learning_rate=-1.0)}, "learning_rate"),
        ({"optimizer": OptimizerSpec(learning_rate=math.nan)}, "learning_rate"),
        ({"optimizer": OptimizerSpec(clip_norm=0.0)}, "clip_norm"),
        ({"sampling": SamplingSpec(temperature=0.0)}, "temperature"),
        ({"sampling": SamplingSpec(temperature=math.inf)}, "temperature"),
        ({"sampling": SamplingSpec(top_p=0.0)}, "top_p is 0.0"),
        ({"sampling": SamplingSpec(top_p=1.5)}, "top_p is 1.5"),
        ({"sampling": SamplingSpec(top_k=-1)}, "top_k is -1"),
        ({"loss": LossSpec(is_floor=3.0)}, "is_floor 3.0"),
        ({"loss": LossSpec(is_cap=math.nan)}, "is_cap nan"),
        ({"loss": LossSpec(clip_low=-0.1)}, "Clips are -0.1"),
        ({"loss": LossSpec(clip_high=math.nan)}, "Clips are 0.2 and nan"),
        ({"loss": LossSpec(kl_coefficient=-1.0)}, "kl_coefficient is -1.0"),
        ({"loss": LossSpec(advantage_ddof=2)}, "advantage_ddof 2 not found"),
        ({"loss": LossSpec(advantage_eps=0.0)}, "advantage_eps is 0.0"),
        ({"loss": LossSpec(aggregation="constant", normaliser=0.0)}, "normaliser is 0.0"),
        ({"loss": LossSpec(normaliser=5.0)}, "aggregation 'constant' alone"),
        ({"loss": LossSpec(policy="ppo")}, "'ppo' not found"),
        ({"loss": LossSpec(advantage="gae")}, "'gae' not found"),
        ({"loss": LossSpec(aggregation="mean")}, "'mean' not found"),
        ({"loss": LossSpec(kl_estimator="k4")}, "'k4' not found"),
        ({"loss": LossSpec(truncated="drop")}, "'drop' not found"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_before_anything_is_built(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        make([tiny_tenant("alice", **changes)])
    assert "'alice'" in str(caught.value)


def test_the_constants_of_a_loss_spec_reach_advantages_weights_and_losses() -> None:
    """Rewards (1, 0, 0, 1): sample deviation sqrt(1/3), population 1/2; eps 1 makes them 1.577 and 1.5."""
    population = tenant_batch([group()], LossSpec(advantage_eps=1.0), 6.0).sequences
    sample = tenant_batch([group()], LossSpec(advantage_ddof=1, advantage_eps=1.0), 6.0).sequences
    assert population[0].advantage == pytest.approx(0.5 / 1.5)
    assert sample[0].advantage == pytest.approx(0.5 / (1 / 3**0.5 + 1))
    constant = LossSpec(aggregation="constant")
    np.testing.assert_allclose(tenant_batch([group()], constant, 6.0).weights, 1 / (4 * 6))
    chosen = replace(constant, normaliser=10.0)
    np.testing.assert_allclose(tenant_batch([group()], chosen, 6.0).weights, 1 / (4 * 10))
    # every ratio is 3: rejected by a cap of 2, kept by a cap of 4 with floor 2.5, rejected by floor 3.5
    for floor, cap, rejected in ((0.5, 2.0, 1.0), (2.5, 4.0, 0.0), (3.5, 4.0, 1.0)):
        loss = LossSpec(policy="masked_is", is_floor=floor, is_cap=cap)
        learner = make([replace(t, loss=loss) for t in TENANTS])
        report = update(learner, on_policy(group(), learner, shift=-math.log(3)))["t0"]
        assert report.rejected_fraction == rejected
        assert report.effective_loss_tokens == (0 if rejected else report.loss_tokens)


def test_an_unknown_tenant_is_named() -> None:
    with pytest.raises(LearnerError, match="'t9' has no slot"):
        make().update(0, {"t9": []})


def test_initial_state_is_the_same_in_every_process_and_slot_order() -> None:
    one = init_state(BASE.config, TENANTS, 2)
    other = init_state(BASE.config, TENANTS[::-1], 2)
    for a, b in zip(
        jax.tree.leaves(one.adapters.factors), jax.tree.leaves(other.adapters.factors), strict=True
    ):
        np.testing.assert_array_equal(a, b[::-1])
