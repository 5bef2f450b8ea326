"""E131, E155: environments took the time that their simulated latency says, and the baseline no longer.

A simulated delay is a pure function of an episode's coordinates, so a record can be held to it: times that
were scaled, or waiting that was cut out, come out shorter than the delay; a baseline that was made to wait
comes out longer than the other arm.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from itertools import pairwise

from leaderboard.metrics.intervals import Interval, length, merge, subtract
from leaderboard.metrics.pairing import BASELINE
from leaderboard.metrics.work import NS, work_window
from leaderboard.records import ArmView, RunRecord
from leaderboard.schema import RolloutLine
from leaderboard.verify.report import Finding, error, warning
from leaderboard.verify.resumed import standstills
from tasks import latency

TOLERANCE_NS = 100_000
"""A sleep never ends early; two clocks read one after the other may differ by less than that."""
MAX_EXCESS = 0.2
"""Of the simulated delay, that a baseline's environments may take longer than the other arm's."""
MAX_IDLE = 0.3
"""Of its time, that the baseline may stand still, neither device nor environment at work, more than the other arm."""


def delays(record: RunRecord) -> Iterator[Finding]:
    """E131: no environment answered before its simulated latency was over."""
    profile = _profile(record)
    if profile is None:
        return
    for number, line in enumerate(record.rollouts, start=1):
        told = _delays_ns(line, profile)
        if told is None:
            continue
        slack = TOLERANCE_NS * len(told)
        if line.env_ns + slack < sum(told):
            said = f"{line.env_ns / NS:.3f} s in the environment, its simulated latency is {sum(told) / NS:.3f} s"
            yield error("E131", f"rollouts.jsonl:{number}", said, "were times scaled or waiting cut out?")
        elif any(took + TOLERANCE_NS < delay for took, delay in zip(_waits_ns(line), told, strict=True)):
            yield error(
                "E131", f"rollouts.jsonl:{number}", "a turn began before the simulated latency was over"
            )


def baseline(record: RunRecord) -> Iterator[Finding]:
    """E155, as a warning: the baseline's environments were slower, or it stood still, more than the other arm."""
    profile = _profile(record)
    measures = (
        (
            lambda view: _idle(view, record),
            MAX_IDLE,
            "of its time neither the device nor an environment was at work, beyond that of",
        ),
        (lambda view: _excess(view, profile), MAX_EXCESS, "longer than simulated took environments, beyond"),
    )
    for measure, most, what in measures:
        by_arm: dict[str, list[float]] = {}
        for view in record.views:
            value = measure(view)
            if value is not None:
                by_arm.setdefault(view.arm, []).append(value)
        means = {arm: statistics.fmean(own) for arm, own in by_arm.items()}
        for arm, mean in means.items():
            if means.get(BASELINE, 0.0) - mean > most:
                said = f"{BASELINE}: {means[BASELINE] - mean:.0%} {what} {arm}"
                yield warning("E155", "rollouts.jsonl", said, "was the baseline slowed down?")


def _profile(record: RunRecord) -> latency.LatencyProfile | None:
    config = record.header.config
    seed = config.get("seed", 0)
    try:
        found = latency.parse(str(config.get("latency")), seed=seed if isinstance(seed, int) else 0)
    except latency.LatencyError:
        return None  # E122 says so
    return found if found.simulated else None


def _delays_ns(line: RolloutLine, profile: latency.LatencyProfile) -> list[int] | None:
    """The delay after each turn that an environment answered; None where the last answer never came."""
    if line.error is not None or line.fate == "surplus" or line.stop == "error":
        return None
    place = (line.env_id, line.env_seed, line.item_index, line.sample_index)
    answered = sum(turn.role == "policy" and turn.stop == "eos" for turn in line.turns)
    return [int(profile.delay_s((*place, turn + 1)) * NS) for turn in range(answered)]


def _waits_ns(line: RolloutLine) -> list[int]:
    """From the end of each answered turn to the next one's start, or to the end of the episode."""
    sampled = [turn for turn in line.turns if turn.role == "policy"]
    nexts = [*(turn.t0_ns for turn in sampled[1:]), line.t_end_ns]
    return [later - turn.t1_ns for turn, later in zip(sampled, nexts, strict=False) if turn.stop == "eos"]


def _excess(view: ArmView, profile: latency.LatencyProfile | None) -> float | None:
    """How much longer tools took than their delay, as a share of it; grading at the end is left out."""
    if profile is None:
        return None
    took = due = 0
    for line in view.rollouts:
        told = _delays_ns(line, profile) or []
        replies = [
            turn.t1_ns - turn.t0_ns
            for before, turn in pairwise(line.turns)
            if before.role == "policy" and turn.role == "environment"
        ]
        # the last reply grades, and most often says nothing
        for reply, delay in zip(replies, told[:-1], strict=False):
            took, due = took + reply, due + delay
    return (took - due) / due if due else None


def _idle(view: ArmView, record: RunRecord) -> float:
    """The share of the window in which no span is open and no episode waits for its environment, resumptions aside."""
    window = work_window(view)
    busy: list[Interval] = [(span.t0_ns, span.t1_ns) for span in view.spans]
    busy += [(update.t0_ns, update.published_ns) for update in view.updates]
    busy += standstills(record.header, view)
    for line in view.rollouts:
        at = line.t_start_ns
        for turn in line.turns:
            if turn.role == "policy":
                busy.append((at, turn.t0_ns))
                at = turn.t1_ns
        busy.append((at, line.t_end_ns))
    total = window[1] - window[0]
    return length(subtract([window], merge(busy))) / total if total else 0.0
