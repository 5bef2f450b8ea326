"""How work is cut for the device at hand: the shapes that a run compiles, the same in every arm."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tunix_core.types import Bucket
from tunix_core.workers import usable_cores

ROW_LENGTHS = (1.6, 1.2, 1.0)
"""Of the longest episode: a row is filled for whichever it leaves emptiest. Lengths near each other beat a ladder of
halves: most rows are nearly full, and what is left over is little."""
PREFILL_TOKENS = 4_096
"""Of one prefill program on an accelerator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grain:
    """Sizes of the programs, and how many of them run at once."""

    part_slots: int
    """Sampler slots of a decode program; 0 = all in one."""
    max_prefill_lanes: int
    batch_tokens: int
    """Of one packed batch; a longer row travels alone."""
    workers: int


def grain_of(platform: str) -> Grain:
    """Many small programs side by side on a CPU, few large ones elsewhere.

    On two cores a program uses 1.1 to 1.4 of them however large it is; larger batches fall out of the cache,
    smaller ones pay more for being started (docs/speed.md). The sizes for accelerators are not measured.
    """
    if platform == "cpu":
        return Grain(part_slots=8, max_prefill_lanes=1, batch_tokens=224, workers=usable_cores())
    return Grain(part_slots=0, max_prefill_lanes=16, batch_tokens=4_096, workers=1)


def prefill_lanes(grain: Grain, slots: int, context: int) -> int:
    """Prompts of one prefill program, for contexts of up to so many tokens."""
    return max(1, min(grain.max_prefill_lanes, slots, PREFILL_TOKENS // context))


def buckets_for(longest: int, grain: Grain) -> tuple[Bucket, ...]:
    """Shapes of packed batches for episodes of up to `longest` tokens: three row lengths, one row count each.

    A tenant's rows take the shortest length that holds them, and all rows of a length travel in batches of one
    shape: so the bits of an update depend neither on the neighbours nor on the arm.
    """
    lengths = {max(8, math.ceil(longest * share / 8) * 8) for share in ROW_LENGTHS}
    return tuple(
        Bucket(rows=max(1, grain.batch_tokens // length), length=length)
        for length in sorted(lengths, reverse=True)
    )
