import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tunix_core.errors import ConfigError
from tunix_core.kl import kl_penalty

PAIRS = [(-1.0, -2.0), (-2.0, -1.0), (-1.0, -1.0), (-1.0, -120.0)]


def one(kind, policy, reference, dtype=jnp.float32):
    def value(p):
        return kl_penalty(p, jnp.asarray([[reference]], dtype), np.ones((1, 1), bool), kind)[0, 0]

    result, grad = jax.value_and_grad(value)(jnp.asarray([[policy]], dtype))
    return float(result), float(grad[0, 0])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("k1", [1, -1, 0, 119]), ("k2", [0.5, 0.5, 0, 7080.5]), ("k3", [0.367879, 0.718282, 0, 118])],
)
def test_values(kind, expected):
    # k3 = exp(ref - logp) - (ref - logp) - 1, k1 = logp - ref.
    assert [one(kind, *pair)[0] for pair in PAIRS] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_large_drift_stays_finite_and_pulls_back(kind, dtype):
    value, grad = one(kind, -120.0, -1.0, dtype)
    assert np.isfinite([value, grad]).all()
    if kind != "k1":
        assert grad < 0  # descending raises the log-probability back towards the reference


@pytest.mark.parametrize("d", [0.5, -0.5, 3.0, 1e-4, 19.0, 25.0])
def test_k3_gradient_is_that_of_its_value(d):
    # d/dlogp [exp(d) - 1 - d] = 1 - exp(d), frozen at d = 20 beyond it.
    _, grad = one("k3", 0.0, d)
    assert grad == pytest.approx(1 - np.exp(min(d, 20)), rel=1e-4)


def test_k3_is_never_negative():
    d = np.concatenate([np.linspace(-30, 30, 2001), np.logspace(-12, -2, 500), -np.logspace(-12, -2, 500)])
    policy = np.zeros((1, len(d)), np.float32)
    assert (np.asarray(kl_penalty(policy, d[None].astype(np.float32), np.ones((1, len(d)), bool))) >= 0).all()


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_masked_tokens_have_neither_value_nor_gradient(kind):
    mask = jnp.asarray([[True, False, False]])
    reference = jnp.asarray([[-1.0, jnp.nan, -jnp.inf]])

    def total(p):
        return kl_penalty(p, reference, mask, kind).sum()

    value, grad = jax.value_and_grad(total)(jnp.asarray([[-2.0, jnp.inf, jnp.nan]]))
    assert np.isfinite(value) and np.isfinite(grad).all() and not grad[0, 1:].any()


def test_unknown_estimator_is_refused():
    with pytest.raises(ConfigError, match="k1, k2 and k3"):
        one("k4", -1.0, -1.0)
