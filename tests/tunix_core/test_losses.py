import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunix_core.errors import ConfigError
from tunix_core.losses import (
    POLICY_LOSSES,
    LossConfig,
    effective_sample_size,
    sequence_log_ratio,
    sequence_token_weights,
)
from tunix_core.types import LossSpec

NAMES = tuple(POLICY_LOSSES)
C = LossConfig()


def run(name, policy, proximal, behavior, advantages, mask=None, segments=None, config=C):
    """(losses, diagnostics, gradient of their sum by policy log-probability), all [B, L]."""
    arrays = [jnp.atleast_2d(jnp.asarray(a, jnp.float32)) for a in (policy, proximal, behavior, advantages)]
    shape = arrays[0].shape
    mask = np.ones(shape, bool) if mask is None else np.atleast_2d(mask)
    segments = np.ones(shape, int) if segments is None else np.atleast_2d(segments)

    def total(p):
        out = POLICY_LOSSES[name](p, *arrays[1:], mask, segments, config)
        return out.per_token.sum(), out

    (_, out), grad = jax.value_and_grad(total, has_aux=True)(arrays[0])
    return np.asarray(out.per_token), {k: np.asarray(v) for k, v in out.diagnostics.items()}, np.asarray(grad)


def reference(name, policy, proximal, behavior, advantages):
    """Numpy, one unmasked sequence: (losses, gradient by policy log-probability), from the papers."""
    u, r, rho = np.exp(policy - behavior), np.exp(policy - proximal), np.exp(proximal - behavior)
    lo, hi, cap, floor = 1 - C.clip_low, 1 + C.clip_high, C.is_cap, C.is_floor
    n = len(policy)

    def ppo(ratio, weight):
        free, held = ratio * advantages, np.clip(ratio, lo, hi) * advantages
        return -weight * np.minimum(free, held), np.where(free <= held, -weight * free, 0.0)

    def score(weight):
        return -weight * advantages * policy, -weight * advantages

    product, mean = np.prod(u), np.exp(np.mean(policy - behavior))
    if name == "gspo":
        loss, per_ratio = ppo(np.full(n, mean), 1.0)
        return loss, np.full(n, per_ratio.sum() / n)
    return {
        "reinforce": lambda: score(np.ones(n)),
        "ppo_clip": lambda: ppo(u, 1.0),
        "decoupled_ppo": lambda: ppo(r, np.minimum(rho, cap)),
        "truncated_is": lambda: score(np.minimum(u, cap)),
        "masked_is": lambda: score(np.where((u >= floor) & (u <= cap), u, 0)),
        "sequence_masked_is": lambda: score(np.full(n, product if floor <= product <= cap else 0.0)),
        "geometric_masked_is": lambda: score(np.minimum(u, cap) if floor <= mean <= cap else np.zeros(n)),
        "cispo": lambda: score(np.clip(u, lo, hi)),
    }[name]()


@pytest.mark.parametrize("name", NAMES)
def test_loss_and_gradient_equal_the_numpy_version(name):
    rng = np.random.default_rng(0)
    for _ in range(20):
        policy, proximal, behavior = (-rng.uniform(0.1, 3, 5) for _ in range(3))
        advantages = rng.normal(size=5)
        loss, _, grad = run(name, policy, proximal, behavior, advantages)
        expected_loss, expected_grad = reference(name, policy, proximal, behavior, advantages)
        np.testing.assert_allclose(loss[0], expected_loss, rtol=2e-5, atol=1e-5)
        np.testing.assert_allclose(grad[0], expected_grad, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_on_policy_gradient_is_that_of_reinforce(name):
    logprobs, advantages = [-1.0, -0.5, -2.0], [1.0, 1.0, 1.0]
    _, diagnostics, grad = run(name, logprobs, logprobs, logprobs, advantages)
    np.testing.assert_allclose(grad[0], [-1, -1, -1], rtol=1e-6)
    assert (diagnostics["ratio"] == 1).all() and (diagnostics["is_weight"] == 1).all()
    assert not diagnostics["clipped"].any() and not diagnostics["rejected"].any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("junk", [0.0, 1.0, -50.0, 1e4, np.nan, np.inf, -np.inf])
def test_masked_positions_change_nothing(name, junk):
    # placeholders under tool tokens and padding reach no value, gradient or diagnostic.
    mask = [[True, False, True, False], [False] * 4]
    segments = [[1, 1, 1, 0], [0] * 4]

    def with_junk(x, base):
        return np.where(mask, base, x)

    def measure(x):
        return run(
            name,
            with_junk(x, -1.0),
            with_junk(x, -1.2),
            with_junk(x, -0.9),
            with_junk(x, 0.5),
            mask,
            segments,
        )

    loss, diagnostics, grad = measure(junk)
    clean_loss, clean_diagnostics, clean_grad = measure(-0.3)
    np.testing.assert_array_equal(loss, clean_loss)
    np.testing.assert_array_equal(grad, clean_grad)
    for key, value in diagnostics.items():
        np.testing.assert_array_equal(value, clean_diagnostics[key])
        assert not value[~np.asarray(mask)].any(), key
    assert np.isfinite(grad).all() and not grad[~np.asarray(mask)].any()


@pytest.mark.parametrize("name", NAMES)
def test_zero_advantage_has_exactly_zero_gradient(name):
    _, _, grad = run(name, [-1.0, -9.0], [-2.0, -1.0], [-0.5, -1.5], [0.0, 0.0])
    assert not grad.any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_extreme_ratios_stay_finite(name, advantage):
    loss, diagnostics, grad = run(name, [-1.0, -200.0], [-200.0, -1.0], [-201.0, -1.0], [advantage] * 2)
    assert np.isfinite(loss).all() and np.isfinite(grad).all()
    assert all(np.isfinite(d).all() for d in diagnostics.values())


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_operands_are_computed_in_float32(name):
    a = jnp.asarray([[-1.0, -0.5]], jnp.bfloat16)
    out = POLICY_LOSSES[name](a, a, a, a, np.ones((1, 2), bool), np.ones((1, 2), int))
    assert out.per_token.dtype == jnp.float32


@pytest.mark.parametrize("name", NAMES)
def test_losses_work_under_jit_and_vmap(name):
    a = jnp.asarray([[[-1.0, -0.5]], [[-2.0, -0.1]]])
    args = (a, a - 0.1, a + 0.1, jnp.ones_like(a), jnp.ones(a.shape, bool), jnp.ones(a.shape, int))
    batched = jax.jit(jax.vmap(POLICY_LOSSES[name]))(*args).per_token
    single = [POLICY_LOSSES[name](*(x[i] for x in args)).per_token for i in range(2)]
    np.testing.assert_allclose(batched, single, rtol=1e-6)


def test_decoupled_weight_is_proximal_over_behavior_truncated():
    # rho = e^0.5 = 1.6487 and e^3 = 20.1 -> 2; r = 1, so the gradient is -rho A.
    _, diagnostics, grad = run("decoupled_ppo", [-1, -1], [-1, -1], [-1.5, -4], [1, 1])
    np.testing.assert_allclose(diagnostics["is_weight"][0], [1.648721, 2.0], rtol=1e-6)
    np.testing.assert_allclose(diagnostics["log_is_weight"][0], [0.5, 3.0], rtol=1e-6)
    np.testing.assert_allclose(grad[0], [-1.648721, -2.0], rtol=1e-6)


def test_clip_is_asymmetric_and_counts_only_where_it_takes_the_gradient():
    policy = np.log([1.25, 1.3, 0.75, 1.3, 0.75])
    zeros, advantages = np.zeros(5), [1.0, 1.0, -1.0, -1.0, 1.0]
    _, diagnostics, grad = run("ppo_clip", policy, zeros, zeros, advantages)
    assert diagnostics["clipped"][0].tolist() == [False, True, True, False, False]
    np.testing.assert_allclose(grad[0], [-1.25, 0, 0, 1.3, -0.75], rtol=1e-5)


def test_gspo_clips_whole_sequences_of_a_row_apart():
    policy = np.asarray([0.4, 0.4, 0.1, 0.1])
    _, diagnostics, grad = run("gspo", policy, 0 * policy, 0 * policy, [1] * 4, segments=[1, 1, 2, 2])
    assert diagnostics["clipped"][0].tolist() == [True, True, False, False]
    np.testing.assert_allclose(grad[0], [0, 0, -np.exp(0.1), -np.exp(0.1)], rtol=1e-5)


def test_sequence_ratio_mean_and_product():
    # 0.2 and 0.4 in the loss, a masked -6 beside them.
    for junk in (-6.0, 0.0, np.nan):
        args = np.asarray([[0.2, 0.4, junk]]), [[True, True, False]], [[1, 1, 1]]
        assert float(np.exp(sequence_log_ratio(*args, "mean"))[0, 0]) == pytest.approx(1.349859, rel=1e-5)
        assert float(np.exp(sequence_log_ratio(*args, "sum"))[0, 0]) == pytest.approx(1.822119, rel=1e-5)


def test_long_sequence_ratio_mean_and_product():
    # 8000 tokens of -3.5e-4 each.
    args = np.full((1, 8000), -3.5e-4), np.ones((1, 8000), bool), np.ones((1, 8000), int)
    assert float(np.exp(sequence_log_ratio(*args, "mean"))[0, 0]) == pytest.approx(0.99965, abs=1e-5)
    assert float(np.exp(sequence_log_ratio(*args, "sum"))[0, 0]) == pytest.approx(0.0608, abs=1e-4)


@pytest.mark.parametrize("name", ["masked_is", "sequence_masked_is", "geometric_masked_is"])
def test_a_rejected_sequence_contributes_exactly_zero(name):
    # one token's log-ratio is 200; the neighbour in the same row stays.
    policy, behavior = [-1.0, -1.0], [-201.0, -1.0]
    loss, diagnostics, grad = run(name, policy, policy, behavior, [1, 1], segments=[1, 2])
    assert diagnostics["rejected"][0].tolist() == [True, False]
    assert loss[0].tolist() == [0, 1] and grad[0].tolist() == [0, -1]
    assert diagnostics["log_is_weight"][0].tolist() == [200, 0]  # before the clamp
    assert diagnostics["is_weight"][0].tolist() == [0, 1]  # after it


def test_sequence_mask_rejects_all_tokens_of_the_sequence():
    policy, behavior = [-1.0, -1.0, -1.0], [-3.0, -1.0, -1.0]
    _, diagnostics, grad = run("sequence_masked_is", policy, policy, behavior, [1] * 3, segments=[1, 1, 2])
    assert diagnostics["rejected"][0].tolist() == [True, True, False]
    assert grad[0].tolist() == [0, 0, -1]


def test_unknown_sequence_ratio_is_refused():
    with pytest.raises(ConfigError, match="'sum' and 'mean'"):
        sequence_log_ratio(np.zeros((1, 1)), np.ones((1, 1), bool), np.ones((1, 1), int), "max")


@pytest.mark.parametrize(
    ("kind", "constant", "expected"),
    [
        ("token_mean", None, [1 / 12] * 3),
        ("sequence_mean", None, [1 / 6, 1 / 12, 1 / 18]),
        ("constant", 100, [1 / 300] * 3),
    ],
)
def test_weights_of_sequences(kind, constant, expected):
    assert sequence_token_weights([2, 4, 6], kind, constant) == pytest.approx(expected)
    # A sequence without loss tokens counts in no denominator.
    assert sequence_token_weights([2, 0, 4, 6], kind, constant) == pytest.approx(
        [expected[0], 0, *expected[1:]]
    )
    assert not sequence_token_weights([0, 0], kind, constant).any()
    assert sequence_token_weights([], kind, constant).shape == (0,)


def test_token_and_sequence_mean_differ_as_they_should():
    # Per-token losses 0, 0.5, -0.5 on 2, 4, 6 tokens: (0 + 2 - 3) / 12 and (0 + 0.5 - 0.5) / 3.
    counts, losses = np.asarray([2, 4, 6]), np.asarray([0, 0.5, -0.5])
    assert (sequence_token_weights(counts, "token_mean") * counts * losses).sum() == pytest.approx(
        -1 / 12, abs=1e-6
    )
    assert (sequence_token_weights(counts, "sequence_mean") * counts * losses).sum() == pytest.approx(
        0, abs=1e-6
    )


def test_masked_truncated_tokens_leave_numerator_and_denominator():
    # 30 tokens of loss 1, five of them in a masked completion: 25 / 25.
    counts = np.asarray([15, 10, 0])
    assert (sequence_token_weights(counts, "token_mean") * counts).sum() == pytest.approx(1.0)


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=20), st.sampled_from(["token_mean", "sequence_mean"])
)
def test_weights_of_a_mean_sum_to_one(counts, kind):
    total = (sequence_token_weights(counts, kind).astype(np.float64) * counts).sum()
    assert total == pytest.approx(1.0 if any(counts) else 0.0, rel=1e-5)


def test_bad_aggregations_are_refused():
    with pytest.raises(ConfigError, match="token_mean, sequence_mean and constant"):
        sequence_token_weights([1], "mean")
    for constant in (None, 0, -1, float("nan")):
        with pytest.raises(ConfigError, match="positive constant"):
            sequence_token_weights([1], "constant", constant)


def test_effective_sample_size():
    mask = np.asarray([[True, True, True, False]])
    assert float(effective_sample_size([[2.0, 2.0, 2.0, np.nan]], mask)) == pytest.approx(1.0)
    assert float(effective_sample_size([[3.0, 0.0, 0.0, 9.0]], mask)) == pytest.approx(1 / 3)
    assert float(effective_sample_size([[1.0, 2.0, 3.0, 0.0]], mask)) == pytest.approx(36 / (3 * 14))
    assert float(effective_sample_size([[1.0] * 4], np.zeros((1, 4), bool))) == 0.0


@settings(max_examples=12, deadline=None)
@given(st.data(), st.sampled_from(NAMES))
def test_row_order_and_padding_do_not_change_a_sequence(data, name):
    n = data.draw(st.integers(1, 6))
    floats = st.lists(st.floats(-3, -0.125, width=32), min_size=n, max_size=n)
    policy, proximal, behavior = (np.asarray(data.draw(floats), np.float32) for _ in range(3))
    start = data.draw(st.integers(0, 8 - n))
    alone, _, alone_grad = run(name, policy, proximal, behavior, np.ones(n))

    def place(x):
        out = np.full((2, 8), -1.0, np.float32)
        out[1, start : start + n] = x
        return out

    segments = np.where(np.arange(8) < start, 1, 3) * np.ones((2, 1), int)
    segments[1, start : start + n] = 2
    loss, _, grad = run(
        name, place(policy), place(proximal), place(behavior), place(np.ones(n)), segments=segments
    )
    np.testing.assert_allclose(loss[1, start : start + n], alone[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(grad[1, start : start + n], alone_grad[0], rtol=1e-5, atol=1e-6)


def test_registry_names_every_default_and_shows_its_arguments():
    assert LossSpec().policy in POLICY_LOSSES
    for name, fn in POLICY_LOSSES.items():
        assert fn.__name__ == name and fn.__doc__
        assert next(iter(inspect.signature(fn).parameters)) == "policy_logprobs"


def test_config_follows_the_spec_and_refuses_nonsense():
    assert LossConfig.from_spec(LossSpec(is_cap=3.0)).is_cap == 3.0
    with pytest.raises(ConfigError, match="Clips"):
        LossConfig(clip_low=-0.1)
    with pytest.raises(ConfigError, match="floor <= cap"):
        LossConfig(is_floor=3.0)
