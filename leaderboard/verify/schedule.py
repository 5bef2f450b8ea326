"""E133, E134: compiling and evaluation happened when the protocol says, the same in every arm."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from leaderboard.records import ArmView, RunRecord
from leaderboard.verify.report import Finding, error, warning


def compiling(record: RunRecord) -> Iterator[Finding]:
    """E133: what was compiled while the clock ran is counted, and no arm alone found it in a cache."""
    cached: dict[str, set[bool]] = defaultdict(set)
    counts: dict[str, int] = {}
    runs = {(run.arm, run.seed): run for run in record.header.runs}
    for view in record.views:
        run = runs.get((view.arm, view.seed))
        told = _told(view)
        if run is not None and told is not None and run.recompiles_after_warmup != told:
            said = f"{run.recompiles_after_warmup} recompiles in run.json, run_stop tells {told}"
            yield error("E133", "run.json", f"{view.arm}, seed {view.seed}: {said}")
        inside = [e for e in view.events if e.key == "compile" and e.t_ns >= view.start_ns]
        fresh = sum(not event.value.get("cached", False) for event in inside)
        if told is not None and fresh > told:
            said = f"{fresh} programs compiled after run_start, run_stop tells {told}"
            yield error("E133", "events.jsonl", f"{view.arm}, seed {view.seed}: {said}")
        cached[view.arm] |= {bool(event.value.get("cached", False)) for event in inside}
        counts[view.arm] = counts.get(view.arm, 0) + (told or 0)
    states = {frozenset(state) for state in cached.values() if state}
    if len(states) > 1:
        yield error("E133", "events.jsonl", "one arm compiled on the clock what another found in a cache")
    if min(counts.values(), default=0) == 0 < max(counts.values(), default=0):
        slow = ", ".join(arm for arm, count in counts.items() if count)
        yield warning("E133", "run.json", f"only {slow} compiled while the clock ran", "warm up all shapes")


def evaluations(record: RunRecord) -> Iterator[Finding]:
    """E134: snapshots were scored at the scheduled versions and no others, with the samples learnt until then."""
    every = record.header.config.get("eval_every")
    limits = {tenant.tenant: tenant.updates for tenant in record.header.tenants}
    done = {(run.arm, run.seed) for run in record.header.runs if run.status == "success"}
    for view in record.views:
        if (view.arm, view.seed) not in done:
            continue  # E123 says so
        stepped = _samples_at(view)
        found: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
        for line in view.evals:
            found[line.tenant][line.eval_id] = (line.version, line.samples)
        taken = Counter(
            (str(e.value.get("tenant")), str(e.value.get("version")))
            for e in view.events
            if e.key == "snapshot"
        )
        for tenant, last in limits.items():
            name = f"{view.arm}, seed {view.seed}, {tenant}"
            steps = every if isinstance(every, int) and every > 0 else last
            reached = max(stepped[tenant], default=0)
            scheduled = sorted({0, *range(steps, reached, steps), reached} if steps else {0, reached})
            versions = [version for _, (version, _) in sorted(found[tenant].items())]
            if versions != scheduled:
                said = f"evaluated at versions {_few(versions)}, the schedule says {_few(scheduled)}"
                yield error(
                    "E134", "evals.jsonl", f"{name}: {said}", "every scheduled evaluation, and no other"
                )
            for eval_id, (version, samples) in sorted(found[tenant].items()):
                due = stepped[tenant].get(version, 0)
                if samples != due:
                    said = f"eval {eval_id} after {samples} samples, version {version} had learnt from {due}"
                    yield error("E134", "evals.jsonl", f"{name}: {said}")
                if taken and not taken[tenant, str(version)]:
                    yield error("E134", "evals.jsonl", f"{name}: no snapshot of version {version} was taken")


def _told(view: ArmView) -> int | None:
    for event in view.events:
        counted = event.value.get("recompiles") if event.key == "run_stop" else None
        if isinstance(counted, dict):
            return sum(count for count in counted.values() if isinstance(count, int))
    return None


def _samples_at(view: ArmView) -> dict[str, dict[int, int]]:
    """By tenant, how many rollouts were consumed until each version was made."""
    consumed = Counter((line.tenant, line.consumed_in) for line in view.rollouts if line.fate == "consumed")
    so_far: Counter[str] = Counter()
    at: dict[str, dict[int, int]] = defaultdict(lambda: {0: 0})
    for update in view.updates:
        so_far[update.tenant] += consumed[update.tenant, update.update_id]
        at[update.tenant][update.version_after] = so_far[update.tenant]
    return at


def _few(versions: list[int]) -> str:
    return f"{versions[:12]}" + ("…" if len(versions) > 12 else "")
