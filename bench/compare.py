"""`bench compare`: two arms of one run, recomputed from the raw lines. Unequal work is refused by name."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.errors import RejectedError, UsageError
from bench.table import mean_of
from leaderboard import metrics
from leaderboard.metrics.pairing import speedup
from leaderboard.records import ArmView, RunRecord
from leaderboard.stats import Parity, parity

MARGIN = 0.02
"""Accuracy the product may lose and still count as equal: 2 points, set before any result was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The verdict on one pair of arms."""

    baseline: str
    product: str
    seeds: int
    speedup: float
    low: float | None
    high: float | None
    time_reduction: float
    utilization: dict[str, dict[str, float | None]]
    """By arm: busy, useful."""
    time_s: dict[str, float | None]
    accuracy: dict[str, dict[str, float | None]]
    """By tenant: both arms' accuracy after training."""
    parity: Parity
    parity_by_tenant: dict[str, Parity]
    """What `parity`, over all tenants, may hide: one tenant's loss behind another's gain."""
    margin: float
    simulated_latency: str | None
    device_class: str
    limited: bool

    @property
    def verdict(self) -> str:
        """One sentence; claims a speed-up only where interval and parity allow it."""
        pair = f"{self.product} against {self.baseline}"
        times = f"{self.speedup:.2f}× ({100 * self.time_reduction:+.0f} % time saved)"
        if self.low is None or self.high is None:
            claim = f"{pair}: {times} on one seed, so without an interval: an observation, not a claim"
        elif self.low <= 1.0 <= self.high:
            interval = f"95 % interval {self.low:.2f} to {self.high:.2f}"
            claim = f"{pair}: no detectable difference in time ({times}, {interval})"
        else:
            claim = (
                f"{pair}: {times}, 95 % interval {self.low:.2f} to {self.high:.2f}, {self.seeds} paired seeds"
            )
        p = self.parity
        return (
            f"{claim}. Accuracy parity: {p.verdict} (difference {100 * p.difference:+.1f} points, one-sided 95 % "
            f"bound {100 * p.low:+.1f}, margin -{100 * self.margin:.0f}, n = {p.n} {p.unit})."
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON; `parity` is the verdict's word, details beside it."""
        value = asdict(self)
        return {
            **value,
            "parity": self.parity.verdict,
            "parity_details": value["parity"],
            "verdict": self.verdict,
        }

    def text(self) -> str:
        """The verdict and the figures behind it."""
        lines = [self.verdict, ""]
        for arm in (self.baseline, self.product):
            use = self.utilization[arm]
            lines.append(
                f"{arm}: time {self.time_s[arm]:.1f} s, utilization busy {use['busy']:.2f}, useful {use['useful']:.2f}"
            )
        for tenant, by_arm in self.accuracy.items():
            shown = ", ".join(
                f"{arm} {'–' if v is None else f'{100 * v:.1f} %'}" for arm, v in by_arm.items()
            )
            own = self.parity_by_tenant.get(tenant)
            bound = f"; parity {own.verdict}, bound {100 * own.low:+.1f} points" if own else ""
            lines.append(f"accuracy {tenant}: {shown}{bound}")
        if self.simulated_latency:
            lines.append(f"latency: SIMULATED ({self.simulated_latency})")
        if self.device_class == "cpu-sim":
            lines.append("device class cpu-sim: ratios do not transfer to accelerators")
        if self.limited:
            lines.append("LIMITED run (--limit): not comparable with full ones")
        return "\n".join(lines)


def compare(
    path: Path, *, baseline: str | None = None, product: str | None = None, margin: float = MARGIN
) -> Comparison:
    """Compares two arms of a run directory.

    Raises RejectedError when the run did not end well or the arms did unequal work, naming the difference;
    UsageError when the run lacks an arm.
    """
    if not (path / "run.json").is_file():
        raise UsageError(f"{path} holds no run.json.", "`bench run --out DIR` writes a run directory")
    record = RunRecord.open(path)
    header = record.header
    if header.status != "success":
        raise RejectedError(f"run {header.run_id} ended with status {header.status}: {header.status_reason}")
    arms = [a.arm for a in header.arms]
    base = baseline or ("S1" if "S1" in arms else arms[0])
    new = product or ("A1" if "A1" in arms and base != "A1" else next((a for a in arms if a != base), base))
    for name in (base, new):
        if name not in arms:
            raise UsageError(f"arm {name!r} is not in this run; it has {', '.join(arms)}")
    if base == new and len(arms) > 1:
        raise UsageError(f"{base} would be compared with itself", f"the run has {', '.join(arms)}")
    if base == new:
        raise UsageError(f"the run has one arm, {base}: nothing to compare", "run it with --arms S1,A1")
    views = {(v.arm, v.seed): v for v in record.views}
    for name, seed in ((name, s) for s in header.seeds for name in (base, new)):
        view = views.get((name, seed))
        if view is None or not view.updates or not view.evals:
            raise RejectedError(
                f"{name}, seed {seed}: lines of its events, updates or evals are missing",
                f"'bench verify {path}' says what else is wrong",
            )
    pairs = [(views[base, s], views[new, s]) for s in header.seeds]
    for a, b in pairs:
        check_equal_work(a, b, header.config.get("learning_rate"))
    for view in (view for pair in pairs for view in pair):
        check_ended_well(view)
        check_sampling_caps(view, header.sampling)
    figures = {
        name: [metrics.compute(v) for v in (views[name, s] for s in header.seeds)] for name in (base, new)
    }
    times = {
        name: dict(zip(header.seeds, (f["t_work"] for f in fs), strict=True)) for name, fs in figures.items()
    }
    ratio = speedup(times[base], times[new])
    tenants = list(figures[base][0]["accuracy"])

    def after(name: str, tenant: str) -> float | None:
        return mean_of(
            f["accuracy"][tenant]["after"]["accuracy"] for f in figures[name] if tenant in f["accuracy"]
        )

    return Comparison(
        baseline=base,
        product=new,
        seeds=len(header.seeds),
        speedup=ratio["speedup"],
        low=ratio["low"],
        high=ratio["high"],
        time_reduction=ratio["time_reduction"],
        utilization={
            name: {
                "busy": mean_of(f["util_busy"] for f in fs),
                "useful": mean_of(f["util_useful"] for f in fs),
            }
            for name, fs in figures.items()
        },
        time_s={name: mean_of(by_seed.values()) for name, by_seed in times.items()},
        accuracy={t: {name: after(name, t) for name in (base, new)} for t in tenants},
        parity=parity({b.seed: item_differences(a, b) for a, b in pairs}, margin),
        parity_by_tenant={
            tenant: parity({b.seed: item_differences(a, b, tenant) for a, b in pairs}, margin)
            for tenant in tenants
        },
        margin=margin,
        simulated_latency=header.latency.profile if header.latency.simulated else None,
        device_class=header.device_class,
        limited=header.limit_applied,
    )


def last_scores(view: ArmView) -> dict[tuple[str, str, int], float]:
    """Reward by (tenant, environment, item) at each tenant's last evaluation; an error counts as wrong."""
    last = {}
    for line in view.evals:
        last[line.tenant] = max(last.get(line.tenant, 0), line.eval_id)
    return {
        (line.tenant, line.env_id, line.item_index): line.reward
        for line in view.evals
        if line.eval_id == last[line.tenant]
    }


def item_differences(a: ArmView, b: ArmView, tenant: str | None = None) -> list[float]:
    """Product minus baseline, item by item; of one tenant where it is named."""
    first, second = last_scores(a), last_scores(b)
    shared = sorted(first.keys() & second.keys())
    return [second[key] - first[key] for key in shared if tenant in (None, key[0])]


def check_ended_well(view: ArmView) -> None:
    """Raises RejectedError unless the arm's own events end with success, whatever run.json says."""
    ends = [str(event.value.get("status")) for event in view.events if event.key == "run_stop"]
    if ends != ["success"]:
        found = ", ".join(ends) or "no run_stop"
        raise RejectedError(f"{view.arm}, seed {view.seed}: its events end with {found}, not success")


def check_sampling_caps(view: ArmView, sampling: Mapping[Any, Mapping[str, Any]]) -> None:
    """Raises RejectedError where an arm sampled a longer turn than the run's one cap allows."""
    for kind, lines in (("train", view.rollouts), ("eval", view.evals)):
        cap = sampling.get(kind, {}).get("max_new_tokens")
        turns = (turn for line in lines for turn in line.turns if turn.role == "policy")
        longest = max((len(turn.token_ids) for turn in turns), default=0)
        if isinstance(cap, int) and longest > cap:
            raise RejectedError(
                f"unequal work, seed {view.seed}: {view.arm} sampled a turn of {longest} tokens ({kind}), "
                f"the cap is {cap}"
            )


def check_equal_work(a: ArmView, b: ArmView, learning_rate: float | None) -> None:
    """Raises RejectedError naming the first thing in which two arms differ beside the timetable."""
    for what, of in EQUAL.items():
        first, second = of(a), of(b)
        if first != second:
            raise RejectedError(
                f"unequal work, seed {a.seed}: {what} differ between {a.arm} and {b.arm}: {_difference(first, second)}"
            )
    steps = [u for v in (a, b) for u in v.updates if u.skipped is None]
    if learning_rate and any(not u.learning_rate for u in steps):
        raise RejectedError(f"unequal work, seed {a.seed}: an update was taken with learning rate 0")


def _consumed(view: ArmView) -> Counter[Any]:
    return Counter(
        (r.tenant, r.ordinal, r.item_uid) for r in view.rollouts if r.fate in ("consumed", "errored")
    )


def _rates(view: ArmView) -> dict[str, list[float]]:
    """Step sizes by tenant. A tenant without signal takes no step; what it would have used says nothing."""
    rates: dict[str, set[float]] = defaultdict(set)
    for u in view.updates:
        if u.skipped is None and u.learning_rate is not None:
            rates[u.tenant].add(u.learning_rate)
    return {tenant: sorted(found) for tenant, found in sorted(rates.items())}


EQUAL: dict[str, Callable[[ArmView], Any]] = {
    "updates per tenant": lambda v: Counter(u.tenant for u in v.updates),
    "consumed items": _consumed,
    "learning rates": _rates,
    "evaluated items": lambda v: Counter((e.tenant, e.eval_id, e.item_uid) for e in v.evals),
    "devices": lambda v: {s.device for s in v.spans},
}
"""What must be the same in two arms; read from the lines, not from flags."""


def _difference(first: Any, second: Any) -> str:
    if isinstance(first, Counter):
        more, less = first - second, second - first
        return (
            f"{sum(more.values())} only in the first, {sum(less.values())} only in the second, e.g. "
            + str(next(_some(more, less), ""))
        )
    return f"{first} and {second}"


def _some(*counters: Iterable[Any]) -> Any:
    return (key for counter in counters for key in counter)
