from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunix_core.evaluation import mean_pass_at_k, pass_at_k, wilson


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [(4, 1, 1, 0.25), (4, 1, 2, 0.5), (4, 1, 4, 1.0), (10, 3, 5, 11 / 12), (8, 2, 4, 0.7857142857142857)],
)
def test_pass_at_k_draws_without_replacement(n, c, k, expected):
    # With replacement (4, 1, 4) and (8, 2, 4) would both be 1 - 0.75**4 = 0.683594.
    assert pass_at_k(n, c, k) == pytest.approx(expected, abs=1e-12)


def test_pass_at_k_of_a_data_set_is_the_mean_over_problems():
    assert mean_pass_at_k([(4, 1), (4, 4), (4, 0)], 2) == pytest.approx(0.5, abs=1e-12)


@given(st.integers(1, 8), st.data())
def test_pass_at_k_equals_counting_all_subsets(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    subsets = list(combinations([i < c for i in range(n)], k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_pass_at_k_stays_exact_for_many_samples():
    assert pass_at_k(100_000, 1, 1) == pytest.approx(1e-5, rel=1e-12)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 5), (4, 1, 0), (4, 5, 2), (4, -1, 2), (0, 0, 1)])
def test_impossible_pass_at_k_is_refused(n, c, k):
    with pytest.raises(ValueError, match="can't be"):
        pass_at_k(n, c, k)


def test_pass_at_k_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no problems"):
        mean_pass_at_k([], 1)


def test_wilson_by_hand():
    # n = 10, 5 right, z = 1.96: centre 0.5, half = 0.5 / (1 + z^2/10) * sqrt(...) = 0.2634.
    low, high = wilson(5, 10)
    assert (low, high) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 10)[0] == 0.0 and wilson(10, 10)[1] == 1.0


@given(st.integers(1, 500), st.data())
def test_wilson_holds_the_observed_rate(n, data):
    s = data.draw(st.integers(0, n))
    low, high = wilson(s, n)
    assert 0 <= low <= s / n <= high <= 1
    assert wilson(s, n, 0.99).low <= low and high <= wilson(s, n, 0.99).high


@pytest.mark.parametrize(("s", "n", "confidence"), [(-1, 3, 0.95), (4, 3, 0.95), (1, 3, 1.0), (1, 3, 0.0)])
def test_impossible_intervals_are_refused(s, n, confidence):
    with pytest.raises(ValueError):
        wilson(s, n, confidence)
