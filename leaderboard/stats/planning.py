"""How many runs a difference needs before it is looked for."""

from __future__ import annotations

import math

from leaderboard.stats.parity import Parity
from leaderboard.stats.student import normal_quantile, t_quantile


def runs_needed(cv: float, ratio: float, *, confidence: float = 0.95, power: float = 0.8) -> int:
    """Runs per arm that show a time ratio in an unpaired comparison: 2 * ((z_a + z_b) * cv / ln ratio)^2, at least 2.

    Args:
      cv: coefficient of variation of the time of one arm's runs, e.g. 0.05.
      ratio: of times to be detected, not 1.

    At the defaults z_a + z_b = 2.80: cv 5 % and ratio 1.1 need 5, cv 15 % needs 39.
    """
    return max(2, math.ceil(2 * _squared(cv, ratio, confidence, power)))


def pairs_needed(
    cv: float, ratio: float, *, correlation: float, confidence: float = 0.95, power: float = 0.8
) -> int:
    """Pairs that show it when both arms of a pair share machine and session: the variance of a log ratio is

    2 * cv^2 * (1 - correlation), correlation being that of a pair's log times; at least 2.
    """
    if not 0 <= correlation < 1:
        raise ValueError(f"a correlation is in [0, 1), not {correlation}")
    return max(2, math.ceil(2 * (1 - correlation) * _squared(cv, ratio, confidence, power)))


def seeds_for_parity(
    found: Parity, margin: float, *, confidence: float = 0.95, power: float = 0.8
) -> int | None:
    """Paired seeds that show parity, if accuracy is equal: ((z_a + z_b) * s / margin)^2; None where seeds say nothing.

    s is the standard deviation of the seeds' differences, read back from the bound that was found; it is itself an
    estimate, so the number says how far off one is, not when to stop.
    """
    if found.unit != "seeds" or found.n < 2 or not found.low < found.difference:
        return None
    half = found.difference - found.low
    s = half * math.sqrt(found.n) / t_quantile(confidence, found.n - 1)
    z = normal_quantile(confidence) + normal_quantile(power)
    return max(found.n + 1, math.ceil((z * s / margin) ** 2))


def _squared(cv: float, ratio: float, confidence: float, power: float) -> float:
    if cv <= 0 or ratio <= 0 or ratio == 1:
        raise ValueError(f"cv {cv} and ratio {ratio} are above 0, and the ratio isn't 1")
    z = normal_quantile(0.5 + confidence / 2) + normal_quantile(power)
    return (z * cv / math.log(ratio)) ** 2
