"""E165, E171, E174: arms were run side by side on one machine, and seeds are independent runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from leaderboard import canonical
from leaderboard.metrics import results
from leaderboard.metrics.work import NS, times
from leaderboard.records import ArmView, RunRecord
from leaderboard.schema import RolloutLine
from leaderboard.verify.report import Finding, error

MAX_PAUSE_S = 3_600.0
"""Between the end of one arm, its evaluation included, and the start of the next, compiling left out."""
MIN_TOKENS, MIN_NATS = 4, 2.0
"""A turn shorter or surer than that can well be sampled twice."""
MAX_TWICE, MIN_TWICE = 0.1, 2
"""Of a tenant's rollouts that another seed or tenant may have to the digit: items of small tasks repeat, and until
its first step with a signal every adapter is the same."""


def paired(record: RunRecord) -> Iterator[Finding]:
    """E171: the runs followed each other in the recorded order, soon, on the same devices."""
    views = sorted(record.views, key=lambda view: view.start_ns)
    order = [tuple(pair) for pair in record.header.order]
    if [(view.arm, view.seed) for view in views] != order[: len(views)]:
        yield error("E171", "run.json", "the runs didn't take place in the recorded order")
    prepared = {(run.arm, run.seed): run.init_s + run.compile_s for run in record.header.runs}
    for before, after in pairwise(views):
        name = f"{after.arm}, seed {after.seed}"
        if after.start_ns < before.stop_ns:
            yield error("E171", "events.jsonl", f"{name} began before the run before it ended")
        pause = (after.start_ns - _end(before)) / NS - prepared.get((after.arm, after.seed), 0.0)
        if pause > MAX_PAUSE_S:
            said = f"{name} began {pause / 3600:.1f} h after the run before it ended"
            yield error("E171", "events.jsonl", said, "run all arms in one session")
    used = {(view.arm, view.seed): {span.device for span in view.spans} for view in views}
    first = next(iter(used.values()), set())
    for (arm, seed), devices in used.items():
        if devices != first:
            yield error("E171", "spans.jsonl", f"{arm}, seed {seed} ran on other devices than the first run")


def independent(record: RunRecord) -> Iterator[Finding]:
    """E165: what was sampled under one seed or tenant isn't another's."""
    owners: dict[str, tuple[str, int, str]] = {}
    twice: Counter[tuple[tuple[str, int, str], tuple[str, int, str]]] = Counter()
    sampled: Counter[tuple[str, int, str]] = Counter()
    seen: set[tuple[str, tuple[int, str]]] = set()
    for line in record.rollouts:
        print_ = fingerprint(line)
        if print_ is None:
            continue
        own = (line.arm, line.seed, line.tenant)
        sampled[own] += 1
        if (print_, own[1:]) in seen:
            continue  # arms share their random streams: the same sample of the same seed is no wonder
        seen.add((print_, own[1:]))
        first = owners.setdefault(print_, own)
        if first[1:] != own[1:]:
            twice[own, first] += 1
    for (own, first), count in sorted(twice.items()):
        if count >= MIN_TWICE and count > MAX_TWICE * sampled[own]:
            arm, seed, tenant = own
            said = f"{count} of {sampled[own]} rollouts are those of {first[0]}, seed {first[1]}, {first[2]}"
            yield error("E165", "rollouts.jsonl", f"{arm}, seed {seed}, {tenant}: {said}", "run every seed")


def fingerprint(line: RolloutLine) -> str | None:
    """What nobody samples twice: the policy's tokens with their log-probabilities; None where it says too little."""
    turns = [turn for turn in line.turns if turn.role == "policy"]
    logprobs = [x for turn in turns for x in turn.behavior_logprobs]
    if line.oldest_version < 1 or len(logprobs) < MIN_TOKENS or -sum(logprobs) < MIN_NATS:
        return None
    said = [[turn.token_ids, turn.behavior_logprobs] for turn in turns]
    return canonical.sha256(repr(said).encode())[:32]


def varied(record: RunRecord) -> Iterator[Finding]:
    """E174: no two seeds took the same time to the nanosecond, in whole or update by update."""
    taken: dict[tuple[str, tuple[int, ...]], int] = {}
    for view in record.views:
        if not view.updates:
            continue
        ends = sorted(update.t1_ns - view.start_ns for update in view.updates)
        steps = tuple(later - earlier for earlier, later in pairwise(ends))
        for what, times_ns in (("whole", (ends[-1],)), ("steps", steps)):
            if not any(times_ns):
                continue
            other = taken.setdefault((f"{view.arm} {what}", times_ns), view.seed)
            if other != view.seed:
                said = f"seeds {other} and {view.seed} took the same time to the nanosecond"
                yield error("E174", "updates.jsonl", f"{view.arm}: {said}", "run every seed")
    ratios = _ratios(results(record)["comparison"], record)
    for arm, found in ratios.items():
        if len(found) > 1 and max(found) - min(found) < 1e-9 * max(found):
            yield error("E174", "run.json", f"{arm}: all seeds have the same speed-up", "run every seed")


def _ratios(comparison: dict[str, Any], record: RunRecord) -> dict[str, list[float]]:
    baseline = comparison["baseline"]
    seconds = {(view.arm, view.seed): times(view)["t_work"] for view in record.views if view.updates}
    found: dict[str, list[float]] = defaultdict(list)
    for (arm, seed), own in seconds.items():
        base = seconds.get((baseline, seed))
        if arm != baseline and base and own:
            found[arm].append(base / own)
    return found


def _end(view: ArmView) -> int:
    ends = [turn.t1_ns for line in view.evals for turn in line.turns]
    return max([view.stop_ns, *ends])
