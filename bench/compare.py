"""`bench compare`: the arms of one run or of two, recomputed from the raw lines. Unequal work is refused by name."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import fairness
from bench.control import Control, control
from bench.errors import RejectedError, UsageError, ended
from bench.fairness.side import Side
from bench.places import broken_seal, run_directory, unpacked
from bench.table import mean_of
from bench.targets import TargetLine, target_lines
from bench.verdict import Finding, finding, floor_sentence, sentence, shown
from leaderboard import metrics
from leaderboard.metrics.scores import item_differences
from leaderboard.outline import RunOutline
from leaderboard.schema import RunHeader
from leaderboard.stats import MARGIN, Parity, Ratio, SuiteRatio, paired_ratio, parity, suite_ratio

FEW = 8
"""Tenants that get a line each unasked."""
QUESTIONS = {
    "S0": "sharing one model, T(S1)/T(S0)",
    "A0": "the control, T(S1)/T(A0)",
    "A1": "asynchrony, T(S1)/T(A1)",
}
"""What each arm's ratio to S1 answers."""
TIMES: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "t_work": lambda f: f["t_work"],
    "t_total": lambda f: f["t_total"],
    "tenant_mean": lambda f: f["tenant_completion"]["mean"],
    "tenant_p95": lambda f: f["tenant_completion"]["p95"],
}
"""Times that can be compared; the first is the headline's."""


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
class Flag:
    """Something to know about a comparison: a code of `bench verify --explain`, and what was found."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The verdict on one pair of arms, and a line on every other arm of the record."""

    metric: str
    """Which time the ratios are of: a key of TIMES."""
    tasks: SuiteRatio | None
    """Completion times task by task, and their geometric mean."""
    baseline: str
    product: str
    seeds: int
    ratio: Ratio
    floor: Ratio | None
    """The baseline against its own repeat; None where the record has no A/A pair."""
    lines: tuple[ArmLine, ...]
    control: Control | None
    """Whether A0 learnt exactly what S1 learnt; None where one of them was not run."""
    flags: tuple[Flag, ...]
    """What is odd about the records and does not refuse them."""
    doubts: tuple[str, ...]
    """Why a difference that was measured is not claimed, parity left aside."""
    targets: dict[str, TargetLine]
    """By tenant, of those with a target: how much sooner the product reached it."""
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
        pair = f"{self.product} against {self.baseline}" + (
            f", {self.metric}" if self.metric != "t_work" else ""
        )
        return sentence(pair, self.ratio, self.floor, self.parity, margin=self.margin, doubts=self.doubts)

    @property
    def task_verdicts(self) -> dict[str, str]:
        """What may be said of each tenant's own time and accuracy, by the rules of the whole."""
        if self.tasks is None:
            return {}
        return {
            tenant: sentence(
                f"{tenant}, {self.product} against {self.baseline}",
                ratio,
                self.floor,
                self.parity_by_tenant.get(tenant),
                margin=self.margin,
                doubts=self.doubts,
            )
            for tenant, ratio in self.tasks.by_task.items()
        }

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
            "task_verdicts": self.task_verdicts,
            "noise_floor": floor
            and {"speedup": floor["ratio"], **{k: floor[k] for k in ("low", "high", "n")}},
            "noise_floor_sentence": floor_sentence(self.floor),
        }

    def __str__(self) -> str:
        """What `bench compare` prints."""
        return self.text()

    def __repr__(self) -> str:
        return f"<Comparison of {self.product} with {self.baseline}: {self.verdict}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the text of `bench compare`."""
        return f"<pre>{html.escape(self.text())}</pre>"

    def text(self, *, by_task: bool = False) -> str:
        """The verdict and the figures behind it; `by_task`: also every task's completion time."""
        lines = [self.verdict, floor_sentence(self.floor), ""]
        if by_task and self.tasks is not None:
            mean = self.tasks
            for task, said in self.task_verdicts.items():
                p = mean.adjusted_p.get(task)
                lines.append(said + (f" p = {p:.3g} (Holm)." if p is not None else ""))
            known = (
                f"95 % interval {mean.low:.2f} to {mean.high:.2f} ({mean.method})"
                if mean.low is not None
                else ""
            )
            interval = known or "without an interval"
            lines += [f"geometric mean of {mean.tasks} tasks: {mean.ratio:.2f}×, {interval}", ""]
        for line in self.lines:
            lines.append(
                f"{line.arm}: time {line.time_s:.1f} s, utilization busy {line.busy:.2f}, useful {line.useful:.2f}"
                + (f"; {line.says}: {shown(line.ratio)}" if line.ratio is not None else "")
            )
        if self.control is not None:
            lines.append(self.control.sentence)
        if by_task or len(self.targets) <= FEW:
            lines += [f"time to target, {tenant}: {line.sentence}" for tenant, line in self.targets.items()]
        for tenant, by_arm in self.accuracy.items():
            scores = ", ".join(
                f"{arm} {'–' if v is None else f'{100 * v:.1f} %'}" for arm, v in by_arm.items()
            )
            own = self.parity_by_tenant.get(tenant)
            bound = f"; parity {own.verdict}, bound {100 * own.low:+.1f} points" if own else ""
            lines.append(f"accuracy {tenant}: {scores}{bound}")
        lines += [f"flag {flag.code}: {flag.reason}" for flag in self.flags]
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
    path: Path,
    other: Path | None = None,
    *,
    baseline: str | None = None,
    product: str | None = None,
    margin: float = MARGIN,
    metric: str = "t_work",
    sealed: bool = False,
) -> Comparison:
    """Compares the arms of a run, or the baseline of one with the product of another, paired by seed.

    Args:
      path, other: run directories, or archives of them.
      margin: accuracy the product may lose and still count as equal.
      sealed: require that the records are byte for byte what was sealed; a run that has just ended isn't yet.
    Raises:
      RejectedError: a run did not end well, its seal is broken, or the arms did unequal work: the difference and
        its code are named.
      RecordError: a line that can't be read.
      UsageError: a run lacks an arm, or a metric is no time.
    """
    if metric not in TIMES:
        raise UsageError(f"--metric {metric!r} is no time to compare", f"there are {', '.join(TIMES)}")
    with ExitStack() as stack:
        record = _opened(path, stack, sealed=sealed)
        second = None if other is None else _opened(other, stack, sealed=sealed)
        return _compared(path, record, second, baseline, product, margin, metric)


def _compared(
    path: Path,
    record: RunOutline,
    second: RunOutline | None,
    baseline: str | None,
    product: str | None,
    margin: float,
    metric: str,
) -> Comparison:
    if second is None:
        base, new = chosen(record.header, baseline, product)
        sides = {(v.arm, v.seed): Side(label=v.arm, view=v, header=record.header) for v in record.views}
        arms = [arm.arm for arm in record.header.arms]
        of_records = list(fairness.whole(record, list(sides.values())))
    else:
        base, new, sides = _across(record, second, baseline, product)
        arms = [base, new]
        of_records = list(fairness.across(record, second))
    seeds = [seed for seed in record.header.seeds if second is None or (new, seed) in sides]
    if second is not None:
        # what is of two experiments need not be paired to be refused
        _refuse(of_records, path)
    for arm, seed in ((arm, seed) for arm in arms for seed in seeds):
        side = sides.get((arm, seed))
        if side is None or not side.view.updates or not side.view.evals:
            _refuse([f for f in of_records if f.code == "E123"], path)
            raise RejectedError(
                f"E123 {arm}, seed {seed}: lines of its events, updates or evals are missing",
                f"'bench verify {path}' says what else is wrong",
            )
    pairs = {arm: [(sides[base, seed], sides[arm, seed]) for seed in seeds] for arm in arms if arm != base}
    found: list[fairness.Finding] = []
    for seed in seeds:
        found += [f for arm in pairs for f in fairness.paired(sides[base, seed], sides[arm, seed])]
        found += [f for arm in arms for f in fairness.alone(sides[arm, seed])]
    # last: a difference between two arms says more than that one of them is not as planned
    found += of_records
    _refuse(found, path)
    found += fairness.slower(pairs[new])
    return _judge(record, base, new, arms, seeds, sides, pairs, found, margin, metric)


def _opened(path: Path, stack: ExitStack, *, sealed: bool) -> RunOutline:
    directory = run_directory(stack.enter_context(unpacked(path)))
    record = RunOutline.open(directory)
    header = record.header
    if header.status != "success":
        how = ended(header.status, header.status_reason)
        raise RejectedError(f"run {header.run_id} {how}", f"'bench resume {path}' goes on with it")
    # before anything that is read from it: a line that was changed says nothing about the arms
    if sealed and (broken := broken_seal(directory)):
        hint = f"'bench verify {path}' lists everything"
        raise RejectedError(f"{path} is not the record that was sealed: {broken}", hint)
    return record


def _across(
    first: RunOutline, second: RunOutline, baseline: str | None, product: str | None
) -> tuple[str, str, dict[tuple[str, int], Side]]:
    """Labels of both arms, and their sides; where both are called alike, the label says which record it is of."""
    one, two = ([a.arm for a in record.header.arms if a.repeats is None] for record in (first, second))
    base = baseline or ("S1" if "S1" in one else one[0])
    new = product or ("A1" if "A1" in two else two[0])
    for name, arms in ((base, one), (new, two)):
        if name not in arms:
            raise UsageError(
                f"arm {name!r} is not in the record it is to be taken from; it has {', '.join(arms)}"
            )
    labels = (base, new) if base != new else (f"{base} (first)", f"{new} (second)")
    sides = {
        (label, view.seed): Side(label=label, view=view, header=record.header)
        for record, arm, label in ((first, base, labels[0]), (second, new, labels[1]))
        for view in record.views
        if view.arm == arm
    }
    return *labels, sides


def _refuse(found: Sequence[fairness.Finding], path: Path) -> None:
    """Raises RejectedError with the first error, its code and how many more there are."""
    errors = list(dict.fromkeys(f for f in found if f.severity == "error"))
    if errors:
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        hint = f"'bench verify {path}' checks the whole record"
        raise RejectedError(f"{errors[0].code} {errors[0].reason}{more}", hint)


def _judge(
    record: RunOutline,
    base: str,
    new: str,
    arms: Sequence[str],
    seeds: Sequence[int],
    sides: Mapping[tuple[str, int], Side],
    pairs: Mapping[str, Sequence[tuple[Side, Side]]],
    found: Sequence[fairness.Finding],
    margin: float,
    metric: str,
) -> Comparison:
    header = record.header
    figures = {arm: {seed: metrics.compute(sides[arm, seed].view) for seed in seeds} for arm in arms}
    times = {arm: {seed: TIMES[metric](f) for seed, f in by_seed.items()} for arm, by_seed in figures.items()}
    ratios = {arm: ratio for arm in pairs if (ratio := paired_ratio(times[base], times[arm]))}
    repeat = next((arm.arm for arm in header.arms if arm.repeats == base), None)
    tenants = list(next(iter(figures[base].values()))["accuracy"])
    shown = control(pairs["A0"]) if "A0" in pairs and base == "S1" else None
    warnings = tuple(dict.fromkeys(f for f in found if f.severity == "warning"))

    def after(name: str, tenant: str) -> float | None:
        return mean_of(
            f["accuracy"][tenant]["after"]["accuracy"]
            for f in figures[name].values()
            if tenant in f["accuracy"]
        )

    def completed(arm: str, tenant: str) -> dict[int, float]:
        return {seed: f["tenant_completion"]["each"][tenant] for seed, f in figures[arm].items()}

    differences = {
        (b.view.seed, tenant): item_differences(a.view, b.view, tenant)
        for a, b in pairs[new]
        for tenant in tenants
    }
    return Comparison(
        metric=metric,
        tasks=suite_ratio({t: (completed(base, t), completed(new, t)) for t in tenants}, shared_runs=True),
        baseline=base,
        product=new,
        seeds=len(seeds),
        ratio=ratios[new],
        floor=ratios.get(repeat) if repeat is not None else None,
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
        control=shown,
        flags=tuple(Flag(code=f.code, reason=f.reason) for f in warnings),
        doubts=tuple(f"{f.code} {f.reason}" for f in warnings)
        + ((shown.doubt,) if shown is not None and shown.doubt else ()),
        targets=target_lines(header, base, new, figures, sides),
        accuracy={t: {name: after(name, t) for name in figures} for t in tenants},
        parity=parity(differences, margin),
        parity_by_tenant={
            tenant: parity({seed: own for (seed, of), own in differences.items() if of == tenant}, margin)
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
