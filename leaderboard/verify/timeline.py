"""E123, E131, E132: the plan, the clock and the windows of the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from leaderboard.metrics.work import NS
from leaderboard.records import ArmView, RunRecord
from leaderboard.schema import ArmRun, Json, RunHeader, TurnLine
from leaderboard.verify.report import Finding, error

SLACK_NS = 100_000_000
MAX_SEEDS = 100_000


def plan(record: RunRecord) -> Iterator[Finding]:
    """E123: every arm and seed of the plan came to its end."""
    header = record.header
    wanted = {(arm.arm, seed) for arm in header.arms for seed in header.seeds}
    done = {(run.arm, run.seed): run for run in header.runs}
    for arm, seed in sorted(wanted):
        run = done.get((arm, seed))
        status = "missing" if run is None else run.status
        if status != "success":
            reason = f": {run.reason[:120]}" if run is not None and run.reason else ""
            yield error(
                "E123", "run.json", f"{arm}, seed {seed}: {status}{reason}", "run the comparison whole"
            )
    for arm, seed in sorted(done.keys() - wanted):
        yield error("E123", "run.json", f"{arm}, seed {seed} isn't in the plan")
    if len(done) != len(header.runs) or len(set(header.seeds)) != len(header.seeds):
        yield error("E123", "run.json", "an arm and seed, or a seed, occurs twice")
    if header.seeds not in _seeds(header.config):
        yield error("E123", "run.json", f"the seeds are {header.seeds[:20]}, not those of the configuration")
    if set(header.order) != wanted:
        yield error("E123", "run.json", "the order of the runs isn't that of the arms and seeds")
    if header.status != "success":
        yield error("E123", "run.json", f"the comparison's status is {header.status!r}", "run it to its end")


def clock(record: RunRecord) -> Iterator[Finding]:
    """E131: time runs forward, and wall and monotonic clocks agree."""
    before = 0
    for number, event in enumerate(record.events, start=1):
        if event.t_ns < before:
            yield error(
                "E131", f"events.jsonl:{number}", f"t_ns {event.t_ns} is before its predecessor {before}"
            )
        before = event.t_ns
    for number, line in enumerate(record.rollouts, start=1):
        yield from _episode(f"rollouts.jsonl:{number}", line.turns, line.t_start_ns, line.t_end_ns)
    for number, line in enumerate(record.evals, start=1):
        yield from _episode(f"evals.jsonl:{number}", line.turns, 0, 2**63)
    for number, update in enumerate(record.updates, start=1):
        stepped = update.version_after > update.version_before
        published = update.published_ns if stepped else update.t1_ns
        if not update.t0_ns <= update.t1_ns <= published:
            yield error("E131", f"updates.jsonl:{number}", "t0, t1 and published_ns aren't in order")
    yield from clock_anchors(record.header)


def clock_anchors(header: RunHeader) -> Iterator[Finding]:
    """E131: over the whole run, as much time went by on the wall as on the monotonic clock."""
    anchors = header.clock
    if anchors.wall_stop_utc is not None and anchors.monotonic_stop_ns is not None:
        wall = anchors.wall_stop_utc - anchors.wall_start_utc
        steady = (anchors.monotonic_stop_ns - anchors.monotonic_start_ns) / NS
        if abs(wall - steady) > 1.0 + 1e-4 * abs(steady):
            yield error(
                "E131", "run.json", f"{wall:.3f} s by the wall clock, {steady:.3f} s by the monotonic one"
            )


def windows(record: RunRecord) -> Iterator[Finding]:
    """E132: one run_start and run_stop each, equal to run.json's, and everything between them."""
    marks = Counter((e.arm, e.seed, e.key) for e in record.events if e.key in ("run_start", "run_stop"))
    for run in record.header.runs:
        for key in ("run_start", "run_stop"):
            if marks[run.arm, run.seed, key] != 1:
                count = marks[run.arm, run.seed, key]
                yield error(
                    "E132", "events.jsonl", f"{run.arm}, seed {run.seed}: {count} {key} events, not 1"
                )
    known = {(run.arm, run.seed): run for run in record.header.runs}
    windows_of: dict[tuple[str, int], tuple[int, int]] = {}
    for view in record.views:
        windows_of[view.arm, view.seed] = (view.start_ns, view.stop_ns)
        run = known.get((view.arm, view.seed))
        if run is None or not _same_window(run, view):
            yield error("E132", "run.json", f"{view.arm}, seed {view.seed}: times differ from the events'")
        yield from _event_window(view)
    for file, lines in (("rollouts", record.rollouts), ("updates", record.updates)):
        for number, line in enumerate(lines, start=1):
            start, stop = windows_of.get((line.arm, line.seed), (0, -1))
            t0 = line.t_start_ns if hasattr(line, "t_start_ns") else line.t0_ns  # type: ignore[union-attr]
            t1 = line.t_end_ns if hasattr(line, "t_end_ns") else line.t1_ns  # type: ignore[union-attr]
            if not (start <= t0 and t1 <= stop):
                yield error("E132", f"{file}.jsonl:{number}", "outside run_start and run_stop of its run")
    for number, line in enumerate(record.evals, start=1):
        start, stop = windows_of.get((line.arm, line.seed), (0, -1))
        # the snapshot before training may be taken before the clock starts; none is taken after it stops
        if line.snapshot_ns > stop or (line.eval_id > 0 and line.snapshot_ns < start):
            yield error("E132", f"evals.jsonl:{number}", "snapshot outside run_start and run_stop of its run")


def _seeds(config: Json) -> list[list[int]]:
    """The seeds that a configuration gives: counted from its first seed, or as its numbers 0, 1, 2, …"""
    first, count = config.get("seed"), config.get("seeds")
    if not isinstance(first, int) or not isinstance(count, int) or not 0 < count <= MAX_SEEDS:
        return []
    return [list(range(first, first + count)), list(range(count))]


def _same_window(run: ArmRun, view: ArmView) -> bool:
    """True if both say the same, but for the time it takes to write an event."""
    return max(abs(run.t_start_ns - view.start_ns), abs(run.t_stop_ns - view.stop_ns)) <= SLACK_NS


def _event_window(view: ArmView) -> Iterator[Finding]:
    for event in view.events:
        # compiling and the first snapshot come before the clock starts; only warnings come after it stops
        early = event.key in ("compile", "warning", "snapshot")
        late = event.t_ns > view.stop_ns and event.key not in ("warning", "checkpoint", "resumed")
        if late or (event.t_ns < view.start_ns and not early):
            yield error(
                "E132", f"events.jsonl:{event.seq + 1}", f"{event.key} outside run_start and run_stop"
            )


def _episode(place: str, turns: list[TurnLine], start: int, stop: int) -> Iterator[Finding]:
    if start > stop:
        yield error("E131", place, "the episode ends before it starts")
    at = start
    for index, turn in enumerate(turns):
        if not at <= turn.t0_ns <= turn.t1_ns <= stop:
            yield error(
                "E131", place, f"turn {index}: its times don't follow the turn before or leave the episode"
            )
            return
        at = turn.t0_ns
