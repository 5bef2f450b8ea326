"""What there is to know about a task: what it declares, and what was measured of it.

The measured figures lie in `data/cards.json`, which `docs/make_tasks.py` writes: per level what policies
without skill earn on items of the train split (deterministic), and how long a step takes on one core (not).
"""

from __future__ import annotations

import functools
import json
import statistics
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tasks import splits
from tasks.baselines import baselines
from tasks.env import TextEnv
from tasks.spec import TaskSpec

FILE = Path(__file__).parent / "data" / "cards.json"
ITEMS, SANDBOXED_ITEMS = 1000, 100
_TIMED_EPISODES = 40


def declared(spec: TaskSpec) -> dict[str, Any]:
    """What a task says of itself, as plain values."""
    return {
        "id": spec.id,
        "version": spec.version,
        "title": spec.title,
        "description": spec.description,
        "licence": spec.licence,
        "source": spec.source,
        "splits": list(splits.SPLITS),
        "levels": list(spec.levels),
        "default_level": spec.default_level,
        "tiers": list(spec.tiers),
        "max_turns": spec.max_turns,
        "tools": list(spec.tools),
        "sandboxed": spec.sandboxed,
        "max_answer_chars": spec.max_answer_chars,
        "best_constant_cap": spec.best_constant_cap,
    }


def measured(spec: TaskSpec) -> dict[str, dict[str, Any]]:
    """The stored figures by level; empty for a task of somebody else's, or of another version."""
    card = _stored().get(spec.id, {})
    return card["levels"] if card.get("version") == spec.version else {}


def measure(spec: TaskSpec, level: int, *, items: int | None = None) -> dict[str, Any]:
    """Measures one level: the fields of `Baselines`, and the median time of an oracle's step in milliseconds."""
    count = items or (SANDBOXED_ITEMS if spec.sandboxed else ITEMS)
    figures = asdict(baselines(spec, items=count, level=level))
    return figures | {"step_ms": _step_ms(spec, level)}


@functools.cache
def _stored() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def _step_ms(spec: TaskSpec, level: int) -> float:
    env = TextEnv(spec)
    took = []
    for seed in range(_TIMED_EPISODES):
        env.reset(seed=seed, options={"level": level})
        for turn in spec.oracle(env.item):
            begun = time.perf_counter()
            env.step(turn)
            took.append(time.perf_counter() - begun)
    return float(f"{1000 * statistics.median(took):.2g}")
