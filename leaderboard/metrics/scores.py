"""What two arms of one seed scored, item by item: what accuracy parity is judged from."""

from __future__ import annotations

from collections.abc import Iterable

from leaderboard.records import ArmView


def last_scores(view: ArmView) -> dict[tuple[str, str, int], float]:
    """Reward by (tenant, environment, item) at each tenant's last evaluation; an error counts as wrong."""
    last: dict[str, int] = {}
    for line in view.evals:
        last[line.tenant] = max(last.get(line.tenant, 0), line.eval_id)
    return {
        (line.tenant, line.env_id, line.item_index): line.reward
        for line in view.evals
        if line.eval_id == last[line.tenant]
    }


def item_differences(a: ArmView, b: ArmView, tenant: str) -> list[float]:
    """The second arm's reward less the first's, item by item of one tenant."""
    first, second = last_scores(a), last_scores(b)
    shared = sorted(first.keys() & second.keys())
    return [second[key] - first[key] for key in shared if key[0] == tenant]


def differences(views: Iterable[ArmView], baseline: str, product: str) -> dict[tuple[int, str], list[float]]:
    """Product less baseline by (seed, tenant), item by item, of the seeds that both have."""
    by_arm = {(view.arm, view.seed): view for view in views}
    found: dict[tuple[int, str], list[float]] = {}
    for (arm, seed), view in by_arm.items():
        other = by_arm.get((product, seed))
        if arm == baseline and other is not None:
            for tenant in view.tenants:
                found[seed, tenant] = item_differences(view, other, tenant)
    return found
