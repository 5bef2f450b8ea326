"""One (arm, seed) of a comparison, with the header of the record it comes from."""

from __future__ import annotations

from dataclasses import dataclass

from leaderboard.outline import EvalOutline, RolloutOutline
from leaderboard.records import ArmView
from leaderboard.schema import ArmRun, RunHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """`label` is the arm as the comparison calls it; two records may both have an A1."""

    label: str
    view: ArmView
    header: RunHeader

    @property
    def name(self) -> str:
        """As findings call it."""
        return f"{self.label}, seed {self.view.seed}"

    @property
    def run(self) -> ArmRun | None:
        """Its entry in run.json, if there is one."""
        key = (self.view.arm, self.view.seed)
        return next((run for run in self.header.runs if (run.arm, run.seed) == key), None)

    @property
    def rollouts(self) -> tuple[RolloutOutline, ...]:
        """Its trajectories, without content."""
        return self.view.rollouts  # pyright: ignore[reportReturnType] a comparison reads outlines

    @property
    def evals(self) -> tuple[EvalOutline, ...]:
        """Its evaluated items, without content."""
        return self.view.evals  # pyright: ignore[reportReturnType]
