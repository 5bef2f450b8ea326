"""What verification says: findings with stable codes, and what each code means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from leaderboard.errors import RecordError

MAX_PER_CODE = 20
"""Findings of one code that are kept; the rest are counted."""

EXPLAIN: dict[str, str] = {
    "E101": "The bundle opens: plain files with plain names, no links, nothing too large.",
    "E102": "The schema version is known and every line is strict JSON: UTF-8, no NaN, no key "
    "twice, right types.",
    "E103": "Every required file and field is there, and no unknown one.",
    "E111": "Every file has the size, hash and row count of the manifest, none is unlisted, and "
    "the Merkle root follows from them.",
    "E112": "The event chain is unbroken: seq counts from 0, prev is the hash of the line before, "
    "and its head is the one in run.json.",
    "E113": "The signature is one of this Merkle root, by its key, and the board knows the key.",
    "E121": "Task versions and grader hashes are the ones of this version of the suite.",
    "E122": "run.json follows from its own configuration and devices, and the lines were made with it: "
    "limits, latency, model, arms, staleness, sampling, learning rates, prompts read in the run itself.",
    "E123": "Every arm and seed of the plan is present and came to its end, and the seeds are those of the "
    "configuration and the round.",
    "E124": "Every attempt of a round is told, without a gap, each with its outcome.",
    "E125": "Programs that a model wrote ran in a sandbox of level L2 or L1.",
    "E126": "Between two arms there is time for scoring, starting and compiling, and none for a run that isn't told.",
    "E131": "Time runs forward in every process, the monotonic clock agrees with the wall clock within "
    "1 s + 100 ppm, and no environment answered before its simulated latency was over.",
    "E132": "run_start and run_stop occur once for every arm and seed, and its rollouts, updates "
    "and events lie between them.",
    "E133": "What was compiled while the clock ran is counted, no arm alone found it in a cache, and before their "
    "clocks all arms that are compared found their programs compiled, or none did.",
    "E134": "Evaluations took place at the scheduled versions and no others, with the samples learnt until then.",
    "E135": "Where a run was resumed run.json says so, and nothing is recorded in the time between.",
    "E141": "Device spans have a length, don't overlap or touch on one device, lie inside the run, do no more "
    "useful work than they executed, and begin and end with the turns, updates and publications they made.",
    "E142": "Utilization, time and the other reported figures recompute from the lines, and so does metrics.jsonl.",
    "E144": "No span did more arithmetic than the device named in run.json can.",
    "E145": "The baseline's device stood still only while it had nothing to do; its environments and dispatches "
    "were as fast as the other arm's.",
    "E151": "The ledger closes in rollouts and tokens, per tenant: generated = consumed + stale + "
    "filtered + errored + surplus; no rollout occurs or is consumed twice.",
    "E152": "An update's rollouts exist, belong to its tenant, ended before it began, and were no "
    "older than the arm allows.",
    "E153": "Policy versions count up by one per update, are used only after their publication, "
    "and staleness recomputes from them.",
    "E154": "Learning rates, and adapters at the start, are the same in all arms, and the "
    "learning rate isn't 0.",
    "E155": "All arms did the same work: the same items of the same tenants and as many updates, per seed. "
    "A warning where the baseline idled, or its environments took longer than the other arm's.",
    "E156": "Adapter files are whole, and hash to what run.json and the last publication say.",
    "E161": "Every transcript, graded again by replay, earns exactly the reward and status it claims.",
    "E162": "Items are those of their coordinates, observations those of the task, and no "
    "evaluated item was trained on.",
    "E163": "Token counts recompute from the turns, log-probabilities and versions are per token, "
    "and stop reasons are legal.",
    "E164": "Every scheduled evaluation holds the same items, each once, at most 1 % of them errored, and "
    "reported accuracy recomputes.",
    "E165": "What was sampled under one seed or tenant isn't another's, and the record isn't a copy of one "
    "on the board.",
    "E166": "A screen, never a refusal: how often sampled answers are the reference solution to the letter.",
    "E171": "All runs took place in the recorded order, soon after each other, on the same devices; arms of two "
    "records ran on one machine with the same software.",
    "E172": "Speed-ups, their intervals and verdicts recompute.",
    "E174": "No two seeds took the same time to the nanosecond, and their speed-ups differ.",
    "E181": "submission.toml is complete and holds no control characters.",
    "E182": "No secret is in the record; absolute paths of a home are warned of.",
    "E191": "Replayed: recorded log-probabilities are those that the submitted adapters give.",
    "W202": "The run was cut short by --limit: it is shown as such and not ranked.",
    "W203": "Only one seed: no interval can be given.",
    "W205": "The run was interrupted and resumed: the time it stood still counts on its clock.",
    "W204": "Some rollouts or evaluated items errored; they were counted, not re-graded.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault or remark: its code, where it is, why, and what to do."""

    code: str
    place: str
    reason: str
    hint: str = ""
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        return f"{self.code} {self.place}: {self.reason}" + (f" ({self.hint})" if self.hint else "")


def error(code: str, place: str, reason: str, hint: str = "") -> Finding:
    """Returns a finding that refuses the record."""
    return Finding(code=code, place=place, reason=reason, hint=hint)


def warning(code: str, place: str, reason: str, hint: str = "") -> Finding:
    """Returns a remark that refuses nothing."""
    return Finding(code=code, place=place, reason=reason, hint=hint, severity="warning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All findings (at most 20 of a code are listed) and what was checked."""

    findings: tuple[Finding, ...]
    counts: dict[str, int]
    """All findings by code, listed or not."""
    checked: dict[str, int] = field(default_factory=dict)
    """How many of what were looked at, e.g. rollouts re-graded."""

    @property
    def ok(self) -> bool:
        """True if nothing refuses the record."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that refuse the record."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def codes(self) -> tuple[str, ...]:
        """Codes of the errors, sorted, each once."""
        return tuple(sorted({finding.code for finding in self.errors}))

    def to_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return {
            "ok": self.ok,
            "findings": [
                {
                    "code": finding.code,
                    "severity": finding.severity,
                    "place": finding.place,
                    "reason": finding.reason,
                    "hint": finding.hint,
                }
                for finding in self.findings
            ],
            "counts": self.counts,
            "checked": self.checked,
        }


def collect(findings: Iterable[Finding], checked: dict[str, int]) -> Report:
    """Gathers findings: equal ones once, at most MAX_PER_CODE of a code listed, errors first."""
    unique = dict.fromkeys(findings)
    counts = Counter(finding.code for finding in unique)
    kept: list[Finding] = []
    seen: Counter[str] = Counter()
    for finding in unique:
        seen[finding.code] += 1
        if seen[finding.code] <= MAX_PER_CODE:
            kept.append(finding)
    kept.sort(key=lambda finding: (finding.severity, finding.code))
    return Report(findings=tuple(kept), counts=dict(sorted(counts.items())), checked=checked)


def guarded(check: Iterable[Finding]) -> Iterator[Finding]:
    """Runs a check; a record that can't be read becomes its finding instead of ending all checks."""
    try:
        yield from check
    except RecordError as refused:
        yield error(refused.code, refused.place, refused.reason, refused.hint)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as odd:
        # configuration and events hold free JSON: what no run writes there refuses the record, and stops no other check
        yield error("E102", "run.json", f"a value that no run writes: {type(odd).__name__}: {str(odd)[:120]}")
    except OSError as unreadable:
        yield error("E101", Path(str(unreadable.filename)).name, f"can't be read: {unreadable.strerror}")
