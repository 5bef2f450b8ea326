"""E122, E154, E155, E162-E164: the same work, learnt at the same rate, asked and scored in the same way."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bench.fairness.side import Side
from leaderboard import canonical
from leaderboard.outline import EvalOutline, RolloutOutline
from leaderboard.verify.report import Finding, error

SHOWN = 3
"""Differences that are named; the rest is counted."""


def equal(a: Side, b: Side) -> Iterator[Finding]:
    """E155, E164: updates, consumed items and evaluated items, each as a multiset."""
    for code, what, of in (
        ("E155", "updates per tenant", lambda s: Counter(u.tenant for u in s.view.updates)),
        ("E155", "consumed items", _consumed),
        ("E164", "evaluated items", lambda s: Counter((e.tenant, e.eval_id, e.item_uid) for e in s.evals)),
    ):
        first, second = of(a), of(b)
        if first != second:
            yield unequal(code, a, b, what, _difference(first, second))


def settings(a: Side, b: Side) -> Iterator[Finding]:
    """E122: what each arm was really built with: shapes, caps, sampling, loss, optimizer, threads, latency."""
    for side in (a, b):
        digest = side.run.settings_sha256 if side.run is not None else None
        found = side.header.settings.get(digest or "")
        if digest is not None and (found is None or canonical.sha256(canonical.encode(found)) != digest):
            yield error("E122", "run.json", f"{side.name}: its settings do not hash to {digest[:12]}…")
    first, second = _settings(a), _settings(b)
    if first is None or second is None:
        return
    found = [f"{path} is {x!r} and {y!r}" for path, x, y in _leaves(first, second)]
    if found:
        more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        yield unequal("E122", a, b, "settings", ", ".join(found[:SHOWN]) + more)


def rates(a: Side, b: Side) -> Iterator[Finding]:
    """E154: the learning rates of the steps that were taken, in their order; and none of them 0."""
    first, second = _rates(a), _rates(b)
    for tenant in sorted(first.keys() & second.keys()):
        pairs = enumerate(zip(first[tenant], second[tenant], strict=False))
        differing = next(((k, x, y) for k, (x, y) in pairs if x != y), None)
        if differing is not None:
            k, x, y = differing
            yield unequal("E154", a, b, "learning rates", f"{tenant}, step {k}: {x} and {y}")
    if not a.header.config.get("learning_rate"):
        return
    for side, found in ((a, first), (b, second)):
        still = sorted(tenant for tenant, steps in found.items() if not all(steps))
        if still:
            reason = f"unequal work, seed {side.view.seed}: an update of {side.label} was taken with learning rate 0"
            yield error("E154", "updates.jsonl", f"{reason} ({', '.join(still)})")


def prompts(a: Side, b: Side) -> Iterator[Finding]:
    """E162: an item opens with the same tokens in both arms: one template, one system prompt."""
    for file, of in (("rollouts.jsonl", lambda s: s.rollouts), ("evals.jsonl", lambda s: s.evals)):
        first, second = _openings(of(a)), _openings(of(b))
        differing = [key for key in first.keys() & second.keys() if first[key] != second[key]]
        if differing:
            tenant, item = min(differing)
            yield unequal(
                "E162", a, b, "prompts", f"{len(differing)} items, e.g. {item[:12]} of {tenant}", place=file
            )


def adapters(a: Side, b: Side) -> Iterator[Finding]:
    """E154: every tenant begins with the same adapter in both arms."""
    if a.run is None or b.run is None:
        return
    for tenant in sorted(a.run.adapters.keys() & b.run.adapters.keys()):
        first, second = (run.adapters[tenant].initial_sha256 for run in (a.run, b.run))
        if first != second:
            yield unequal("E154", a, b, "first adapters", f"{tenant}: {first[:12]}… and {second[:12]}…")


def samples(side: Side) -> Iterator[Finding]:
    """E163, E164: no group drew more samples than it learns from, no item was scored twice: no best of several."""
    sizes = {tenant.tenant: tenant.group_size for tenant in side.header.tenants}
    drawn = Counter((r.tenant, r.ordinal) for r in side.rollouts)
    many = [key for key, count in drawn.items() if count > sizes.get(key[0], count)]
    if many:
        tenant, ordinal = min(many)
        yield error(
            "E163",
            "rollouts.jsonl",
            f"{side.name}: {len(many)} groups drew more samples than the group size, e.g. {drawn[tenant, ordinal]} "
            f"for group {ordinal} of {tenant}: the best of several",
        )
    scored = Counter((e.tenant, e.eval_id, e.env_id, e.env_seed, e.item_index) for e in side.evals)
    twice = sum(count > 1 for count in scored.values())
    if twice:
        yield error(
            "E164",
            "evals.jsonl",
            f"{side.name}: {twice} items were scored more than once in an evaluation: the best of several",
        )


def caps(side: Side) -> Iterator[Finding]:
    """E155: no turn is longer than the cap, and none that was cut is shorter."""
    sampling = side.header.sampling
    for kind, settings, lines in (
        ("train", sampling.get("train", {}), side.rollouts),
        ("eval", sampling.get("eval", {}), side.evals),
    ):
        cap = settings.get("max_new_tokens")
        if not isinstance(cap, int):
            continue
        for reason in _lengths(lines, cap, kind):
            yield error(
                "E155", f"{_file(kind)}", f"unequal work, seed {side.view.seed}: {side.label} {reason}"
            )


def contaminated(side: Side) -> Iterator[Finding]:
    """E162: nothing that is scored was trained on."""
    scored = {e.item_uid for e in side.evals if e.item_uid}
    learnt = sum(r.item_uid in scored for r in side.rollouts if r.error is None)
    if learnt:
        yield error(
            "E162", "rollouts.jsonl", f"{side.name}: {learnt} rollouts trained on items that are evaluated"
        )
    wrong = sum(r.split != "train" for r in side.rollouts) + sum(e.split == "train" for e in side.evals)
    if wrong:
        yield error("E162", "rollouts.jsonl", f"{side.name}: {wrong} lines are of the wrong split")


def unequal(code: str, a: Side, b: Side, what: str, difference: str, place: str = "run.json") -> Finding:
    """A difference between two arms, named."""
    return error(
        code,
        place,
        f"unequal work, seed {a.view.seed}: {what} differ between {a.label} and {b.label}: {difference}",
    )


def _consumed(side: Side) -> Counter[Any]:
    return Counter(
        (r.tenant, r.ordinal, r.item_uid) for r in side.rollouts if r.fate in ("consumed", "errored")
    )


def _rates(side: Side) -> dict[str, list[float | None]]:
    """By tenant. A tenant without signal takes no step; what it would have used says nothing."""
    found: dict[str, list[float | None]] = defaultdict(list)
    for update in sorted(side.view.updates, key=lambda u: u.version_before):
        if update.skipped is None:
            found[update.tenant].append(update.learning_rate)
    return found


def _settings(side: Side) -> Mapping[str, Any] | None:
    digest = side.run.settings_sha256 if side.run is not None else None
    return None if digest is None else side.header.settings.get(digest)


def _openings(lines: Iterable[RolloutOutline | EvalOutline]) -> dict[tuple[str, str], set[Any]]:
    found: dict[tuple[str, str], set[Any]] = defaultdict(set)
    for line in lines:
        if line.turns and line.turns[0].role == "environment":
            found[line.tenant, line.item_uid].add(line.turns[0].content)
    return found


def _lengths(lines: Iterable[RolloutOutline | EvalOutline], cap: int, kind: str) -> Iterator[str]:
    turns = [turn for line in lines for turn in line.turns if turn.role == "policy"]
    longest = max((turn.content.tokens for turn in turns), default=0)
    if longest > cap:
        yield f"sampled a turn of {longest} tokens ({kind}), the cap is {cap}"
    cut = [turn.content.tokens for turn in turns if turn.stop == "max_tokens" and turn.content.tokens < cap]
    if cut:
        yield f"cut {len(cut)} turns at {max(cut)} tokens or fewer ({kind}), the cap is {cap}: caps differ"


def _file(kind: str) -> str:
    return {"train": "rollouts.jsonl", "eval": "evals.jsonl"}[kind]


def _difference(first: Counter[Any], second: Counter[Any]) -> str:
    more, less = first - second, second - first
    one = next(iter(more or less))
    return f"{more.total()} only in the first, {less.total()} only in the second, e.g. {one}"


def _leaves(first: Any, second: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in sorted(first.keys() | second.keys()):
            yield from _leaves(first.get(key), second.get(key), f"{path}.{key}" if path else str(key))
    elif first != second:
        yield path, first, second
