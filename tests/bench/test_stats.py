"""Statistics against printed tables and numbers worked by hand."""

from __future__ import annotations

import math

import pytest

from bench.stats import (
    Verdict,
    family,
    holm,
    incomplete_beta,
    noninferiority,
    paired_log_ratio,
    t_cdf,
    t_quantile,
)


@pytest.mark.parametrize(
    ("p", "df", "printed"),
    [(0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 10, 2.228), (0.95, 5, 2.015), (0.975, 1e6, 1.960)],
)
def test_t_quantiles_are_those_of_the_tables(p: float, df: float, printed: float) -> None:
    assert t_quantile(p, df) == pytest.approx(printed, abs=6e-4)
    assert t_quantile(1 - p, df) == pytest.approx(-printed, abs=6e-4)


def test_t_with_one_degree_is_cauchy() -> None:
    for x in (-30.0, -1.0, 0.0, 0.3, 5.0):
        assert t_cdf(x, 1) == pytest.approx(0.5 + math.atan(x) / math.pi, abs=1e-12)


def test_incomplete_beta_of_whole_numbers_is_binomial() -> None:
    # I_x(2, 3) = P(Binomial(4, x) >= 2)
    x = 0.3
    assert incomplete_beta(2, 3, x) == pytest.approx(1 - 0.7**4 - 4 * x * 0.7**3, abs=1e-14)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_no_quantile_at_the_ends(p: float) -> None:
    with pytest.raises(ValueError, match="not within"):
        t_quantile(p, 3)


def test_ratio_pairs_by_seed_and_needs_two_for_an_interval() -> None:
    one = paired_log_ratio({0: 4.0}, {0: 2.0, 1: 9.0})
    assert (one.mean, one.low, one.high, one.n) == (pytest.approx(2.0), None, None, 1)
    assert not one.detectable
    # logs of 2 and 8: mean log 4, standard error log 2, t = 12.706
    two = paired_log_ratio({0: 4.0, 1: 8.0}, {0: 2.0, 1: 1.0})
    assert two.mean == pytest.approx(4.0)
    assert two.low == pytest.approx(4.0 * 2**-12.706)
    assert not two.detectable
    assert paired_log_ratio({0: 4.0, 1: 4.1}, {0: 2.0, 1: 2.0}).detectable
    assert paired_log_ratio({0: 4.0}, {1: 2.0}).mean is None


def test_equal_scores_pass_only_on_enough_items() -> None:
    few = noninferiority({"s": [1.0] * 20}, {"s": [1.0] * 20}, 0.02)
    assert (few.verdict, few.unit, few.difference) == (Verdict.UNDERPOWERED, "item", 0.0)
    # no difference among 20: variance 1 / 22, so the error is 1 / 22; t(20, 0.95) = 1.725
    assert few.bound == pytest.approx(-1.7247 / 22, abs=1e-5)
    many = noninferiority({"s": [1.0] * 200}, {"s": [1.0] * 200}, 0.02)
    assert many.verdict is Verdict.PASS


def test_a_clear_loss_fails_and_a_clear_gain_passes() -> None:
    good, bad = {"s": [1.0] * 50}, {"s": [0.0] * 25 + [1.0] * 25}
    assert noninferiority(good, bad, 0.02).verdict is Verdict.FAIL
    assert noninferiority(bad, good, 0.02).verdict is Verdict.PASS


def test_clusters_that_disagree_widen_the_bound() -> None:
    a = {k: [0.5] * 100 for k in range(3)}
    b = {0: [0.3] * 100, 1: [0.5] * 100, 2: [0.7] * 100}
    result = noninferiority(a, b, 0.02)
    # cluster means -0.2, 0, 0.2 of equal size: error 0.2 / sqrt(3); t(2, 0.95) = 2.920
    assert (result.unit, result.clusters, result.verdict) == ("cluster", 3, Verdict.UNDERPOWERED)
    assert result.bound == pytest.approx(-2.920 * 0.2 / math.sqrt(3), abs=1e-4)


def test_sides_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="different clusters"):
        noninferiority({"s": [1.0]}, {"t": [1.0]}, 0.02)
    with pytest.raises(ValueError, match="shorter"):
        noninferiority({"s": [1.0, 1.0]}, {"s": [1.0]}, 0.02)
    with pytest.raises(ValueError, match="no items"):
        noninferiority({}, {}, 0.02)
    with pytest.raises(ValueError, match="above 0"):
        noninferiority({"s": [1.0]}, {"s": [1.0]}, 0.0)


def test_holm_by_hand() -> None:
    # sorted 0.01 * 3, 0.02 * 2, 0.2 * 1, made monotone
    assert holm([0.02, 0.2, 0.01]) == pytest.approx([0.04, 0.2, 0.03])
    assert holm([0.04, 0.03]) == pytest.approx([0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_one_of_many_tenants_must_lose_more_clearly_to_fail() -> None:
    alone = noninferiority({"s": [1.0] * 40}, {"s": [1.0] * 35 + [0.0] * 5}, 0.02)
    even = noninferiority({"s": [1.0] * 40}, {"s": [1.0] * 40}, 0.02)
    assert alone.verdict is Verdict.FAIL
    together = family({"x": alone} | {f"t{k}": even for k in range(9)})
    assert together["x"].verdict is Verdict.UNDERPOWERED
    assert together["x"].bound == alone.bound
