"""Time to target of a pair of arms: how much sooner each tenant's accuracy was where it should be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bench.fairness.side import Side
from leaderboard.metrics import across
from leaderboard.schema import RunHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLine:
    """The product's speed-up on the way to one tenant's target; times are interval-censored."""

    target: float
    fixed: bool
    """Before the run; else it is made of where the baseline ended."""
    speedup: float | None
    """None where a run never held the target."""
    low: float | None
    high: float | None
    n: int
    lost: int
    """Seeds in which the product never held it."""
    won: int
    """Seeds in which the baseline alone never did."""
    censored: int
    """Runs that had passed at their first evaluation."""

    @property
    def sentence(self) -> str:
        """For a reader, after the tenant's name."""
        origin = "fixed beforehand" if self.fixed else "where the baseline ended, less 2 points"
        what = f"{100 * self.target:.0f} % ({origin})"
        if self.speedup is None:
            of = f"of {self.n} seed" + "s" * (self.n != 1)
            who = [f"the product in {self.lost}"] * (self.lost > 0)
            who += [f"the baseline{' alone' if self.lost else ''} in {self.won}"] * (self.won > 0)
            said = f"no ratio, not held by {' and by '.join(who)} {of}"
        elif self.low is None or self.high is None:
            said = f"{self.speedup:.2f}× sooner on one seed"
        else:
            said = f"{self.speedup:.2f}× sooner, 95 % interval {self.low:.2f} to {self.high:.2f}, {self.n} paired seeds"
        return f"{what}: {said}" + (f"; {self.censored} runs passed at once" if self.censored else "")


def target_lines(
    header: RunHeader,
    base: str,
    new: str,
    figures: Mapping[str, Mapping[int, dict[str, Any]]],
    sides: Mapping[tuple[str, int], Side],
) -> dict[str, TargetLine]:
    """By tenant, of those with a target; `figures` by arm and seed, of all arms: the baseline's make the target."""
    runs = [
        # two records may call their arms alike; labels tell them apart
        (replace(sides[arm, seed].view, arm=arm), own)
        for arm, by_seed in figures.items()
        for seed, own in by_seed.items()
    ]
    aims = across.aims_of(header, runs)
    fixed = {t.tenant for t in header.tenants if t.target is not None}
    timed = [(view, {"t_target": across.t_target(own, aims, len(view.devices))}) for view, own in runs]
    found = across.reached(timed, [new], base).get(new, {})
    return {
        tenant: TargetLine(target=aims[tenant], fixed=tenant in fixed, **line)
        for tenant, line in found.items()
    }
