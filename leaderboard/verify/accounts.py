"""E151-E155: the ledger, what updates consumed, policy versions, and equal work between arms."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator

from leaderboard.metrics.work import FATES, ledger
from leaderboard.records import ArmView, RunRecord
from leaderboard.schema import RolloutLine, UpdateLine
from leaderboard.verify.report import Finding, error

RunKey = tuple[str, int]
TenantKey = tuple[str, int, str]


def ledgers(record: RunRecord) -> Iterator[Finding]:
    """E151: run.json's ledgers equal the rollouts' and close; nothing occurs or is consumed twice."""
    views = {(view.arm, view.seed): view for view in record.views}
    for run in record.header.runs:
        name = f"{run.arm}, seed {run.seed}"
        view = views.get((run.arm, run.seed))
        counted = ledger(view) if view else {}
        declared = {tenant: own.model_dump() for tenant, own in run.ledger.items()}
        for tenant in sorted(counted.keys() | declared.keys()):
            for unit in ("rollouts", "tokens"):
                said = declared.get(tenant, {}).get(unit, {})
                found = counted.get(tenant, {}).get(unit, dict.fromkeys(("generated", *FATES), 0))
                if said != found:
                    what = next((k for k in found if said.get(k) != found[k]), "generated")
                    yield error(
                        "E151",
                        "run.json",
                        f"{name}, {tenant}: {said.get(what)} {what} {unit}, the lines say {found[what]}",
                    )
                if said and said["generated"] != sum(said[fate] for fate in FATES):
                    yield error("E151", "run.json", f"{name}, {tenant}: the ledger of {unit} doesn't close")
        done = Counter(u.tenant for u in view.updates) if view else Counter()
        if dict(done) != {tenant: count for tenant, count in run.updates.items() if count}:
            yield error("E151", "run.json", f"{name}: updates {run.updates}, the lines say {dict(done)}")
    ids: set[tuple[str, int, str]] = set()
    consumed: set[tuple[str, int, str, int, int]] = set()
    for number, line in enumerate(record.rollouts, start=1):
        identity = (line.arm, line.seed, line.tenant, line.ordinal, line.sample_index)
        if (line.arm, line.seed, line.rollout_id) in ids:
            yield error(
                "E151", f"rollouts.jsonl:{number}", f"rollout_id {line.rollout_id[:60]!r} occurs twice"
            )
        if line.fate == "consumed" and identity in consumed:
            yield error("E151", f"rollouts.jsonl:{number}", "this sample of the group was consumed twice")
        ids.add((line.arm, line.seed, line.rollout_id))
        if line.fate == "consumed":
            consumed.add(identity)


def consumption(record: RunRecord) -> Iterator[Finding]:
    """E152: consumed rollouts against the updates that name them."""
    limits = {arm.arm: arm.max_staleness for arm in record.header.arms}
    sizes = {tenant.tenant: tenant.group_size for tenant in record.header.tenants}
    updates = {(u.arm, u.seed, u.tenant, u.update_id): u for u in record.updates}
    members: Counter[tuple[str, int, str, int, int]] = Counter()
    for number, line in enumerate(record.rollouts, start=1):
        place = f"rollouts.jsonl:{number}"
        if line.fate == "consumed" and line.consumed_in is None:
            yield error("E152", place, "consumed, but by no update")
        if line.consumed_in is None:
            continue
        update = updates.get((line.arm, line.seed, line.tenant, line.consumed_in))
        if update is None:
            yield error("E152", place, f"update {line.consumed_in} of tenant {line.tenant!r} doesn't exist")
            continue
        members[line.arm, line.seed, line.tenant, line.consumed_in, line.ordinal] += 1
        if line.ordinal not in update.ordinals:
            yield error("E152", place, f"update {line.consumed_in} didn't consume group {line.ordinal}")
        if line.t_end_ns > update.t0_ns:
            yield error("E152", place, "ended after the update that consumed it began")
        age = update.version_before - line.oldest_version
        if age > limits.get(line.arm, 0):
            yield error("E152", place, f"staleness {age}, arm {line.arm} allows {limits.get(line.arm, 0)}")
    for number, update in enumerate(record.updates, start=1):
        for ordinal in update.ordinals:
            key = (update.arm, update.seed, update.tenant, update.update_id, ordinal)
            if members[key] > sizes.get(update.tenant, 0):
                yield error("E152", f"updates.jsonl:{number}", f"group {ordinal} has {members[key]} rollouts")


def versions(record: RunRecord) -> Iterator[Finding]:
    """E153: versions count up, are used after publication only, and staleness recomputes."""
    by_tenant: dict[TenantKey, list[tuple[int, UpdateLine]]] = defaultdict(list)
    for number, update in enumerate(record.updates, start=1):
        by_tenant[update.arm, update.seed, update.tenant].append((number, update))
    published: dict[TenantKey, dict[int, int]] = defaultdict(dict)
    for key, own in by_tenant.items():
        version, end = 0, 0
        for number, update in own:
            place = f"updates.jsonl:{number}"
            step = update.version_after - update.version_before
            # an update without signal counts; only one whose gradient wasn't finite takes no step
            allowed = (1,) if update.skipped is None else (0, 1)
            if update.version_before != version or step not in allowed:
                yield error(
                    "E153", place, f"version {update.version_before}→{update.version_after} after {version}"
                )
            if update.t0_ns < end:
                yield error("E153", place, "began before the tenant's update before it ended")
            version, end = update.version_after, update.t1_ns
            if step:
                published[key][update.version_after] = update.published_ns
    befores = {(u.arm, u.seed, u.tenant, u.update_id): u.version_before for u in record.updates}
    for number, line in enumerate(record.rollouts, start=1):
        key = (line.arm, line.seed, line.tenant)
        before = befores.get((*key, line.consumed_in)) if line.consumed_in is not None else None
        yield from _rollout_versions(f"rollouts.jsonl:{number}", line, published[key], before)


def ages(record: RunRecord) -> Iterator[Finding]:
    """E153: the histogram of an update's staleness has no more tokens of an age than its rollouts hold."""
    befores = {(u.arm, u.seed, u.tenant, u.update_id): u.version_before for u in record.updates}
    held: dict[tuple[str, int, str, int], Counter[int]] = defaultdict(Counter)
    for line in record.rollouts:
        if line.consumed_in is None:
            continue
        key = (line.arm, line.seed, line.tenant, line.consumed_in)
        for turn in line.turns:
            if turn.role == "policy" and key in befores:
                held[key].update(befores[key] - version for version in turn.policy_version)
    for number, update in enumerate(record.updates, start=1):
        own = held[update.arm, update.seed, update.tenant, update.update_id]
        for age, tokens in update.staleness.items():
            # fewer is right where the loss leaves tokens out; more, or at another age, is made up
            if not age.isascii() or not age.isdigit() or tokens > own[int(age)]:
                yield error("E153", f"updates.jsonl:{number}", f"{tokens} tokens at staleness {age[:20]!r}")


def _rollout_versions(
    place: str, line: RolloutLine, published: dict[int, int], before: int | None
) -> Iterator[Finding]:
    oldest: int | None = None
    for turn in line.turns:
        if turn.role != "policy" or not turn.policy_version:
            continue
        low, high = min(turn.policy_version), max(turn.policy_version)
        oldest = low if oldest is None else min(oldest, low)
        if low < 0 or turn.policy_version != sorted(turn.policy_version):
            yield error("E153", place, "versions within a turn don't count up")
        if high > 0 and published.get(high, sys.maxsize) > turn.t1_ns:
            yield error("E153", place, f"version {high} was used before it was published")
    if oldest is not None and oldest != line.oldest_version:
        yield error("E153", place, f"oldest_version is {line.oldest_version}, its tokens say {oldest}")
    if line.staleness is not None and before is not None and line.staleness != before - line.oldest_version:
        yield error("E153", place, f"staleness is {line.staleness}, expected {before - line.oldest_version}")


def optimizer(record: RunRecord) -> Iterator[Finding]:
    """E154: the same learning rates and first adapters in all arms, and something learnt."""
    for seed, views in _by_seed(record).items():
        traces = {view.arm: _rates(view) for view in views}
        first = views[0].arm
        for arm, trace in traces.items():
            if _differ(trace, traces[first]):
                yield error(
                    "E154", "updates.jsonl", f"seed {seed}: learning rates of {arm} differ from {first}'s"
                )
            for tenant, rates in trace.items():
                if rates and not any(rates):
                    yield error(
                        "E154", "updates.jsonl", f"{arm}, seed {seed}, {tenant}: the learning rate is 0"
                    )
    initial: dict[tuple[int, str], tuple[str, str]] = {}
    for run in record.header.runs:
        for tenant, hashes in run.adapters.items():
            arm, sha = initial.setdefault((run.seed, tenant), (run.arm, hashes.initial_sha256))
            if sha != hashes.initial_sha256:
                yield error(
                    "E154", "run.json", f"{tenant}, seed {run.seed}: {run.arm} and {arm} start differently"
                )


def equal_work(record: RunRecord) -> Iterator[Finding]:
    """E155: per seed, the arms consumed the same items and made as many updates."""
    for seed, views in _by_seed(record).items():
        works = {view.arm: _work(view) for view in views}
        first = views[0].arm
        for arm, (items, updates) in works.items():
            if updates != works[first][1]:
                yield error(
                    "E155",
                    "updates.jsonl",
                    f"seed {seed}: {arm} made updates {updates}, {first} {works[first][1]}",
                )
            if items != works[first][0]:
                lacking = sum((works[first][0] - items).values())
                extra = sum((items - works[first][0]).values())
                yield error(
                    "E155",
                    "rollouts.jsonl",
                    f"seed {seed}: {arm} lacks {lacking} samples of {first} and has {extra} others",
                )


def _work(view: ArmView) -> tuple[Counter[tuple[str, str, int]], dict[str, int]]:
    ordinals = {(u.tenant, ordinal) for u in view.updates for ordinal in u.ordinals}
    items = Counter(
        (line.tenant, line.item_uid, line.sample_index)
        for line in view.rollouts
        if (line.tenant, line.ordinal) in ordinals and line.fate in ("consumed", "filtered")
    )
    return items, dict(sorted(Counter(u.tenant for u in view.updates).items()))


def _differ(trace: dict[str, list[float | None]], other: dict[str, list[float | None]]) -> bool:
    """True unless one's rates go on where the other's end: an arm may have had fewer steps."""
    return any(
        left != right for name in trace for left, right in zip(trace[name], other.get(name, ()), strict=False)
    )


def _rates(view: ArmView) -> dict[str, list[float | None]]:
    """Learning rates by tenant of the updates that took a step: warm-up counts those."""
    rates: dict[str, list[float | None]] = defaultdict(list)
    for update in view.updates:
        if update.skipped is None:
            rates[update.tenant].append(update.learning_rate)
    return dict(sorted(rates.items()))


def _by_seed(record: RunRecord) -> dict[int, list[ArmView]]:
    found: dict[int, list[ArmView]] = defaultdict(list)
    for view in record.views:
        found[view.seed].append(view)
    return found
