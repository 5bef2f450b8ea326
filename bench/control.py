"""The control A0: the asynchronous code path at staleness 0 must learn exactly what the synchronous baseline learns."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.fairness.side import Side
from leaderboard.metrics import learning
from leaderboard.stats.student import t_quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Samples of A0 and S1 that are the same in item, tokens and reward, over all seeds; and who learnt faster."""

    samples: int
    equal: int
    rewards_equal: int
    """Samples of the same item that earned the same reward."""
    faster: float
    """Mean accuracy of A0 along its scheduled evaluations, minus that of S1."""
    learns_faster: bool
    """Whether that is more than chance: one-sided 95 % over seeds, any difference with one seed."""

    @property
    def passed(self) -> bool:
        """Everything the same."""
        return self.equal == self.samples

    @property
    def doubt(self) -> str:
        """Why a claim about A1 stands on nothing; empty where the control passed."""
        if self.learns_faster:
            return f"the control A0 learns faster than S1 ({100 * self.faster:+.1f} points along the way)"
        if not self.passed:
            return f"the control A0 does not learn what S1 learns ({self.equal} of {self.samples} samples are equal)"
        return ""

    @property
    def sentence(self) -> str:
        """For a reader."""
        if not self.doubt:
            return f"control A0: all {self.samples} samples equal those of S1 in item, tokens and reward"
        return f"control: FAILED, {self.doubt}; {self.rewards_equal} of {self.samples} rewards are equal"


def control(pairs: Sequence[tuple[Side, Side]]) -> Control:
    """Compares A0 with S1, by seed: what each sample consumed, said and earned, and the curves of accuracy."""
    total = equal = rewards = 0
    gains: list[float] = []
    for baseline, other in pairs:
        first, second = _samples(baseline), _samples(other)
        keys = first.keys() | second.keys()
        total += len(keys)
        equal += sum(first.get(key) == second.get(key) for key in keys)
        rewards += sum(first[key][-1] == second[key][-1] for key in first.keys() & second.keys())
        gains.append(_area(other) - _area(baseline))
    mean = statistics.fmean(gains)
    n = len(gains)
    bound = t_quantile(0.95, n - 1) * statistics.stdev(gains) / n**0.5 if n > 1 else 0.0
    return Control(
        samples=total, equal=equal, rewards_equal=rewards, faster=mean, learns_faster=mean - bound > 0
    )


def _samples(side: Side) -> dict[tuple[str, int, int], tuple[Any, ...]]:
    return {
        (r.tenant, r.ordinal, r.sample_index): (
            r.item_uid,
            r.fate,
            tuple(turn.content for turn in r.turns),
            r.reward,
        )
        for r in side.rollouts
    }


def _area(side: Side) -> float:
    """Mean over tenants and scheduled evaluations, those before training left out."""
    scores: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for tenant, found in learning.accuracy(side.view).items():
        for point in found["curve"]:
            if point["eval_id"]:
                scores[tenant] += point["accuracy"]
                counts[tenant] += 1
    return statistics.fmean(scores[t] / counts[t] for t in counts) if counts else 0.0
