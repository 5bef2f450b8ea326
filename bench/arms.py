"""The arms of a run by label: the four timetables, and the baseline once more as its own control.

`S1-aa` is S1 again. Its ratio to S1 is what this machine makes out of nothing: the noise floor of every speed-up.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.errors import UsageError
from tunix_core import schedule

REPEAT = "-aa"
"""Ends the label of an arm that repeats another."""
BASELINE = "S1"
MIN_SEEDS = 2
"""Of the A/A pair, where nobody asked for it: one pair has no interval."""


def labels(arms: Sequence[str], seeds: int, aa: bool | None) -> tuple[str, ...]:
    """Every arm that is run, the A/A repeat last: further from the baseline than any arm it is a floor for.

    Args:
      arms: timetables asked for.
      seeds: how many.
      aa: whether the baseline is run twice; None: where there are arms to compare, and two seeds.
    Raises:
      UsageError: an A/A pair without a baseline.
    """
    possible = BASELINE in arms
    if aa and not possible:
        raise UsageError(
            f"aa = true, and {BASELINE} is not among the arms {', '.join(arms)}",
            f"add {BASELINE}, or --no-aa",
        )
    wanted = possible and len(arms) > 1 and seeds >= MIN_SEEDS if aa is None else aa
    return (*arms, BASELINE + REPEAT) if wanted else tuple(arms)


def repeated(label: str) -> str | None:
    """The arm that a label repeats; None for an arm of its own."""
    return label.removesuffix(REPEAT) if label.endswith(REPEAT) else None


def timetable(label: str, max_staleness: int) -> schedule.ScheduleSpec:
    """The timetable behind a label; `max_staleness` is A1's."""
    name = repeated(label) or label
    return schedule.arm(name, max_staleness if name == "A1" else None)
