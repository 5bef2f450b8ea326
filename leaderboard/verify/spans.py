"""E141, E144: device spans are what the transcripts and updates say the device did, and no device is that fast.

A record's spans can be stretched, moved or invented by whoever writes it. What holds them is that every fenced
pass has something in another file that began or ended with it: a turn, an update, a publication.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator

from leaderboard.metrics.intervals import Interval, merge
from leaderboard.metrics.work import NS
from leaderboard.records import ArmView, RunRecord, parse
from leaderboard.schema import SpanLine
from leaderboard.verify.report import Finding, error

SAMPLING = ("prefill", "decode")
MIN_GAP_NS = 1_000
"""Between two fenced passes of one device the host reads the clock twice and builds the next call; that takes
hundreds of microseconds in Python. A span that ends the very moment another begins was drawn, not measured."""
PEAK_FLOPS = {
    "H100": 1.98e15,
    "H200": 1.98e15,
    "A100": 6.3e14,
    "L40": 7.4e14,
    "L4": 4.9e14,
    "V100": 1.3e14,
    "T4": 1.3e14,
    "TPU v4": 2.8e14,
    "TPU v5 lite": 4.0e14,
    "TPU v5": 4.6e14,
    "TPU v6": 1.9e15,
}
"""Dense peak operations a second of the fastest number format, from the makers' data sheets, rounded up."""
FASTEST_FLOPS = 2e16
"""Of a device that isn't in the table: more than one chip of 2026 does."""
CORE_FLOPS = 3.2e11
"""Of one CPU core: two fused multiply-adds over 16 floats a cycle, 5 GHz."""
MAX_CORES = 1024


def spans(record: RunRecord) -> Iterator[Finding]:
    """E141: lengths, work, windows and overlap."""
    devices = {device.id for device in record.header.devices}
    windows_of = {(view.arm, view.seed): (view.start_ns, view.stop_ns) for view in record.views}
    tracks: dict[str, list[tuple[int, SpanLine]]] = defaultdict(list)
    for number, span in enumerate(record.spans, start=1):
        place = f"spans.jsonl:{number}"
        start, stop = windows_of.get((span.arm, span.seed), (0, -1))
        if span.t0_ns >= span.t1_ns:
            yield error("E141", place, "the span ends before it starts")
        elif span.role != "eval" and not (start <= span.t0_ns and span.t1_ns <= stop):
            yield error("E141", place, "outside run_start and run_stop of its run")
        if span.real_tokens > span.executed_slots:
            yield error("E141", place, f"{span.real_tokens} real tokens in {span.executed_slots} token slots")
        if span.device not in devices:
            yield error("E141", place, f"device {span.device!r} isn't among those of run.json")
        tracks[span.device].append((number, span))
    for track in tracks.values():
        track.sort(key=lambda pair: (pair[1].t0_ns, pair[1].t1_ns))
        until = -MIN_GAP_NS
        for number, span in track:
            place = f"spans.jsonl:{number}"
            if span.t0_ns < until:
                yield error("E141", place, "overlaps another span of its device")
            elif span.t0_ns - until < MIN_GAP_NS:
                yield error("E141", place, "begins the moment another ends", "was that one stretched?")
            until = max(until, span.t1_ns)


def pinned(record: RunRecord) -> Iterator[Finding]:
    """E141: passes begin and end with the turns, updates and publications they made."""
    numbers = {id(span): number for number, span in enumerate(record.spans, start=1)}
    rollouts = {id(line): number for number, line in enumerate(record.rollouts, start=1)}
    updates = {id(line): number for number, line in enumerate(record.updates, start=1)}
    for view in record.views:
        yield from _training(view, numbers, updates)
        yield from _publications(view, numbers)
        if any(event.key == "resumed" for event in view.events):
            continue  # W205: turns under way when the earlier process ended are in no line, their passes are
        yield from _turns(view, rollouts)
        yield from _sampling(view, numbers)
        yield from _tokens(view)
        yield from _prompts(view)


def fast(record: RunRecord) -> Iterator[Finding]:
    """E144: no span did more arithmetic than the device named in run.json can."""
    parameters = record.header.model.parameters
    peaks = {device.id: _peak(device.kind, record) for device in record.header.devices}
    for number, span in enumerate(record.spans, start=1):
        # a multiply and an add a parameter and token; training goes forward and back. Half of it counts: tables
        # of embeddings are looked up, not multiplied
        passes = 2 if span.role == "train" else 1
        least = parameters * span.real_tokens * passes
        most = peaks.get(span.device, FASTEST_FLOPS) * (span.t1_ns - span.t0_ns) / NS
        if span.t1_ns > span.t0_ns and least > most:
            rate = span.real_tokens * NS / (span.t1_ns - span.t0_ns)
            yield error("E144", f"spans.jsonl:{number}", f"{rate:.3g} tokens/s, more than the device can")


def _peak(kind: str, record: RunRecord) -> float:
    if kind.lower() == "cpu":
        path = record.directory / "system.json"
        system = parse(path.read_bytes(), "system.json") if path.is_file() else {}
        cores = system.get("cores") if isinstance(system, dict) else None
        return CORE_FLOPS * (cores if isinstance(cores, int) and 0 < cores <= MAX_CORES else MAX_CORES)
    return next((peak for name, peak in PEAK_FLOPS.items() if name in kind), FASTEST_FLOPS)


def _turns(view: ArmView, rollouts: dict[int, int]) -> Iterator[Finding]:
    """Every sampled turn begins with a prefill of its tenant and ends with a pass of it."""
    begun = {(tenant, s.t0_ns) for s in view.spans if s.role == "prefill" for tenant in s.tenants}
    ended = {(tenant, s.t1_ns) for s in view.spans if s.role in SAMPLING for tenant in s.tenants}
    for line in view.rollouts:
        for index, turn in enumerate(line.turns):
            if turn.role != "policy":
                continue
            if (line.tenant, turn.t0_ns) not in begun or (line.tenant, turn.t1_ns) not in ended:
                place = f"rollouts.jsonl:{rollouts[id(line)]}"
                yield error("E141", place, f"turn {index}: no pass of the device began or ended with it")


def _sampling(view: ArmView, numbers: dict[int, int]) -> Iterator[Finding]:
    """The device samples only while a turn of one of the span's tenants is under way."""
    open_turns: dict[str, list[Interval]] = defaultdict(list)
    for line in view.rollouts:
        if line.fate in ("surplus", "errored"):
            # turns under way when an episode was dropped are in no line
            open_turns[line.tenant].append((line.t_start_ns, line.t_end_ns))
        open_turns[line.tenant] += [(t.t0_ns, t.t1_ns) for t in line.turns if t.role == "policy"]
    merged = {tenant: merge(turns) for tenant, turns in open_turns.items()}
    for span in view.spans:
        sampled = span.role in SAMPLING or (span.role == "sync" and span.executed_slots and span.tenants)
        if sampled and not all(_inside(span, merged.get(tenant, [])) for tenant in span.tenants):
            if span.role == "sync" and _self_check(span, view):
                continue
            yield error("E141", f"spans.jsonl:{numbers[id(span)]}", "no turn was under way all the time")


def _training(view: ArmView, numbers: dict[int, int], updates: dict[int, int]) -> Iterator[Finding]:
    """A train span ends with the updates of its tenants and does the work they tell; every update has one."""
    made = {(u.tenant, u.t1_ns): u for u in view.updates}
    trained: set[tuple[str, int]] = set()
    for span in view.spans:
        if span.role != "train":
            continue
        place = f"spans.jsonl:{numbers[id(span)]}"
        for tenant in span.tenants:
            update = made.get((tenant, span.t1_ns))
            trained.add((tenant, span.t1_ns))
            if update is None or span.t0_ns < update.t0_ns:
                yield error("E141", place, f"no update of {tenant[:40]!r} ended with it")
            elif (update.real_tokens, update.executed_slots) != (span.real_tokens, span.executed_slots):
                said = f"{update.real_tokens} tokens in {update.executed_slots} slots"
                yield error("E141", place, f"its update says {said}")
    for key, update in made.items():
        if key not in trained:
            place = f"updates.jsonl:{updates[id(update)]}"
            yield error("E141", place, "no train span ended with it", "were spans left out?")


def _publications(view: ArmView, numbers: dict[int, int]) -> Iterator[Finding]:
    """Device time for a new adapter ends before its publication is told, and there is one for each."""
    told: dict[str, list[int]] = defaultdict(list)
    for event in view.events:
        if event.key == "adapter.published":
            told[str(event.value.get("tenant"))].append(event.t_ns)
    used: dict[str, set[int]] = defaultdict(set)
    for span in sorted((s for s in view.spans if s.role == "sync" and not s.executed_slots), key=_start):
        place = f"spans.jsonl:{numbers[id(span)]}"
        for tenant in span.tenants:
            at = bisect_left(told[tenant], span.t1_ns)
            if at == len(told[tenant]) or at in used[tenant]:
                yield error("E141", place, f"no adapter of {tenant[:40]!r} was published with it")
            used[tenant].add(at)


def _tokens(view: ArmView) -> Iterator[Finding]:
    """Spans hold no more useful work than the lines: sampled tokens, and what updates consumed."""
    whose = f"{view.arm}, seed {view.seed}"
    sampled = sum(line.completion_tokens for line in view.rollouts)
    turns = sum(t.role == "policy" and bool(t.token_ids) for line in view.rollouts for t in line.turns)
    decoded = sum(span.real_tokens for span in view.spans if span.role == "decode")
    dropped = any(line.fate in ("surplus", "errored") for line in view.rollouts)
    if decoded + turns != sampled and not (dropped and decoded + turns > sampled):
        said = f"decoding gave {decoded} tokens beside {turns} first ones, the turns hold {sampled}"
        yield error("E141", "spans.jsonl", f"{whose}: {said}")
    consumed: Counter[str] = Counter()
    for line in view.rollouts:
        if line.consumed_in is not None:
            consumed["train"] += line.prompt_tokens + line.completion_tokens
    trained = sum(span.real_tokens for span in view.spans if span.role == "train")
    if trained > consumed["train"]:
        said = f"{trained} tokens trained on, the consumed rollouts hold {consumed['train']}"
        yield error("E141", "spans.jsonl", f"{whose}: {said}")


def _prompts(view: ArmView) -> Iterator[Finding]:
    """E122: every distinct prompt of a tenant was read in this run; none came from a cache filled before it."""
    contexts: set[tuple[str, bytes]] = set()
    least = 0
    for line in view.rollouts:
        digest, length = hashlib.sha256(), 0
        for turn in line.turns:
            if turn.role == "policy" and (line.tenant, digest.digest()) not in contexts:
                contexts.add((line.tenant, digest.digest()))
                least += length
            digest.update(repr(turn.token_ids).encode())
            length += len(turn.token_ids)
    read = sum(span.real_tokens for span in view.spans if span.role == "prefill")
    if read < least:
        said = f"prefill read {read} tokens, its distinct prompts hold {least}"
        yield error("E122", "spans.jsonl", f"{view.arm}, seed {view.seed}: {said}", "start with a cold cache")


def _self_check(span: SpanLine, view: ArmView) -> bool:
    """Whether a pass scored the first updates: the self-checks of all its tenants are told right after it.

    Or after the step that it stood before, which is told of at the same time.
    """
    after = {
        event.value.get("tenant"): event.t_ns
        for event in reversed(view.events)
        if event.key == "self_check" and event.t_ns >= span.t1_ns
    }
    if not all(tenant in after for tenant in span.tenants):
        return False
    last = max((after[tenant] for tenant in span.tenants), default=0)
    between = sorted((o for o in view.spans if o.t0_ns > span.t0_ns and o.t1_ns < last), key=_start)
    if between and between[0].role == "train" and set(span.tenants) <= set(between[0].tenants):
        between = between[1:]
    return not between


def _inside(span: SpanLine, merged: list[Interval]) -> bool:
    at = bisect_right(merged, (span.t0_ns, 2**64)) - 1
    return at >= 0 and merged[at][0] <= span.t0_ns and span.t1_ns <= merged[at][1]


def _start(span: SpanLine) -> int:
    return span.t0_ns
