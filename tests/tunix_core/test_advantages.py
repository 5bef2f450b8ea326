import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunix_core.advantages import ADVANTAGES, group_advantages, invalid_count, soft_overlong_penalty
from tunix_core.errors import ConfigError

KINDS = tuple(ADVANTAGES)
rewards = st.lists(st.floats(0, 100, width=32), min_size=1, max_size=12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("n", "value"), [(7, 0.2), (8, 0.35), (16, 0.95), (8, 1.0), (8, 0.0)])
def test_constant_group_gets_exact_zeros(kind, dtype, n, value):
    # a float32 sum and eps 1e-8 give -0.598 for 7 x 0.2.
    result = group_advantages(np.full(n, value, dtype), kind, eps=1e-8)
    assert result.dtype == np.float32 and not result.any()


@pytest.mark.parametrize("kind", ["grpo", "dr_grpo", "rloo"])
def test_constant_negative_group_gets_exact_zeros(kind):
    assert not group_advantages([-1.0] * 8, kind).any()


@pytest.mark.parametrize("base", [1.0, 2.0])
@pytest.mark.parametrize(("ddof", "eps", "size"), [(1, 1e-6, 0.6195), (1, 1e-8, 0.706), (0, 1e-6, 0.833)])
def test_close_rewards_keep_their_size_whatever_they_share(base, ddof, eps, size):
    # std is 7.07e-6 (sample) or 5e-6 (population), so 5e-6 / (std + eps).
    result = group_advantages([base, base + 1e-5], ddof=ddof, eps=eps)
    assert result == pytest.approx([-size, size], abs=3e-3)


@pytest.mark.parametrize(
    "group",
    [
        np.asarray([1, 1, 1, 1.0078125], ml_dtypes.bfloat16),
        np.asarray([1, 1, 1, 1.0078125], np.float32),
        np.asarray([128, 128, 128, 129]),
        [1.0, 1.0, 1.0, 1.0078125],
    ],
)
def test_statistics_do_not_depend_on_the_dtype(group):
    # one outlier of four: (-1, -1, -1, 3) / sqrt(3), or / 2 with the sample deviation.
    assert group_advantages(group, ddof=1) == pytest.approx([-0.5, -0.5, -0.5, 1.5], abs=1e-3)
    assert group_advantages(group) == pytest.approx([-0.57735] * 3 + [1.73205], abs=1e-3)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf"), None])
def test_an_invalid_reward_is_masked_and_counted(bad):
    # the finite members have mean 2/3 and population std sqrt(2)/3.
    group = [1, 0, bad, 1]
    assert group_advantages(group, "dr_grpo") == pytest.approx([1 / 3, -2 / 3, 0, 1 / 3])
    assert group_advantages(group) == pytest.approx([0.707107, -1.414214, 0, 0.707107], abs=1e-5)
    assert group_advantages(group, ddof=1) == pytest.approx([0.57735, -1.154701, 0, 0.57735], abs=1e-5)
    assert group_advantages(group, "rloo") == pytest.approx([0.5, -1, 0, 0.5])
    assert invalid_count(group) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("group", [[1], [float("nan"), 1.0], [None, None], []])
def test_fewer_than_two_members_give_zeros(kind, group):
    result = group_advantages(group, kind, ddof=1)
    assert result.shape == (len(group),) and not result.any()


def test_members_left_out_take_no_part():
    result = group_advantages([1, 0, 0, 1], valid=[True, True, True, False])
    assert result == pytest.approx([1.414214, -0.707107, -0.707107, 0], abs=1e-5)


def test_rloo_is_the_distance_to_the_others_mean():
    assert group_advantages([3, 0, 6], "rloo") == pytest.approx([0, -4.5, 4.5])


def test_maxrl_divides_by_the_mean():
    assert group_advantages([1, 0, 0, 0], "maxrl") == pytest.approx([3, -1, -1, -1])
    with pytest.raises(ConfigError, match="rewards >= 0"):
        group_advantages([1, -1], "maxrl")


@given(rewards, st.sampled_from(KINDS), st.data())
def test_masked_members_change_nothing(values, kind, data):
    at = data.draw(st.integers(0, len(values)))
    with_bad = [*values[:at], float("nan"), *values[at:]]
    alone, beside = group_advantages(values, kind), group_advantages(with_bad, kind)
    assert np.allclose(np.delete(beside, at), alone, rtol=1e-6) and beside[at] == 0
    assert np.isfinite(beside).all()


@given(rewards, st.sampled_from(KINDS))
def test_advantages_are_centred(values, kind):
    result = group_advantages(values, kind)
    assert abs(result.sum()) <= 1e-4 * max(1.0, np.abs(result).sum())


@given(st.lists(st.lists(st.floats(0, 9, width=32), min_size=4, max_size=4), min_size=1, max_size=5))
def test_many_groups_at_once_equal_one_by_one(groups):
    for kind in KINDS:
        batched = group_advantages(np.asarray(groups), kind)
        assert np.array_equal(batched, [group_advantages(g, kind) for g in groups])


def test_unknown_settings_are_refused():
    with pytest.raises(ConfigError, match="grpo, dr_grpo, rloo, maxrl"):
        group_advantages([1, 0], "gpro")
    with pytest.raises(ConfigError, match="ddof"):
        group_advantages([1, 0], ddof=2)
    with pytest.raises(ValueError, match="scalar"):
        group_advantages(np.float32(1))


@pytest.mark.parametrize(
    ("length", "expected"), [(80, 0), (81, -0.05), (90, -0.5), (100, -1), (101, -1), (0, 0)]
)
def test_soft_overlong_penalty(length, expected):
    assert soft_overlong_penalty(length, 100, 20) == pytest.approx(expected)


@pytest.mark.parametrize("buffer", [0, -1, 101])
def test_an_impossible_penalty_buffer_is_refused(buffer):
    with pytest.raises(ConfigError, match="buffer"):
        soft_overlong_penalty(10, 100, buffer)
