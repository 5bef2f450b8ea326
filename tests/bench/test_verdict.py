from __future__ import annotations

import pytest

from bench.verdict import edge, finding, floor_sentence, sentence
from leaderboard.stats import Parity, Ratio


def parity(verdict: str) -> Parity:
    return Parity(verdict=verdict, difference=0.0, low=-0.01, high=0.01, n=5, unit="seeds")  # type: ignore[arg-type]


def ratio(speedup: float, low: float | None, high: float | None, n: int = 5) -> Ratio:
    return Ratio(ratio=speedup, low=low, high=high, n=n, p_value=None)


QUIET, NOISY = ratio(1.0, 0.97, 1.03), ratio(0.95, 0.60, 1.50)


@pytest.mark.parametrize(
    ("found", "floor", "verdict", "doubts", "said"),
    [
        (ratio(2.0, 1.8, 2.2), QUIET, "pass", (), "faster"),
        (ratio(2.0, 1.8, 2.2), None, "pass", (), "faster"),
        (ratio(0.5, 0.4, 0.6), QUIET, "pass", (), "slower"),
        (ratio(1.1, 0.9, 1.3), QUIET, "pass", (), "no difference"),
        # excludes 1, but the same arm twice differs as much: 1 / 0.60 = 1.67
        (ratio(1.4, 1.2, 1.6), NOISY, "pass", (), "no difference"),
        (ratio(1.02, 1.01, 1.03), QUIET, "pass", (), "no difference"),
        (ratio(2.0, 1.8, 2.2), QUIET, "underpowered", (), "withheld"),
        (ratio(2.0, 1.8, 2.2), QUIET, "fail", (), "withheld"),
        (ratio(2.0, 1.8, 2.2), QUIET, "pass", ("the control failed",), "withheld"),
        (ratio(2.0, None, None, 1), None, "pass", (), "observation"),
    ],
)
def test_what_may_be_said(
    found: Ratio, floor: Ratio | None, verdict: str, doubts: tuple[str, ...], said: str
) -> None:
    assert finding(found, floor, parity(verdict), doubts) == said


def test_the_noise_floor_counts_whichever_way_round_the_pair_is_read() -> None:
    assert edge(NOISY) == pytest.approx(1 / 0.60)
    assert edge(ratio(1.0, 0.9, 1.3)) == pytest.approx(1.3)


def test_a_ratio_that_straddles_the_noise_is_told_apart_by_its_whole_interval_only() -> None:
    assert finding(ratio(1.8, 1.5, 2.1), NOISY, None, ()) == "no difference"
    assert finding(ratio(2.0, 1.7, 2.3), NOISY, None, ()) == "faster"


def test_a_sentence_says_what_holds_a_claim_back() -> None:
    said = sentence("A1 against S1", ratio(2.0, 1.8, 2.2, 3), QUIET, parity("underpowered"), margin=0.02)
    assert "measured, not claimed (accuracy parity: underpowered)" in said
    assert "A/A 0.97 to 1.03" in said
    assert "preliminary, fewer than 5 seeds" in said


def test_a_machine_that_favours_a_place_in_the_order_is_named() -> None:
    assert "no difference, as it should be" in floor_sentence(QUIET)
    assert "NOT 1" in floor_sentence(ratio(1.3, 1.2, 1.4))
    assert "unknown" in floor_sentence(None)


def test_an_underpowered_parity_says_how_many_seeds_would_do() -> None:
    found = Parity(verdict="underpowered", difference=0.0, low=-0.04, high=0.04, n=5, unit="seeds")
    said = sentence("A1 against S1", ratio(2.0, 1.8, 2.2), QUIET, found, margin=0.02)
    assert "if accuracy is equal, about 28 seeds show it in four cases of five" in said
    few = Parity(verdict="underpowered", difference=0.0, low=-0.04, high=0.04, n=64, unit="items")
    assert "more seeds would tell" in sentence("A1", ratio(2.0, None, None, 1), None, few, margin=0.02)
    assert (
        "seeds"
        not in sentence("A1", ratio(2.0, 1.8, 2.2), None, parity("pass"), margin=0.02).split("n = 5 seeds")[1]
    )


def test_a_slower_arm_takes_more_time() -> None:
    assert "0.50× (100 % more time)" in sentence("S0", ratio(0.5, 0.4, 0.6), None, None, margin=0.02)
