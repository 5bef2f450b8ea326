"""Named suites: a task mix, an amount of work and a cadence of evaluation, frozen under a version.

A suite is a layer of the configuration, above the defaults and below everything a user says. A run that says
otherwise about what a suite fixes is recorded with the keys it changed: it is no run of the suite any more.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.errors import UsageError

FREE = frozenset(
    {
        "suite", "arms", "seeds", "seed", "aa", "out", "tracker", "data", "max_time", "compile_cache",
        "env_workers", "no_progress_s",
    }
)  # fmt: skip
"""Keys that a suite leaves to its user: how often it is run, where, and what becomes of the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """What is run under a name; any other setting gets another version."""

    name: str
    version: int
    about: str
    settings: Mapping[str, Any]


_ALL = (
    Suite(
        name="quick",
        version=2,
        about="Three short jobs behind simulated tools; four arms, an A/A pair and five seeds on two cores in half "
        "an hour.",
        settings={
            "tasks": ["math", "code", "search"],
            "arms": ["S0", "S1", "A0", "A1"],
            "seeds": 5,
            "aa": True,
            "latency": "lognormal:median=0.2,p95=0.8",
            "updates": 12,
            "group_size": 8,
            "groups_per_update": 4,
            "eval_every": 3,
            "eval_items": 64,
            # medians of where ten seeds of S1 ended (1000 to 1009), less 2 points: 0.92 and 1.0. Code went from 0.33 to
            # 0.41, with 0.31 to 0.50 among the seeds: too little above chance to be a target
            "targets": {"math": 0.90, "search": 0.98},
        },
    ),
    Suite(
        name="standard",
        version=1,
        about="The main job of the README with five seeds and an A/A pair: accuracies near their end, and items "
        "enough to speak of parity.",
        settings={
            "tasks": ["math", "code", "search"],
            "arms": ["S0", "S1", "A0", "A1"],
            "seeds": 5,
            "aa": True,
            "latency": "remote-tools",
            "updates": 16,
            "group_size": 8,
            "groups_per_update": 8,
            "eval_every": 2,
            "eval_items": 256,
        },
    ),
)

SUITES: Mapping[str, Suite] = {suite.name: suite for suite in _ALL}


def find(name: str) -> Suite:
    """The suite of a name. Raises UsageError with the nearest names."""
    if name in SUITES:
        return SUITES[name]
    near = difflib.get_close_matches(name.lower(), SUITES, n=2, cutoff=0.4)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {', '.join(SUITES)}"
    raise UsageError(f"suite {name!r} not found", hint)


def changed(name: str, config: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """Keys in which a resolved configuration differs from what the suite fixes, in order of name."""
    fixed = {**defaults, **find(name).settings}
    return sorted(key for key, value in config.items() if key not in FREE and value != fixed[key])
