"""Whether a comparison is fair, read from the records and not from flags.

`whole` looks at a record, `alone` at one (arm, seed), `paired` at an arm beside the baseline of its seed, `slower` at
all pairs of an arm together, `across` at two records whose arms are paired. An error refuses the comparison; a warning
stands beside it and holds its claim back. What each code means: `leaderboard.verify.report.EXPLAIN`.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.fairness import clock, device, records, work
from bench.fairness.side import Side
from leaderboard.verify.report import Finding

__all__ = ["Finding", "Side", "across", "alone", "paired", "slower", "whole"]

across = records.across
slower = device.slower
whole = records.whole


def alone(side: Side) -> Iterator[Finding]:
    """What must hold of every (arm, seed) by itself."""
    yield from clock.ended(side)
    yield from clock.paused(side)
    yield from clock.resumed(side)
    yield from work.samples(side)
    yield from work.caps(side)
    yield from work.contaminated(side)


def paired(baseline: Side, other: Side) -> Iterator[Finding]:
    """What must be the same in two arms of one seed, the timetable aside; and that the baseline wasn't held up."""
    yield from work.settings(baseline, other)
    yield from work.equal(baseline, other)
    yield from work.rates(baseline, other)
    yield from work.prompts(baseline, other)
    yield from work.adapters(baseline, other)
    yield from clock.compiled(baseline, other)
    yield from device.same(baseline, other)
    yield from device.held_up(baseline, other)
