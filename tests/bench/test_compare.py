"""Only equal work is compared; every difference is found and named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.compare import Incomparable, UnequalWork, Unfinished, compare
from bench.errors import UsageError
from tests.leaderboard import golden

Row = dict[str, Any]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return golden.build(tmp_path / "run")


def edit(run: Path, name: str, change: Callable[[Row], object], *, arm: str | None = "A1") -> None:
    """Applies a change to every line of an arm, or of all arms."""
    path = run / f"{name}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        if arm in (None, row["arm"]):
            change(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def drop(run: Path, name: str, doomed: Callable[[Row], bool]) -> None:
    path = run / f"{name}.jsonl"
    kept = [line for line in path.read_text().splitlines() if not doomed(json.loads(line))]
    path.write_text("".join(line + "\n" for line in kept))


def in_a1(row: Row) -> bool:
    return row["arm"] == "A1"


def last_math_group(row: Row) -> bool:
    return in_a1(row) and row["tenant"] == "math" and row["ordinal"] == 3


def test_golden_arms_did_equal_work(run: Path) -> None:
    found = compare(run)
    assert (found.baseline.arm, found.product.arm, found.seeds) == ("S1", "A1", (7,))
    assert found.speedup.mean == pytest.approx(0.591 / 0.391)
    assert "speed-up of 1.51 (one seed: no interval)" in found.verdict
    assert "latency SIMULATED (remote-tools: lognormal, 0.4 s)" in found.verdict
    assert "device class cpu-sim: ratios do not transfer" in found.text()
    assert max(map(len, found.text().splitlines())) <= 100
    json.dumps(found.as_dict(), allow_nan=False)


def test_the_recorded_results_are_not_believed(run: Path) -> None:
    golden.edit_header(run, lambda h: h.update(results={"comparison": "A1 is a million times as fast"}))
    assert compare(run).speedup.mean == pytest.approx(0.591 / 0.391)


def test_seeds_give_an_interval(tmp_path: Path) -> None:
    found = compare(golden.build(tmp_path / "run", seeds=(7, 8)))
    assert found.speedup.n == 2
    assert "95 % interval 1.51 to 1.51, paired t over 2 seeds" in found.verdict


def test_an_interval_with_one_in_it_claims_nothing(tmp_path: Path) -> None:
    run = golden.build(tmp_path / "run", seeds=(7, 8))
    # in seed 8 A1 loses its lead: its last updates end 400 ms later
    edit(run, "updates", lambda u: u.update(t1_ns=u["t1_ns"] + 400 * golden.MS * (u["seed"] == 8)))
    found = compare(run)
    assert not found.speedup.detectable
    assert found.verdict.startswith("no detectable difference in time of A1 to S1")


def test_arms_can_be_chosen(run: Path) -> None:
    found = compare(run, baseline="A1", product="S1")
    assert found.speedup.mean == pytest.approx(0.391 / 0.591)
    assert compare(run, baseline="A1").product.arm == "S1"
    assert compare(run, product="S1").baseline.arm == "A1"


@pytest.mark.parametrize(
    "chosen", [{"baseline": "S9"}, {"product": "S9"}, {"baseline": "A1", "product": "A1"}]
)
def test_an_arm_that_is_not_there_is_a_usage_error(run: Path, chosen: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="S1, A1"):
        compare(run, **chosen)


@pytest.mark.parametrize("margin", [0.0, -0.1, 1.0, float("nan")])
def test_a_margin_that_cannot_be_is_a_usage_error(run: Path, margin: float) -> None:
    with pytest.raises(UsageError, match="margin"):
        compare(run, margin=margin)


def test_few_equal_items_are_underpowered_and_a_wide_margin_passes(run: Path) -> None:
    assert compare(run).parity_verdict == "underpowered"
    assert compare(run, margin=0.6).parity_verdict == "pass"


def test_lost_accuracy_fails(run: Path) -> None:
    edit(run, "evals", lambda e: e.update(reward=0.0) if e["eval_id"] else None)
    found = compare(run)
    assert found.parity_verdict == "fail"
    assert found.parity["math"].difference == -1.0


def test_without_a_final_evaluation_nothing_is_said_of_accuracy(run: Path) -> None:
    drop(run, "evals", lambda e: e["eval_id"] > 0)
    found = compare(run)
    assert "not evaluated" in found.verdict
    assert found.parity == {}


UNEQUAL: dict[str, tuple[Callable[[Path], object], str]] = {
    "a group less": (
        lambda run: drop(run, "rollouts", last_math_group),
        r"seed 7: consumed groups .*'math'.*, 2\): 1 in S1, 0 in A1",
    ),
    "smaller groups": (
        lambda run: drop(run, "rollouts", lambda r: in_a1(r) and r["sample_index"] == 1),
        r"consumed groups .*0 in S1, 1 in A1.*more differ",
    ),
    "a group not consumed": (
        lambda run: edit(run, "rollouts", lambda r: r.update(fate="stale") if last_math_group(r) else None),
        "consumed groups",
    ),
    "other items": (
        lambda run: edit(run, "rollouts", lambda r: r.update(item_uid="x") if last_math_group(r) else None),
        "consumed groups",
    ),
    "an update less": (
        lambda run: drop(
            run, "updates", lambda u: in_a1(u) and u["update_id"] == 1 and u["tenant"] == "code"
        ),
        "updates of tenant 'code': 2 in S1, 1 in A1",
    ),
    "another learning rate": (
        lambda run: edit(run, "updates", lambda u: u.update(learning_rate=0.001)),
        "learning rate",
    ),
    "other eval items": (lambda run: edit(run, "evals", lambda e: e.update(item_uid="x")), "evaluated items"),
    "an eval item less": (
        lambda run: drop(run, "evals", lambda e: in_a1(e) and e["eval_id"] == 1 and e["item_index"] == 3),
        "evaluated items",
    ),
    "other devices": (lambda run: edit(run, "spans", lambda s: s.update(device="cpu:1")), "devices"),
    "another start": (
        lambda run: golden.edit_header(
            run, lambda h: h["runs"][1]["adapters"]["math"].update(initial_sha256="1" * 64)
        ),
        "adapter at the start",
    ),
    "past the sampling cap": (
        lambda run: golden.edit_header(run, lambda h: h["sampling"]["eval"].update(max_new_tokens=1)),
        r"sampled a turn of \d+ tokens \(eval\), the cap is 1",
    ),
}


@pytest.mark.parametrize("case", UNEQUAL)
def test_unequal_work_is_refused_and_named(run: Path, case: str) -> None:
    spoil, named = UNEQUAL[case]
    spoil(run)
    with pytest.raises(UnequalWork, match=named) as caught:
        compare(run)
    assert caught.value.exit_code == 3
    assert len(str(caught.value)) < 400


def test_an_optimizer_that_stood_still_in_both_arms_is_refused(run: Path) -> None:
    edit(run, "updates", lambda u: u.update(learning_rate=0.0), arm=None)
    compare(run)  # nothing configured, nothing to miss
    golden.edit_header(run, lambda h: h["config"].update(learning_rate=0.003))
    with pytest.raises(UnequalWork, match=r"learning rate 0\.0, configured is 0\.003"):
        compare(run)
    golden.edit_header(run, lambda h: h["config"].update(warmup_updates=2))
    compare(run)


def test_arms_without_updates_have_no_work_to_compare(run: Path) -> None:
    (run / "updates.jsonl").write_text("")
    with pytest.raises(UnequalWork, match="made no update"):
        compare(run)


def test_a_run_that_did_not_succeed_is_refused_with_its_reason(run: Path) -> None:
    golden.edit_header(run, lambda h: h.update(status="interrupted", status_reason="stopped by Ctrl-C"))
    with pytest.raises(Unfinished, match="'interrupted': stopped by Ctrl-C") as caught:
        compare(run)
    assert caught.value.exit_code == 3


def test_a_header_that_claims_success_for_an_arm_cut_short_is_not_enough(run: Path) -> None:
    golden.edit_line(run, "events.jsonl", -1, lambda e: e["value"].update(status="error"))
    with pytest.raises(Incomparable, match="A1, seed 7"):
        compare(run)


def test_a_seed_that_never_started_is_refused(run: Path) -> None:
    golden.edit_header(run, lambda h: h.update(seeds=[7, 8]))
    with pytest.raises(Unfinished, match="S1, seed 8 never started"):
        compare(run)
