"""What may be said of a pair of arms: the rules that turn ratios, a noise floor and parity into one sentence."""

from __future__ import annotations

import math
from typing import Literal

from leaderboard.stats import Parity, Ratio, seeds_for_parity

OFFICIAL_SEEDS = 5
"""Fewer paired seeds make a preliminary result."""

Finding = Literal["faster", "slower", "no difference", "withheld", "observation"]


def finding(ratio: Ratio, floor: Ratio | None, parity: Parity | None, doubts: tuple[str, ...]) -> Finding:
    """What the figures allow to say.

    A difference is one if its whole interval lies on one side of 1 and beyond what the A/A pair makes of nothing,
    whichever way round that pair is read. It is claimed if accuracy is at parity and nothing else casts doubt.
    """
    if ratio.low is None or ratio.high is None:
        return "observation"
    least = 1.0 if floor is None else edge(floor)
    if not (ratio.low > least or ratio.high < 1.0 / least):
        return "no difference"
    if doubts or (parity is not None and parity.verdict != "pass"):
        return "withheld"
    return "faster" if ratio.low > least else "slower"


def shown(ratio: Ratio) -> str:
    """A ratio as people read it."""
    saved = 100 * ratio.time_reduction
    text = f"{ratio.ratio:.2f}× ({f'{saved:+.0f} % time saved' if saved > -0.5 else f'{-saved:.0f} % more time'})"
    if ratio.low is None or ratio.high is None:
        return text
    return f"{text}, 95 % interval {ratio.low:.2f} to {ratio.high:.2f}, {ratio.n} paired seeds"


def edge(floor: Ratio) -> float:
    """The ratio up to which the A/A pair's interval reaches, at least 1."""
    reach = [abs(math.log(x)) for x in (floor.low, floor.high, floor.ratio) if x is not None and x > 0]
    return math.exp(max(reach, default=0.0))


def sentence(
    pair: str,
    ratio: Ratio,
    floor: Ratio | None,
    parity: Parity | None,
    *,
    margin: float,
    doubts: tuple[str, ...] = (),
) -> str:
    """One sentence on a pair of arms, and one on parity where it was asked for."""
    found = finding(ratio, floor, parity, doubts)
    if found == "observation":
        claim = f"{pair}: {shown(ratio)} on one seed, so without an interval: an observation, not a claim"
        claim += f" ({'; '.join(doubts)})" if doubts else ""
    elif found == "no difference":
        claim = f"{pair}: no detectable difference in time ({shown(ratio)}{_beside(floor)})"
    else:
        claim = f"{pair}: {shown(ratio)}{_beside(floor)}"
        if found == "withheld":
            reasons = [*doubts]
            if parity is not None and parity.verdict != "pass":
                reasons.insert(0, f"accuracy parity: {parity.verdict}")
            claim += f": measured, not claimed ({'; '.join(reasons)})"
    if 1 < ratio.n < OFFICIAL_SEEDS:
        claim += f"; preliminary, fewer than {OFFICIAL_SEEDS} seeds"
    if parity is None:
        return f"{claim}."
    return (
        f"{claim}. Accuracy parity: {parity.verdict} (difference {100 * parity.difference:+.1f} points, one-sided "
        f"95 % bound {100 * parity.low:+.1f}, margin -{100 * margin:.0f}, n = {parity.n} {parity.unit}"
        f"{_wanted(parity, margin)})."
    )


def _wanted(parity: Parity, margin: float) -> str:
    """How many seeds would do, where these don't."""
    if parity.verdict != "underpowered":
        return ""
    seeds = seeds_for_parity(parity, margin)
    if seeds is None:
        return "; more seeds would tell"
    return f"; if accuracy is equal, about {seeds} seeds show it in four cases of five"


def floor_sentence(floor: Ratio | None) -> str:
    """The noise floor, in words."""
    if floor is None:
        return "noise floor: unknown, the record has no A/A pair (--aa)"
    if floor.low is None or floor.high is None:
        return f"noise floor: A/A ratio {floor.ratio:.2f} on one seed, without an interval"
    alike = floor.low <= 1.0 <= floor.high
    said = "no difference, as it should be" if alike else "NOT 1: the machine favours one place in the order"
    return f"noise floor: A/A ratio {floor.ratio:.2f}, 95 % interval {floor.low:.2f} to {floor.high:.2f} ({said})"


def _beside(floor: Ratio | None) -> str:
    if floor is None or floor.low is None or floor.high is None:
        return ""
    return f"; A/A {floor.low:.2f} to {floor.high:.2f}"
