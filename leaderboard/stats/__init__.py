"""Statistics of comparisons: pure functions of numbers, seeded where they draw, no scipy; for board and bench alike.

`student` quantiles, `ratios` of paired times, `parity` of accuracy, `aggregate`
views of a suite, `crossing` of a target, `planning` of a sample. numpy is loaded by what resamples, when called.
"""

from __future__ import annotations

from leaderboard.stats.accuracy import Interval, clustered_accuracy, wilson
from leaderboard.stats.aggregate import (
    ProfileLine,
    iqm,
    iqm_interval,
    performance_profile,
    probability_of_improvement,
    profile_score,
    stratified_bootstrap,
)
from leaderboard.stats.crossing import Crossing, EvalPoint, crossing, isotonic
from leaderboard.stats.parity import MARGIN, Parity, parity
from leaderboard.stats.planning import pairs_needed, runs_needed, seeds_for_parity
from leaderboard.stats.ratios import (
    Ratio,
    SuiteRatio,
    geometric_mean,
    holm,
    paired_ratio,
    suite_ratio,
)
from leaderboard.stats.student import normal_quantile, t_cdf, t_quantile

__all__ = [
    "MARGIN",
    "Crossing",
    "EvalPoint",
    "Interval",
    "Parity",
    "ProfileLine",
    "Ratio",
    "SuiteRatio",
    "clustered_accuracy",
    "crossing",
    "geometric_mean",
    "holm",
    "iqm",
    "iqm_interval",
    "isotonic",
    "normal_quantile",
    "paired_ratio",
    "pairs_needed",
    "parity",
    "performance_profile",
    "probability_of_improvement",
    "profile_score",
    "runs_needed",
    "seeds_for_parity",
    "stratified_bootstrap",
    "suite_ratio",
    "t_cdf",
    "t_quantile",
    "wilson",
]
