"""Whatever a record holds, verification answers: refused with a code or inert, never a traceback."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaderboard import bundle
from leaderboard.verify import EXPLAIN, verify

FILES = (
    "run.json",
    "events.jsonl",
    "spans.jsonl",
    "rollouts.jsonl",
    "updates.jsonl",
    "evals.jsonl",
    "system.json",
)
NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 2**53, 2**63 - 1, 10**400, 1e308, -1e-308, "", "\u202egnp.exe", "\x1b[31m", "=1+1",
    "<script>alert(1)</script>", "../../etc/passwd", "\ud800", [], {}, [[[[[]]]]], {"a": {"a": {}}}, "9" * 5000,
)  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) below a JSON value."""
    found: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        node = stack.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        for key in keys:
            found.append((node, key))
            stack.append(node[key])
    return found


def mutate(run: Path, rng: random.Random) -> str:
    """Changes one value of one line: replaced, removed, doubled or moved."""
    # an earlier change may have taken a file's only line
    path = rng.choice([run / name for name in FILES if (run / name).stat().st_size])
    lines = path.read_text(encoding="utf-8").splitlines()
    number = rng.randrange(len(lines))
    value = json.loads(lines[number])
    if not (within := places(value)):  # nor a line's only value
        return f"{path.name}:{number + 1} left"
    container, key = rng.choice(within)
    what = rng.choice(("replace", "replace", "remove", "wrap", "line twice", "line gone"))
    if what == "replace":
        container[key] = rng.choice(NASTY)
    elif what == "remove":
        del container[key]
    elif what == "wrap":
        container[key] = [container[key]]
    lines[number : number + 1] = {"line twice": [lines[number]] * 2, "line gone": []}.get(
        what, [json.dumps(value)]
    )
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return f"{path.name}:{number + 1} {what} {str(key)[:40]}"


@given(seed=st.integers(0, 2**32))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_changed_structure_never_crashes_verification(golden_run: Path, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    run = tmp_path / "run"
    shutil.rmtree(run, ignore_errors=True)  # of an example that failed
    shutil.copytree(golden_run, run)
    done = [mutate(run, rng) for _ in range(rng.randint(1, 3))]
    bundle.seal(run)
    report = verify(run)
    assert report.counts.keys() <= EXPLAIN.keys(), done
    json.dumps(report.to_dict())
