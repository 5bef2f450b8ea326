"""`bench reproduce` (tier T3): the same run again, with seeds nobody chose; is it as fast as the record says?

The published claim is a ratio of times with its interval. A run of one's own gives another ratio; it reproduces the
claim where it lies in that interval. One that lies outside refutes it only where the difference is more than the noise
of both.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from bench.compare import Comparison
from leaderboard.stats import Ratio
from leaderboard.stats.student import t_quantile

Verdict = Literal["reproduced", "undecided", "not reproduced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A published ratio beside one's own."""

    published: Ratio
    own: Ratio
    change: float
    """Own ratio over the published one."""
    low: float | None
    """Of its 95 % interval, by Welch's t on the logarithms; None where one of them has no interval."""
    high: float | None
    verdict: Verdict

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @property
    def sentence(self) -> str:
        """For a reader."""
        interval = "" if self.low is None else f", 95 % interval {self.low:.2f} to {self.high:.2f}"
        said = {
            "reproduced": "within the published interval",
            "undecided": "outside the published interval, by no more than the noise of both: more seeds would tell",
            "not reproduced": "outside the published interval, and by more than the noise of both",
        }[self.verdict]
        return (
            f"{self.verdict}: {_shown(self.own)} here, published {_shown(self.published)}; {said} "
            f"(own / published {self.change:.2f}{interval})"
        )


def judge(published: Ratio, own: Ratio) -> Reproduction:
    """Holds one's own ratio to the published interval.

    Raises ValueError for a published ratio without an interval, or one's own that is no positive number.
    """
    if published.low is None or published.high is None:
        raise ValueError(
            "the published ratio has no interval: one seed claims nothing that could be reproduced"
        )
    if not 0 < own.ratio < math.inf:
        raise ValueError("an arm never came to its end: there is no ratio")
    change = math.log(own.ratio / published.ratio)
    low = high = None
    errors = [(_error(ratio), ratio.n) for ratio in (published, own)]
    if all(error is not None for error, _ in errors):
        variances = [(error**2, n) for error, n in errors if error is not None]
        total = sum(variance for variance, _ in variances)
        # Welch-Satterthwaite degrees of freedom (B. L. Welch, Biometrika 34, 1947)
        df = total**2 / sum(v**2 / (n - 1) for v, n in variances) if total else 1.0
        half = t_quantile(0.975, df) * math.sqrt(total)
        low, high = math.exp(change - half), math.exp(change + half)
    verdict: Verdict = "not reproduced"
    if published.low <= own.ratio <= published.high:
        verdict = "reproduced"
    elif low is None or high is None or low <= 1.0 <= high:
        verdict = "undecided"
    return Reproduction(
        published=published, own=own, change=math.exp(change), low=low, high=high, verdict=verdict
    )


def accuracies(published: Comparison, own: Comparison) -> dict[str, dict[str, float | None]]:
    """By tenant: the product's accuracy after training, as published and here."""
    return {
        tenant: {
            "published": by_arm.get(published.product),
            "own": own.accuracy.get(tenant, {}).get(own.product),
        }
        for tenant, by_arm in published.accuracy.items()
    }


def _error(ratio: Ratio) -> float | None:
    """Standard error of the mean log ratio."""
    width = ratio.width
    return None if width is None else width / 2 / t_quantile(0.975, ratio.n - 1)


def _shown(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.ratio:.2f}× (one seed)"
    return f"{ratio.ratio:.2f}× [{ratio.low:.2f}, {ratio.high:.2f}], {ratio.n} seeds"
