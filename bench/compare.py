"""Two arms of a run against each other: first that they did the same work, then who was faster and better.

Every figure is recomputed from the recorded lines; what run.json holds under `results` isn't read.
"""

from __future__ import annotations

import itertools
import textwrap
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from bench.errors import BenchError, UsageError
from bench.stats import Noninferiority, Ratio, Verdict, family, noninferiority, paired_log_ratio
from leaderboard import metrics
from leaderboard.metrics import learning, pairing
from leaderboard.records import ArmView, RunRecord
from leaderboard.schema import EvalLine, RolloutLine, RunHeader

PRODUCT = "A1"
MARGIN = 0.02
"""Accuracy that may be lost before it counts; under about 85 equal items the test can't tell, whatever they say."""
WIDTH = 100


class Incomparable(BenchError):
    """Two arms whose comparison would mean nothing."""

    exit_code = 3


class Unfinished(Incomparable):
    """A run that did not end with success."""


class UnequalWork(Incomparable):
    """Arms that did not do the same work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What one arm did, by seed; accuracy is {tenant: {seed: {before, after}}}."""

    arm: str
    t_work: dict[int, float]
    util_busy: dict[int, float]
    util_useful: dict[int, float]
    accuracy: dict[str, dict[int, dict[str, float | None]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two arms that did equal work."""

    run_id: str
    baseline: Side
    product: Side
    seeds: tuple[int, ...]
    speedup: Ratio
    margin: float
    parity: dict[str, Noninferiority]
    """By tenant; empty where nothing was evaluated after training."""
    parity_all: Noninferiority | None
    latency: str
    """What was simulated, '' where nothing was."""
    device_class: str
    limit_applied: bool

    @property
    def parity_verdict(self) -> str:
        """'pass' if every tenant and all together pass, 'fail' if any fails, else 'underpowered'."""
        if self.parity_all is None:
            return "not evaluated"
        verdicts = {result.verdict for result in (*self.parity.values(), self.parity_all)}
        if Verdict.FAIL in verdicts:
            return Verdict.FAIL.value
        return (Verdict.PASS if verdicts == {Verdict.PASS} else Verdict.UNDERPOWERED).value

    @property
    def verdict(self) -> str:
        """One sentence: the speed-up, its interval, accuracy parity, and what was simulated."""
        a, b = self.baseline.arm, self.product.arm
        ratio = f"{self.speedup.mean:.2f}" if self.speedup.mean is not None else "unknown"
        if self.speedup.low is None or self.speedup.high is None:
            time = f"{b} did the work of {a} with a speed-up of {ratio} (one seed: no interval)"
        else:
            interval = f"95 % interval {self.speedup.low:.2f} to {self.speedup.high:.2f}"
            over = f"paired t over {self.speedup.n} seeds"
            if self.speedup.detectable:
                time = f"{b} did the work of {a} with a speed-up of {ratio} ({interval}, {over})"
            else:
                time = (
                    f"no detectable difference in time of {b} to {a}: speed-up {ratio} ({interval}, {over})"
                )
        under = f"; latency SIMULATED ({self.latency})" if self.latency else ""
        return f"{time}; accuracy parity within {self.margin:g}: {self.parity_verdict}{under}."

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return {
            **asdict(self),
            "seeds": list(self.seeds),
            "detectable": self.speedup.detectable,
            "parity_verdict": self.parity_verdict,
            "verdict": self.verdict,
        }

    def text(self) -> str:
        """Returns the comparison as plain text, no line wider than a hundred columns."""
        lines = [self.verdict, f"Equal work: yes, {len(self.seeds)} seed(s) of run {self.run_id}."]
        for side in (self.baseline, self.product):
            lines.append(
                f"{side.arm}: T_work {_mean(side.t_work):.2f} s, busy {_mean(side.util_busy):.3f}, "
                f"useful {_mean(side.util_useful):.3f}"
            )
        pooled = {"all": self.parity_all} if self.parity_all else {}
        for name, result in (self.parity | pooled).items():
            few = " (items of one seed; other seeds may differ)" if len(self.seeds) == 1 else ""
            lines.append(
                f"accuracy, {name}: {self.product.arm} - {self.baseline.arm} = {result.difference:+.4f}, "
                f"95 % bound {result.bound:+.4f} over {result.items} distinct items: {result.verdict.value}{few}"
            )
        if self.limit_applied:
            lines.append("LIMITED run: a limit cut the work short; the figures count for nothing but a try")
        if self.device_class == "cpu-sim":
            lines.append("device class cpu-sim: ratios do not transfer to accelerators")
        return "\n".join(textwrap.fill(_plain(line), WIDTH, subsequent_indent="  ") for line in lines) + "\n"


def compare(
    path: str | Path, baseline: str | None = None, product: str | None = None, margin: float = MARGIN
) -> Comparison:
    """Compares two arms of a run directory.

    Args:
      path: run directory.
      baseline: arm to compare with; S1, or the first arm.
      product: arm to judge; A1, or the last arm.
      margin: loss of accuracy that would matter, above 0.
    Raises:
      UsageError: no such arm, or only one.
      Unfinished: the run, or a part of it, did not end with success.
      UnequalWork: names the first difference.
      RecordError: the record can't be read.
    """
    if not 0.0 < margin < 1.0:
        raise UsageError(f"margin = {margin}: give a share between 0 and 1, for instance {MARGIN}")
    record = RunRecord.open(path)
    header = record.header
    a, b = _choose([arm.arm for arm in header.arms], baseline, product)
    _require_success(record, (a, b))
    views_a, views_b = ({view.seed: view for view in record.views if view.arm == arm} for arm in (a, b))
    _require_equal(f"seeds of {a} and {b}", Counter(list(views_a)), Counter(list(views_b)), a, b)
    for seed in views_a:
        require_equal_work(header, views_a[seed], views_b[seed])

    sides = [_side(arm, views) for arm, views in ((a, views_a), (b, views_b))]
    parity, pooled = _parity(views_a, views_b, margin)
    latency = header.latency
    return Comparison(
        run_id=header.run_id,
        baseline=sides[0],
        product=sides[1],
        seeds=tuple(sorted(views_a)),
        speedup=paired_log_ratio(sides[0].t_work, sides[1].t_work),
        margin=margin,
        parity=parity,
        parity_all=pooled,
        latency=f"{latency.profile}: {latency.description.removeprefix('simulated: ')}"
        if latency.simulated
        else "",
        device_class=header.device_class,
        limit_applied=header.limit_applied,
    )


def require_equal_work(header: RunHeader, a: ArmView, b: ArmView) -> None:
    """Raises UnequalWork, naming the first difference, unless both arms of a seed did the same work."""
    at = f"seed {a.seed}: "
    updates_a, updates_b = (Counter(update.tenant for update in view.updates) for view in (a, b))
    _require_equal(at + "updates of tenant", updates_a, updates_b, a.arm, b.arm)
    if not updates_a:
        raise UnequalWork(f"{at}{a.arm} and {b.arm} made no update; there is nothing to compare")
    _require_equal(
        at + "consumed groups (tenant, item, size)", _groups(a.rollouts), _groups(b.rollouts), a.arm, b.arm
    )
    _require_equal(
        at + "learning rate (tenant, update, rate)", Counter(_rates(a)), Counter(_rates(b)), a.arm, b.arm
    )
    _require_learning(header, a)
    _require_equal(
        at + "evaluated items (tenant, evaluation, item)",
        _evaluated(a.evals),
        _evaluated(b.evals),
        a.arm,
        b.arm,
    )
    _require_cap(header, "train", a, b)
    _require_cap(header, "eval", a, b)
    devices_a, devices_b = (Counter({span.device for span in view.spans}) for view in (a, b))
    _require_equal(at + "devices", devices_a, devices_b, a.arm, b.arm)
    starts = {
        run.arm: Counter((tenant, own.initial_sha256[:12]) for tenant, own in run.adapters.items())
        for run in header.runs
        if run.seed == a.seed
    }
    _require_equal(
        at + "adapter at the start", starts.get(a.arm, Counter()), starts.get(b.arm, Counter()), a.arm, b.arm
    )


def _choose(arms: Sequence[str], baseline: str | None, product: str | None) -> tuple[str, str]:
    for name in (baseline, product):
        if name is not None and name not in arms:
            raise UsageError(f"arm {name!r} is not in this run; it has {', '.join(arms)}")
    if baseline is None:
        rest = [arm for arm in arms if arm != product]
        baseline = pairing.BASELINE if pairing.BASELINE in rest else next(iter(rest), None)
    if product is None:
        rest = [arm for arm in arms if arm != baseline]
        product = PRODUCT if PRODUCT in rest else next(reversed(rest), None)
    if baseline is None or product is None or baseline == product:
        raise UsageError(f"a comparison needs two arms; chosen from {', '.join(arms)}: {baseline}, {product}")
    return baseline, product


def _require_success(record: RunRecord, arms: tuple[str, str]) -> None:
    header = record.header
    if header.status != "success":
        raise Unfinished(
            f"run {header.run_id} ended with {header.status!r}: {header.status_reason or 'no reason recorded'}"
        )
    for run in header.runs:
        if run.arm in arms and run.status != "success":
            reason = run.reason or "no reason recorded"
            raise Unfinished(f"{run.arm}, seed {run.seed} ended with {run.status!r}: {reason}")
    for view in record.views:
        ends = [event.value.get("status") for event in view.events if event.key == "run_stop"]
        if view.arm in arms and ends != ["success"]:
            raise Unfinished(f"{view.arm}, seed {view.seed}: its events end with {ends or 'no run_stop'}")
    for arm, seed in itertools.product(arms, header.seeds):
        if not any((view.arm, view.seed) == (arm, seed) for view in record.views):
            raise Unfinished(f"{arm}, seed {seed} never started")


def _require_equal(what: str, a: Counter[Any], b: Counter[Any], arm_a: str, arm_b: str) -> None:
    different = sorted((key for key in a.keys() | b.keys() if a[key] != b[key]), key=str)
    if different:
        key = different[0]
        more = f"; {len(different) - 1} more differ" if len(different) > 1 else ""
        raise UnequalWork(f"{what} {key!r}: {a[key]} in {arm_a}, {b[key]} in {arm_b}{more}")


def _groups(rollouts: Iterable[RolloutLine]) -> Counter[tuple[str, str, int]]:
    consumed = (r for r in rollouts if r.fate == "consumed")
    sizes = Counter((r.tenant, r.ordinal, r.item_uid) for r in consumed)
    return Counter((tenant, item, size) for (tenant, _, item), size in sizes.items())


def _rates(view: ArmView) -> list[tuple[str, int, float | None]]:
    return [(update.tenant, update.version_after, update.learning_rate) for update in view.updates]


def _require_learning(header: RunHeader, view: ArmView) -> None:
    """A run whose optimizer stood still is fast and teaches nothing; warm-up may start at 0."""
    configured = header.config.get("learning_rate") or 0.0
    warmup = header.config.get("warmup_updates") or 0
    for tenant, version, rate in _rates(view):
        if configured > 0.0 and version > warmup and not rate:
            raise UnequalWork(
                f"seed {view.seed}: {view.arm} made update {version} of tenant {tenant!r} with learning rate "
                f"{rate}, configured is {configured}"
            )


def _evaluated(evals: Iterable[EvalLine]) -> Counter[tuple[str, int, tuple[Hashable, ...]]]:
    return Counter((line.tenant, line.eval_id, _item(line)) for line in evals)


def _item(line: EvalLine) -> tuple[str, str, int, int, str]:
    return line.env_id, line.split, line.env_seed, line.item_index, line.item_uid


def _require_cap(header: RunHeader, kind: Literal["train", "eval"], *views: ArmView) -> None:
    """The caps are one setting for all arms; what counts is that both kept to it."""
    cap = header.sampling.get(kind, {}).get("max_new_tokens")
    if not isinstance(cap, int):
        return
    for view in views:
        lines: Sequence[RolloutLine | EvalLine] = view.rollouts if kind == "train" else view.evals
        sampled = (len(turn.token_ids) for line in lines for turn in line.turns if turn.role == "policy")
        longest = max(sampled, default=0)
        if longest > cap:
            raise UnequalWork(
                f"seed {view.seed}: {view.arm} sampled a turn of {longest} tokens ({kind}), the cap is {cap}"
            )


def _side(arm: str, views: Mapping[int, ArmView]) -> Side:
    figures = {seed: metrics.compute(view) for seed, view in sorted(views.items())}
    accuracy: dict[str, dict[int, dict[str, float | None]]] = {}
    for seed, own in figures.items():
        for tenant, found in own["accuracy"].items():
            accuracy.setdefault(tenant, {})[seed] = {
                when: found[when]["accuracy"] if found[when] else None for when in ("before", "after")
            }
    return Side(
        arm=arm,
        t_work={seed: own["t_work"] for seed, own in figures.items()},
        util_busy={seed: own["util_busy"] for seed, own in figures.items()},
        util_useful={seed: own["util_useful"] for seed, own in figures.items()},
        accuracy=accuracy,
    )


def _parity(
    a: Mapping[int, ArmView], b: Mapping[int, ArmView], margin: float
) -> tuple[dict[str, Noninferiority], Noninferiority | None]:
    scores_a, scores_b = _final_scores(a), _final_scores(b)
    if not scores_a:
        return {}, None
    by_tenant: dict[str, Noninferiority] = {}
    for tenant in sorted({tenant for _, tenant in scores_a}):
        own = [key for key in scores_a if key[1] == tenant]
        by_tenant[tenant] = noninferiority(
            {key: scores_a[key] for key in own}, {key: scores_b[key] for key in own}, margin
        )
    return family(by_tenant), noninferiority(scores_a, scores_b, margin)


def _final_scores(views: Mapping[int, ArmView]) -> dict[tuple[int, str], list[float]]:
    """Scores of the last evaluation after training by (seed, tenant), in the order of the items.

    An item drawn twice is one item: its answers aren't independent, so they count once, by their mean.
    """
    scores: dict[tuple[int, str], list[float]] = {}
    for seed, view in sorted(views.items()):
        for tenant in view.tenants:
            own = [line for line in view.evals if line.tenant == tenant and line.eval_id > 0]
            last = max((line.eval_id for line in own), default=0)
            items: dict[tuple[str, str], list[EvalLine]] = {}
            for line in own:
                if line.eval_id == last:
                    items.setdefault((line.env_id, line.item_uid), []).append(line)
            if items:
                scores[seed, tenant] = [learning.score(items[key])["accuracy"] for key in sorted(items)]
    return scores


def _mean(by_seed: Mapping[int, float]) -> float:
    return sum(by_seed.values()) / len(by_seed)


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
