"""Every tampering is refused with its code, also by a forger who recomputes every hash and figure."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaderboard import bundle
from leaderboard.verify import EXPLAIN, verify
from leaderboard.verify.report import MAX_PER_CODE
from tests.leaderboard import golden

Change = Callable[[Path], object]


def line(name: str, number: int, **changes: Any) -> Change:
    return lambda run: golden.edit_line(run, f"{name}.jsonl", number, lambda value: value.update(changes))


def header(**changes: Any) -> Change:
    return lambda run: golden.edit_header(run, lambda value: value.update(changes))


def in_header(change: Callable[[dict[str, Any]], object]) -> Change:
    return lambda run: golden.edit_header(run, change)


def drop(name: str, number: int) -> Change:
    def change(run: Path) -> None:
        path = run / f"{name}.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        del lines[number]
        path.write_text("".join(lines))

    return change


def swap_times(run: Path) -> None:
    """Exchanges the times of the first two publications, which lie in different rounds."""
    events = [json.loads(text) for text in (run / "events.jsonl").read_text().splitlines()]
    first, *_, last = [i for i, event in enumerate(events) if event["key"] == "adapter.published"][:4]
    line("events", first, t_ns=events[last]["t_ns"])(run)
    line("events", last, t_ns=events[first]["t_ns"])(run)


def move_start(run: Path) -> None:
    """Starts the clock just before it stops, as passes other suites' checkers."""
    events = [json.loads(text) for text in (run / "events.jsonl").read_text().splitlines()]
    start = next(i for i, event in enumerate(events) if event["key"] == "run_start")
    stop = next(event for event in events if event["key"] == "run_stop")
    line("events", start, t_ns=stop["t_ns"] - 1)(run)


def first_reward_flipped(name: str) -> Change:
    def change(run: Path) -> None:
        golden.edit_line(
            run, f"{name}.jsonl", 1, lambda v: v.update(reward=1.0 - v["reward"], grade_status="correct")
        )

    return change


def in_turn(name: str, number: int, turn: int, **changes: Any) -> Change:
    return lambda run: golden.edit_line(
        run, f"{name}.jsonl", number, lambda value: value["turns"][turn].update(changes)
    )


def train_on_evaluated_item(run: Path) -> None:
    item = json.loads((run / "evals.jsonl").read_text().splitlines()[0])
    line(
        "rollouts",
        0,
        **{key: item[key] for key in ("env_id", "split", "env_seed", "item_index", "item_uid", "turns")},
    )(run)


FORGED: dict[str, tuple[Change, set[str]]] = {
    "reward flipped": (first_reward_flipped("rollouts"), {"E161"}),
    "evaluated item's reward flipped": (first_reward_flipped("evals"), {"E161"}),
    "status changed": (line("rollouts", 0, grade_status="wrong"), {"E161"}),
    "wrong answer replaced by nothing": (line("rollouts", 0, turns=[], reward=1.0), {"E161"}),
    "an errored episode with a reward": (
        line("rollouts", 0, error="timeout", fate="errored", consumed_in=None),
        {"E161"},
    ),
    "order of times swapped": (swap_times, {"E131"}),
    "an update ends before it begins": (line("updates", 0, t1_ns=1), {"E131"}),
    "clock moved to just before its end": (move_start, {"E131", "E132"}),
    "wall clock contradicts": (
        header(clock={"wall_start_utc": 0.0, "wall_stop_utc": 60.0, "monotonic_stop_ns": 10**9}),
        {"E131"},
    ),
    "rollout before the clock": (line("rollouts", 0, t_start_ns=0), {"E132"}),
    "span stretched past the window": (line("spans", -1, t1_ns=10**12), {"E141"}),
    "span of no length": (line("spans", 0, t1_ns=1), {"E141"}),
    "more work than was executed": (line("spans", 0, real_tokens=401), {"E141"}),
    "span of an unknown device": (line("spans", 0, device="cpu:9"), {"E141"}),
    "rollout left out": (drop("rollouts", 0), {"E151"}),
    "ledger off by one token": (
        in_header(lambda h: h["runs"][0]["ledger"]["math"]["tokens"].update(consumed=1)),
        {"E151"},
    ),
    "rollout twice": (line("rollouts", 1, rollout_id="math.0.0"), {"E151"}),
    "consumed by no update": (line("rollouts", 0, consumed_in=9), {"E152"}),
    "consumed before it ended": (line("rollouts", 0, t_end_ns=1_590_000_000), {"E152"}),
    "staler than the arm allows": (
        in_header(lambda h: h["arms"][1].update(max_staleness=0)),
        {"E152"},
    ),
    "oldest version relabelled": (line("rollouts", 0, oldest_version=1), {"E153"}),
    "staleness relabelled": (line("rollouts", 0, staleness=1), {"E153"}),
    "a version from the future": (
        in_turn("rollouts", 0, 1, policy_version=[2] * 19),
        {"E153"},
    ),
    "a version skipped": (line("updates", 0, version_after=2), {"E153"}),
    "staleness histogram": (line("updates", -1, staleness={"0": 40}), {"E153"}),
    "another learning rate": (line("updates", 0, learning_rate=0.1), {"E154"}),
    "another start": (
        in_header(lambda h: h["runs"][0]["adapters"]["math"].update(initial_sha256="1" * 64)),
        {"E154"},
    ),
    "less work": (drop("updates", -1), {"E155"}),
    "another item": (line("rollouts", 0, item_uid="0" * 64), {"E162", "E155"}),
    "another prompt": (in_turn("rollouts", 0, 0, text="1+1=?"), {"E162"}),
    "trained on an evaluated item": (train_on_evaluated_item, {"E162"}),
    "token count": (line("rollouts", 0, completion_tokens=99), {"E163"}),
    "log-probabilities missing": (in_turn("rollouts", 0, 1, behavior_logprobs=[]), {"E163"}),
    "unknown stop": (line("rollouts", 0, stop="done"), {"E163"}),
    "failed item left out": (drop("evals", 1), {"E164"}),
    "item evaluated twice": (line("evals", 1, item_index=0), {"E164"}),
    "another version of the task": (
        in_header(lambda h: h["tasks"]["Math/Add-v0"].update(version="0.0")),
        {"E121"},
    ),
    "another grader": (
        in_header(lambda h: h["tasks"]["Math/Add-v0"].update(grader_hash="0" * 64)),
        {"E121"},
    ),
    "an unlisted task": (in_header(lambda h: h["tasks"].pop("Math/Add-v0")), {"E121"}),
    "an arm left out": (in_header(lambda h: h["runs"].pop()), {"E123"}),
    "an interrupted run": (header(status="interrupted"), {"E123"}),
    "a secret": (header(command=["bench", "run", "--tracker-key", "hf_" + "a" * 30]), {"E182"}),
    "a password in a URL": (header(command=["--hub", "https://me:secret@example.org/x"]), {"E182"}),
}


def test_an_untouched_run_passes(golden_run: Path) -> None:
    report = verify(golden_run)
    assert report.ok, report.findings
    assert report.checked == {
        "rollouts_regraded": 48,
        "rollouts_errored": 0,
        "evals_regraded": 48,
        "evals_errored": 0,
    }


def test_several_seeds_pass(tmp_path: Path) -> None:
    report = verify(golden.build(tmp_path / "run", seeds=(1, 2)))
    assert report.ok, report.findings
    assert "W203" not in report.counts


@pytest.mark.parametrize("name", FORGED)
def test_a_forgery_with_recomputed_hashes_is_refused(
    run: Path, name: str, codes: Callable[[Path], tuple[str, ...]]
) -> None:
    change, expected = FORGED[name]
    change(run)
    golden.recompute(run)
    found = set(codes(run))
    assert expected <= found
    assert not found & {"E111", "E112", "E142", "E172"}


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("reward", first_reward_flipped("rollouts"), "E111"),
        ("time", swap_times, "E112"),
        ("event dropped", drop("events", -1), "E112"),
        ("event dropped in the middle", drop("events", 5), "E112"),
        (
            "utilization",
            in_header(lambda h: h["results"]["runs"][0]["metrics"].update(util_busy=1.5)),
            "E142",
        ),
        (
            "accuracy",
            in_header(lambda h: h["results"]["runs"][0]["metrics"]["accuracy"]["math"].update(change=0.9)),
            "E164",
        ),
        ("speed-up", in_header(lambda h: h["results"]["comparison"]["arms"]["A1"].update(speedup=9)), "E172"),
        ("no results", header(results={}), "E142"),
        ("nan", lambda run: (run / "metrics.jsonl").write_text('{"a":NaN}\n'), "E102"),
        ("unlisted file", lambda run: (run / "extra.txt").write_text("x"), "E111"),
        ("missing file", lambda run: (run / "spans.jsonl").unlink(), "E103"),
        ("unsealed", lambda run: (run / "manifest.json").unlink(), "E103"),
        ("link", lambda run: (run / "extra").symlink_to("/etc/hostname"), "E101"),
        ("unknown field", header(extra=1), "E103"),
        ("newer schema", header(schema="bench.run/2"), "E102"),
        ("a number as text", line("spans", 0, t0_ns="1"), "E102"),
        ("not JSON", lambda run: (run / "run.json").write_text("{"), "E102"),
    ],
)
def test_a_plain_change_is_refused(
    run: Path, name: str, change: Change, code: str, codes: Callable[[Path], tuple[str, ...]]
) -> None:
    del name
    change(run)
    assert code in codes(run)


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), name=st.sampled_from(range(9)))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_changed_byte_anywhere_is_refused(run: Path, place: float, bit: int, name: int) -> None:
    files = [file for file in bundle.files(run) if (run / file).stat().st_size]
    path = run / [*files, bundle.MANIFEST][name % (len(files) + 1)]
    original = path.read_bytes()
    index = int(place * len(original))
    changed = bytearray(original)
    changed[index] ^= 1 << bit
    path.write_bytes(bytes(changed))
    try:
        report = verify(run)
    finally:
        path.write_bytes(original)
    assert not report.ok
    assert set(report.codes) & {"E101", "E102", "E103", "E111"}


def test_all_checks_run_and_findings_say_what_where_and_what_to_do(run: Path) -> None:
    first_reward_flipped("rollouts")(run)
    line("spans", 0, device="cpu:9")(run)
    report = verify(run)
    assert {"E111", "E141", "E161"} <= set(report.codes)
    reward = next(f for f in report.errors if f.code == "E161")
    assert reward.place == "rollouts.jsonl:2"
    assert reward.reason.startswith("reward is 1.0, replay gives 0.0")
    assert reward.hint
    assert json.loads(json.dumps(report.to_dict()))["ok"] is False


def test_a_flood_of_findings_is_counted_not_listed(run: Path) -> None:
    path = run / "rollouts.jsonl"
    path.write_text(
        path.read_text().replace('"reward":1.0', '"reward":0.5').replace('"reward":0.0', '"reward":0.5')
    )
    report = verify(run)
    assert report.counts["E161"] == 48
    assert sum(finding.code == "E161" for finding in report.findings) == MAX_PER_CODE


def test_every_code_is_explained(run: Path) -> None:
    used = set().union(*(expected for _, expected in FORGED.values()))
    assert used <= EXPLAIN.keys()
    assert verify(run).counts.keys() <= EXPLAIN.keys()


def test_a_home_path_is_a_warning(run: Path) -> None:
    header(command=["bench", "run", "--out", "/home/ada/run"])(run)
    golden.recompute(run)
    report = verify(run)
    assert report.ok
    assert report.counts["E182"] == 1


def test_a_limited_run_passes_and_is_marked(tmp_path: Path) -> None:
    report = verify(golden.build(tmp_path / "run", limit_applied=True))
    assert report.ok
    assert report.counts["W202"] == 1


def test_leaderboard_loads_no_trainer_and_no_device_library() -> None:
    code = (
        "import sys, leaderboard.submit, leaderboard.site, leaderboard.verify; "
        "bad = {'jax', 'flax', 'optax', 'wandb', 'tunix_core', 'bench'} & set(sys.modules); "
        "sys.exit(', '.join(sorted(bad)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
