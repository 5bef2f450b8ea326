"""For every policy loss at once: the layout of a batch changes nothing, and gradients are those of the loss.

One learner holds a tenant for each loss, so that one compiled program of a shape serves them all.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tunix_core import learning
from tests.tunix_core.learning import gradients, group, np_logprobs, on_policy
from tunix_core import packing
from tunix_core.learner.stage import Learner, tenant_batch
from tunix_core.learner.update import Tally
from tunix_core.losses import POLICY_LOSSES
from tunix_core.testing import tiny_tenant
from tunix_core.types import Bucket, LossSpec, OptimizerSpec, TrainSequence

LOSSES = tuple(POLICY_LOSSES)
AGGREGATIONS = ("token_mean", "sequence_mean", "constant")
SPECS = {
    name: LossSpec(policy=name, aggregation=AGGREGATIONS[i % 3], is_floor=0.8, is_cap=1.3)
    for i, name in enumerate(LOSSES)
}
TENANTS = tuple(
    tiny_tenant(name, loss=SPECS[name], optimizer=OptimizerSpec(learning_rate=0.05, kind="sgd"))
    for name in LOSSES
)
LAYOUTS = (
    (Bucket(rows=16, length=24),),
    (Bucket(rows=4, length=64),),
    (Bucket(rows=7, length=23),),
    (Bucket(rows=3, length=40), Bucket(rows=16, length=24)),
)
"""From a sequence or two a row to nearly all in one, with batches of 3 to 16 rows and padding on each."""


@cache
def learner() -> Learner:
    return learning.make(TENANTS)


@cache
def batch() -> tuple[tuple[TrainSequence, ...], tuple[float, ...]]:
    """Every tenant's sequences, behaviour within a factor of 1.5 of the policy either way."""
    sequences: list[TrainSequence] = []
    weights: list[float] = []
    rng = np.random.default_rng(0)
    for name in LOSSES:
        g = replace(group((1.0, 0.0, 0.3, 0.9)), tenant_id=name)
        g = on_policy(g, learner())
        share = tenant_batch([g], SPECS[name], 6.0)
        for s in share.sequences:
            noise = rng.uniform(-0.4, 0.4, len(s.token_ids)).astype(np.float32)
            sequences.append(replace(s, tenant_id=name, behavior_logprobs=s.behavior_logprobs + noise))
        weights += share.weights.tolist()
    return tuple(sequences), tuple(weights)


@cache
def expected() -> tuple[Any, Tally]:
    return gradients(learner(), *map(list, batch()), LAYOUTS[0])


def assert_same(found: tuple[Any, Tally], wanted: tuple[Any, Tally]) -> None:
    for one, other in zip(jax.tree.leaves(found[0]), jax.tree.leaves(wanted[0]), strict=True):
        np.testing.assert_allclose(one, other, atol=5e-6)
    for figure, one, other in zip(Tally._fields, found[1], wanted[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5, err_msg=figure)


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(LAYOUTS), st.permutations(range(4 * len(LOSSES))))
def test_loss_gradient_and_figures_do_not_depend_on_the_layout(
    buckets: tuple[Bucket, ...], order: list[int]
) -> None:
    """Packing, row order, padding width and the cut into micro-batches; sums are those of any other layout."""
    sequences, weights = batch()
    shuffled = [sequences[i] for i in order], [weights[i] for i in order]
    assert_same(gradients(learner(), *shuffled, buckets), expected())


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=4 * len(LOSSES), max_size=4 * len(LOSSES)))
def test_any_cut_into_micro_batches_adds_up(part_of: list[int]) -> None:
    """Each part is packed alone; only the sums meet."""
    sequences, weights = batch()
    parts = []
    for part in sorted(set(part_of)):
        mine = [i for i, p in enumerate(part_of) if p == part]
        parts.append(
            gradients(learner(), [sequences[i] for i in mine], [weights[i] for i in mine], LAYOUTS[0])
        )
    summed = jax.tree.map(lambda *x: np.sum(x, 0), *[g for g, _ in parts])
    for one, other in zip(jax.tree.leaves(summed), jax.tree.leaves(expected()[0]), strict=True):
        np.testing.assert_allclose(one, other, atol=5e-6)
    np.testing.assert_allclose(sum(t.loss for _, t in parts), expected()[1].loss, atol=2e-5)


def test_packed_scores_are_those_of_each_sequence_alone() -> None:
    sequences, weights = batch()
    layouts = []
    for buckets in LAYOUTS[:2]:
        plan = packing.plan([len(s.token_ids) for s in sequences], [s.tenant_id for s in sequences], buckets)
        batches = packing.pack(sequences, weights, learner().slot_of, learner().versions, plan)
        layouts.append(packing.unpack(batches, plan, learner().score(batches)))
    for s, one, other in zip(sequences, *layouts, strict=True):
        factors = learner().adapter(s.tenant_id).factors
        alone = np_logprobs(factors, 2.0, s.token_ids, 1.0)
        np.testing.assert_allclose(one, alone, atol=1e-5)
        np.testing.assert_allclose(other, alone, atol=1e-5)


# Gradients


def np_loss(spec: LossSpec, p: np.ndarray, start: np.ndarray, b: np.ndarray, a: float) -> np.ndarray:
    """Losses per loss token of one sequence, from the papers; whatever carries no gradient is taken at `start`."""
    u = np.exp(start - b)
    lo, hi = 1 - spec.clip_low, 1 + spec.clip_high

    def surrogate(ratio: np.ndarray) -> np.ndarray:
        return np.minimum(ratio * a, np.clip(ratio, lo, hi) * a)

    def within(x: np.ndarray) -> np.ndarray:
        return (x >= spec.is_floor) & (x <= spec.is_cap)

    capped = np.minimum(u, spec.is_cap)
    product, mean = np.prod(u) * np.ones_like(u), np.exp(np.mean(start - b)) * np.ones_like(u)
    formulas = {
        "reinforce": lambda: -a * p,
        "ppo_clip": lambda: -surrogate(np.exp(p - b)),
        "decoupled_ppo": lambda: -capped * surrogate(np.exp(p - start)),
        "truncated_is": lambda: -capped * a * p,
        "masked_is": lambda: np.where(within(u), -u * a * p, 0),
        "sequence_masked_is": lambda: np.where(within(product), -product * a * p, 0),
        "geometric_masked_is": lambda: np.where(within(mean), -capped * a * p, 0),
        "cispo": lambda: -np.clip(u, lo, hi) * a * p,
        "gspo": lambda: -surrogate(np.exp(np.mean(p - b)) * np.ones_like(p)),
    }
    return formulas[spec.policy]()


@pytest.mark.parametrize("name", LOSSES)
def test_the_gradient_is_the_slope_of_the_loss_along_any_direction(name: str) -> None:
    """Central differences of an independent float64 model and loss, through all LoRA factors at once."""
    spec = SPECS[name]
    mine = [(s, w) for s, w in zip(*batch(), strict=True) if s.tenant_id == name]
    slot = learner().slot_of[name]
    start = {k: [np.asarray(x, np.float64) for x in ab] for k, ab in learner().adapter(name).factors.items()}
    before = [np_logprobs(start, 2.0, s.token_ids, 1.0) for s, _ in mine]
    found = jax.tree.map(lambda g: g[slot].astype(np.float64), expected()[0])
    rng = np.random.default_rng(LOSSES.index(name))
    h = 1e-5
    for _ in range(3):
        way = {k: [rng.normal(size=x.shape) for x in ab] for k, ab in start.items()}
        norm = math.sqrt(sum((x**2).sum() for ab in way.values() for x in ab))

        def loss(step: float, way: Any = way, norm: float = norm) -> float:
            moved = {k: [x + step * d / norm for x, d in zip(start[k], way[k], strict=True)] for k in start}
            total = 0.0
            for (s, w), old in zip(mine, before, strict=True):
                m = s.loss_mask
                now = np_logprobs(moved, 2.0, s.token_ids, 1.0)
                total += (
                    w * np_loss(spec, now[m], old[m], s.behavior_logprobs[m].astype(float), s.advantage).sum()
                )
            return float(total)

        slope = (loss(h) - loss(-h)) / (2 * h)
        along = sum(float((g * d).sum()) for k in start for g, d in zip(found[k], way[k], strict=True)) / norm
        assert along == pytest.approx(slope, rel=1e-3, abs=1e-5)
    assert expected()[1].loss[slot] == pytest.approx(loss(0.0), rel=1e-4, abs=1e-5)
    assert max(np.abs(g).max() for g in jax.tree.leaves(found)) > 1e-3


def test_the_numpy_losses_name_every_loss_and_exercise_clips_and_masks() -> None:
    tally = expected()[1]
    of = {name: learner().slot_of[name] for name in LOSSES}
    for name in ("ppo_clip", "truncated_is", "cispo"):
        assert 0 < tally.clipped[of[name]] < tally.tokens[of[name]], name
    assert 0 < tally.rejected[of["masked_is"]] < tally.tokens[of["masked_is"]]
    for name in LOSSES:
        np_loss(SPECS[name], np.zeros(2), np.zeros(2), np.zeros(2), 1.0)
