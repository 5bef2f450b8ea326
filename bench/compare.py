"""`bench compare`: two arms of one run, recomputed from the raw lines. Unequal work is refused by name."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.errors import RejectedError, UsageError
from bench.table import mean_of
from bench.verdict import Finding, finding, floor_sentence, sentence, shown
from leaderboard import metrics
from leaderboard.records import ArmView, RunRecord
from leaderboard.schema import RunHeader
from leaderboard.stats import Parity, Ratio, paired_ratio, parity

MARGIN = 0.02
"""Accuracy the product may lose and still count as equal: 2 points, set before any result was seen."""
QUESTIONS = {
    "S0": "sharing one model, T(S1)/T(S0)",
    "A0": "the control, T(S1)/T(A0)",
    "A1": "asynchrony, T(S1)/T(A1)",
}
"""What each arm's ratio to S1 answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmLine:
    """One arm of the record beside the baseline; means over seeds."""

    arm: str
    ratio: Ratio | None
    """None for the baseline itself, and for an arm without a paired seed."""
    time_s: float | None
    busy: float | None
    useful: float | None
    says: str
    """What the ratio answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The verdict on one pair of arms, and a line on every other arm of the record."""

    baseline: str
    product: str
    seeds: int
    ratio: Ratio
    floor: Ratio | None
    """The baseline against its own repeat; None where the record has no A/A pair."""
    lines: tuple[ArmLine, ...]
    doubts: tuple[str, ...]
    """Why a difference that was measured is not claimed, parity left aside."""
    accuracy: dict[str, dict[str, float | None]]
    """By tenant: every arm's accuracy after training."""
    parity: Parity
    parity_by_tenant: dict[str, Parity]
    """What `parity`, over all tenants, may hide: one tenant's loss behind another's gain."""
    margin: float
    suite: str | None
    simulated_latency: str | None
    device_class: str
    limited: bool

    @property
    def speedup(self) -> float:
        """Time of the baseline over time of the product."""
        return self.ratio.ratio

    @property
    def low(self) -> float | None:
        """Of the speed-up's 95 % interval; None with one seed."""
        return self.ratio.low

    @property
    def high(self) -> float | None:
        """As `low`."""
        return self.ratio.high

    @property
    def time_reduction(self) -> float:
        """Share of the baseline's time that is saved."""
        return self.ratio.time_reduction

    @property
    def time_s(self) -> dict[str, float | None]:
        """By arm, mean over seeds."""
        return {line.arm: line.time_s for line in self.lines}

    @property
    def utilization(self) -> dict[str, dict[str, float | None]]:
        """By arm: busy and useful share of the window, means over seeds."""
        return {line.arm: {"busy": line.busy, "useful": line.useful} for line in self.lines}

    @property
    def finding(self) -> Finding:
        """What the figures allow to say, as a word."""
        return finding(self.ratio, self.floor, self.parity, self.doubts)

    @property
    def verdict(self) -> str:
        """One sentence; claims a speed-up only where interval, noise floor and parity allow it."""
        pair = f"{self.product} against {self.baseline}"
        return sentence(pair, self.ratio, self.floor, self.parity, margin=self.margin, doubts=self.doubts)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON; `parity` is the verdict's word, details beside it."""
        value = asdict(self)
        floor = value.pop("floor")
        return {
            **value,
            "speedup": self.speedup,
            "low": self.low,
            "high": self.high,
            "time_reduction": self.time_reduction,
            "utilization": self.utilization,
            "time_s": self.time_s,
            "parity": self.parity.verdict,
            "parity_details": value["parity"],
            "finding": self.finding,
            "verdict": self.verdict,
            "noise_floor": floor
            and {"speedup": floor["ratio"], **{k: floor[k] for k in ("low", "high", "n")}},
            "noise_floor_sentence": floor_sentence(self.floor),
        }

    def text(self) -> str:
        """The verdict and the figures behind it."""
        lines = [self.verdict, floor_sentence(self.floor), ""]
        for line in self.lines:
            lines.append(
                f"{line.arm}: time {line.time_s:.1f} s, utilization busy {line.busy:.2f}, useful {line.useful:.2f}"
                + (f"; {line.says}: {shown(line.ratio)}" if line.ratio is not None else "")
            )
        for tenant, by_arm in self.accuracy.items():
            scores = ", ".join(
                f"{arm} {'–' if v is None else f'{100 * v:.1f} %'}" for arm, v in by_arm.items()
            )
            own = self.parity_by_tenant.get(tenant)
            bound = f"; parity {own.verdict}, bound {100 * own.low:+.1f} points" if own else ""
            lines.append(f"accuracy {tenant}: {scores}{bound}")
        if self.suite:
            lines.append(f"suite: {self.suite}")
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
    """Compares the arms of a run directory.

    Raises RejectedError when the run did not end well or the arms did unequal work, naming the difference;
    UsageError when the run lacks an arm.
    """
    if not (path / "run.json").is_file():
        raise UsageError(f"{path} holds no run.json.", "`bench run --out DIR` writes a run directory")
    record = RunRecord.open(path)
    header = record.header
    if header.status != "success":
        raise RejectedError(f"run {header.run_id} ended with status {header.status}: {header.status_reason}")
    base, new = chosen(header, baseline, product)
    views = {(v.arm, v.seed): v for v in record.views}
    for arm in header.arms:
        for seed in header.seeds:
            view = views.get((arm.arm, seed))
            if view is None or not view.updates or not view.evals:
                raise RejectedError(
                    f"{arm.arm}, seed {seed}: lines of its events, updates or evals are missing",
                    f"'bench verify {path}' says what else is wrong",
                )
    for name in (arm.arm for arm in header.arms if arm.arm != base):
        for seed in header.seeds:
            check_equal_work(views[base, seed], views[name, seed], header.config.get("learning_rate"))
    for view in views.values():
        check_ended_well(view)
        check_sampling_caps(view, header.sampling)
    figures = {
        arm.arm: {seed: metrics.compute(views[arm.arm, seed]) for seed in header.seeds} for arm in header.arms
    }
    times = {arm: {seed: f["t_work"] for seed, f in by_seed.items()} for arm, by_seed in figures.items()}
    ratios = {
        arm: found for arm in figures if arm != base and (found := paired_ratio(times[base], times[arm]))
    }
    repeat = next((arm.arm for arm in header.arms if arm.repeats == base), None)
    tenants = list(next(iter(figures[base].values()))["accuracy"])
    pairs = [(views[base, s], views[new, s]) for s in header.seeds]

    def after(name: str, tenant: str) -> float | None:
        return mean_of(
            f["accuracy"][tenant]["after"]["accuracy"]
            for f in figures[name].values()
            if tenant in f["accuracy"]
        )

    return Comparison(
        baseline=base,
        product=new,
        seeds=len(header.seeds),
        ratio=ratios[new],
        floor=ratios[repeat] if repeat is not None else None,
        lines=tuple(
            ArmLine(
                arm=arm,
                ratio=ratios.get(arm),
                time_s=mean_of(times[arm].values()),
                busy=mean_of(f["util_busy"] for f in by_seed.values()),
                useful=mean_of(f["util_useful"] for f in by_seed.values()),
                says=f"{base} again" if arm == repeat else QUESTIONS.get(arm, f"T({base})/T({arm})"),
            )
            for arm, by_seed in figures.items()
        ),
        doubts=(),
        accuracy={t: {name: after(name, t) for name in figures} for t in tenants},
        parity=parity({b.seed: item_differences(a, b) for a, b in pairs}, margin),
        parity_by_tenant={
            tenant: parity({b.seed: item_differences(a, b, tenant) for a, b in pairs}, margin)
            for tenant in tenants
        },
        margin=margin,
        suite=suite_name(header),
        simulated_latency=header.latency.profile if header.latency.simulated else None,
        device_class=header.device_class,
        limited=header.limit_applied,
    )


def chosen(header: RunHeader, baseline: str | None, product: str | None) -> tuple[str, str]:
    """The pair of the headline: A1 against S1 unless told otherwise. Raises UsageError for a pair that is none."""
    arms = [a.arm for a in header.arms]
    own = [a.arm for a in header.arms if a.repeats is None]
    base = baseline or ("S1" if "S1" in arms else arms[0])
    new = product or ("A1" if "A1" in arms and base != "A1" else next((a for a in own if a != base), base))
    for name in (base, new):
        if name not in arms:
            raise UsageError(f"arm {name!r} is not in this run; it has {', '.join(arms)}")
    if base == new and len(arms) > 1:
        raise UsageError(f"{base} would be compared with itself", f"the run has {', '.join(arms)}")
    if base == new:
        raise UsageError(f"the run has one arm, {base}: nothing to compare", "run it with --arms S1,A1")
    return base, new


def suite_name(header: RunHeader) -> str | None:
    """The suite that was run, and what of it was changed."""
    if header.suite is None:
        return None
    name = f"{header.suite.name} {header.suite.version}"
    changed = ", ".join(header.suite.changed)
    return f"{name}, CHANGED ({changed}): not comparable with the suite" if changed else name


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
