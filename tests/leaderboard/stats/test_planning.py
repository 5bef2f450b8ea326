from __future__ import annotations

import numpy as np
import pytest

from leaderboard.stats import Parity, paired_ratio, pairs_needed, parity, runs_needed, seeds_for_parity


def test_the_documented_examples() -> None:
    # 2 * (2.80 * 0.05 / ln 1.1)^2 = 4.3, and 38.8 at three times the variation
    assert runs_needed(0.05, 1.1) == 5
    assert runs_needed(0.15, 1.1) == 39
    assert runs_needed(0.15, 1 / 1.1) == 39
    assert runs_needed(0.01, 2.0) == 2


def test_pairing_saves_what_the_arms_share() -> None:
    assert pairs_needed(0.15, 1.1, correlation=0.0) == 39
    # 0.15^2 / (0.15^2 + 0.05^2) = 0.9 of the variance is the machine's
    assert pairs_needed(0.158, 1.1, correlation=0.9) == 5


def test_the_pairs_asked_for_have_the_power_promised() -> None:
    """At a cv of 30 % the normal quantiles of the formula are good; with two or three pairs Student's ask for more."""
    rng = np.random.default_rng(0)
    n = pairs_needed(0.3, 1.2, correlation=0.5)
    detected = 0
    for _ in range(1000):
        logs = np.log(1.2) + rng.normal(0, 0.3, n)
        found = paired_ratio(dict(enumerate(np.exp(logs))), dict.fromkeys(range(n), 1.0))
        detected += found is not None and found.low is not None and found.low > 1
    # 3 standard errors: 3 * sqrt(0.8 * 0.2 / 1000) = 0.038
    assert detected / 1000 == pytest.approx(0.8, abs=0.04)


@pytest.mark.parametrize(("cv", "ratio"), [(0.0, 1.1), (0.1, 1.0), (0.1, 0.0)])
def test_no_plan_for_no_difference(cv: float, ratio: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        runs_needed(cv, ratio)


def test_as_many_seeds_as_planned_pass_parity_in_four_cases_of_five() -> None:
    """Seeds whose accuracies differ by chance alone, standard deviation 3 points, margin 2."""
    rng = np.random.default_rng(3)

    def drawn(seeds: int) -> dict[int, list[float]]:
        return {s: [float(rng.normal(0, 0.03))] * 400 for s in range(seeds)}

    pilot = Parity(
        verdict="underpowered", difference=0.0, low=-0.03 * 2.131847 / 5**0.5, high=0, n=5, unit="seeds"
    )
    seeds = seeds_for_parity(pilot, 0.02)
    assert seeds == 14
    passed = sum(parity(drawn(seeds), 0.02).verdict == "pass" for _ in range(400)) / 400
    assert 0.72 <= passed <= 0.88
    one_seed = Parity(verdict="underpowered", difference=0.0, low=-0.1, high=0.1, n=64, unit="items")
    assert seeds_for_parity(one_seed, 0.02) is None
