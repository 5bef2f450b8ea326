"""Timing that can be compared: cases take turns, round by round, and what is reported is a ratio within a round."""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Timed:
    """One piece of work; `units` is what it gets done (tokens, samples), `times` its seconds round by round."""

    name: str
    work: Callable[[], object]
    units: float = 1.0
    times: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Seconds."""
        return statistics.median(self.times)


def interleave(cases: Sequence[Timed], rounds: int, *, seed: int = 0) -> None:
    """Runs every case once unmeasured, then once a round in an order of the round's own."""
    order = random.Random(seed)
    for case in cases:
        case.work()
    for _ in range(rounds):
        for case in order.sample(list(cases), len(cases)):
            began = time.perf_counter()
            case.work()
            case.times.append(time.perf_counter() - began)


def ratio(a: Timed, b: Timed) -> tuple[float, float, float]:
    """Median, lowest and highest over rounds of a's time over b's."""
    found = [x / y for x, y in zip(a.times, b.times, strict=True)]
    return statistics.median(found), min(found), max(found)


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }


def write(path: Path | None, cases: Sequence[Timed], figures: dict[str, Any], **about: Any) -> None:
    """Writes times and figures as JSON, and what else there is to say `about` them."""
    if path is not None:
        times = {case.name: {"seconds": case.times, "units": case.units} for case in cases}
        path.write_text(
            json.dumps({"machine": machine(), **about, "times": times, "figures": figures}, indent=1) + "\n"
        )
